"""Comparisons: one prompt and seed along one or two axes. What is made, in which order, at what
cost. Every cell is a valid request before the first one is submitted. No Gradio, and no threads.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from tpu_ui.dispatch.interface import Dispatcher, Status
from tpu_ui.errors import InvalidRequestError, LockedError
from tpu_ui.request import GenerationRequest, Limits, validate
from tpu_ui.shapes import ImageSize, Mode, ProgramState, shown
from tpu_ui.wildcards import draw

MAX_CELLS = 16
MAX_AXES = 2


class Axis(StrEnum):
    """What differs from cell to cell: a field of a request."""

    MODE = "mode"
    MODEL = "model"
    SIZE = "size"
    STEPS = "steps"
    GUIDANCE = "guidance"
    SEED = "seed"


OF_NUMBERS: Mapping[Axis, Callable[[str], float]] = {
    Axis.STEPS: int,
    Axis.GUIDANCE: float,
    Axis.SEED: int,
}


@dataclass(frozen=True, slots=True)
class Line:
    """One axis and its values, as they came: text or numbers."""

    axis: Axis
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """One picture. `column` and `row` count from 0."""

    column: int
    row: int
    request: GenerationRequest


@dataclass(frozen=True, slots=True)
class Comparison:
    """`columns` and `rows` are the axes' values in order; without a second axis there is one row
    and `rows` is None. `cells` come in the order in which they are made."""

    columns: Line
    rows: Line | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a comparison takes. `seconds` adds up what is known; of `unknown` parts nobody knows."""

    pictures: int
    loads: tuple[str, ...]
    compiles: tuple[tuple[str, Mode, ImageSize], ...]
    seconds: float
    unknown: int


def planned(
    dispatcher: Dispatcher, fields: Mapping[str, object], lines: Sequence[Line]
) -> Comparison:
    """The comparison of `fields`, which are those of `request.validate` and "model", along these
    lines. Choices in the prompts are drawn once, a seed too.

    Along models, each other model takes the steps and the guidance scale that it proposes, where
    these are not an axis. Raises InvalidRequestError, or LockedError for what is not ready.
    """
    lines = [_read(line) for line in lines]
    _check(lines)
    fields = _settled(dispatcher, fields, lines)
    columns, rows = lines[0], lines[1] if len(lines) > 1 else None
    cells = []
    for row, column in product(range(len(rows.values) if rows else 1), range(len(columns.values))):
        values: dict[str, object] = {columns.axis: columns.values[column]}
        if rows:
            values[rows.axis] = rows.values[row]
        cells.append(Cell(column, row, _request(dispatcher, fields, values)))
    status = dispatcher.status()
    if status.locked:
        _check_ready(status, cells)
    return Comparison(columns, rows, _in_order(cells, status.model))


def cost(dispatcher: Dispatcher, comparison: Comparison) -> Cost:
    """What the comparison takes at this moment, jobs of others aside."""
    parts: list[float | None] = []
    loads: list[str] = []
    compiles: list[tuple[str, Mode, ImageSize]] = []
    for cell in comparison.cells:
        request = cell.request
        takes = dispatcher.takes(request)
        programs = (request.model, request.mode, request.size)
        parts.append(takes.pictures_s)
        if takes.model_s != 0 and request.model not in loads:
            loads.append(request.model)
            parts.append(takes.model_s)
        if takes.programs_s != 0 and programs not in compiles:
            compiles.append(programs)
            parts.append(takes.programs_s)
    known = [seconds for seconds in parts if seconds is not None]
    return Cost(
        len(comparison.cells), tuple(loads), tuple(compiles), sum(known), len(parts) - len(known)
    )


def offered(dispatcher: Dispatcher, axis: Axis, limits: Limits, mode: Mode) -> tuple[str, ...]:
    """Values of an axis that can be chosen now; of numbers, some to start from.

    `limits` are those of the model in the form, and `mode` is the mode there. While the sizes are
    locked, only what is ready is on offer.
    """
    status = dispatcher.status()
    match axis:
        case Axis.MODE:
            return tuple(one for one in reversed(limits.modes) if _open(status, limits, one))
        case Axis.SIZE:
            return tuple(map(str, _open(status, limits, mode)))
        case Axis.STEPS:
            steps = limits.steps
            return _spread(steps.minimum, steps.default, steps.maximum)
        case Axis.GUIDANCE:
            scale = limits.guidance
            return _spread(scale.minimum, scale.default, scale.maximum)
        case Axis.SEED:
            return ("1", "2", "3", "4")
        case Axis.MODEL:
            return (status.model,) if status.locked else tuple(dispatcher.presets)


def _open(status: Status, limits: Limits, mode: Mode) -> list[ImageSize]:
    """The sizes that may be asked for in this mode."""
    if not status.locked:
        return list(limits.available_sizes)
    known = status.sizes.get(mode, {}) if limits.model == status.model else {}
    return [size for size, one in known.items() if one.state is ProgramState.READY]


def _spread(minimum: float, default: float, maximum: float) -> tuple[str, ...]:
    """Four values around the model's own, none twice; whole numbers stay whole."""
    wanted = (default / 4, default / 2, default, default * 1.5)
    if isinstance(default, int):
        near: Iterable[float] = (round(one) for one in wanted)
    else:
        near = (round(one, 1) for one in wanted)
    return tuple(dict.fromkeys(f"{min(max(one, minimum), maximum):g}" for one in near))


def _read(line: Line) -> Line:
    """Numbers that were typed, as numbers."""
    return Line(line.axis, tuple(_value(line.axis, value) for value in line.values))


def _value(axis: Axis, value: object) -> object:
    if axis not in OF_NUMBERS or not isinstance(value, str):
        return value
    try:
        return OF_NUMBERS[axis](value.strip())
    except ValueError:
        raise InvalidRequestError(f"{shown(value)} is not a number for {axis}.") from None


def _check(lines: Sequence[Line]) -> None:
    if not 1 <= len(lines) <= MAX_AXES:
        raise InvalidRequestError("Choose one axis to compare along, or two.")
    if len({line.axis for line in lines}) != len(lines):
        raise InvalidRequestError(f"Both axes are {lines[0].axis}; choose another one.")
    for line in lines:
        if not line.values:
            raise InvalidRequestError(f"Choose the values of {line.axis} to compare.")
    cells = math.prod(len(line.values) for line in lines)
    if cells > MAX_CELLS:  # before they are looked at: there may be thousands
        raise InvalidRequestError(f"That is {cells} pictures; at most {MAX_CELLS} are compared.")
    for line in lines:
        for value in line.values:
            if line.values.count(value) > 1:
                raise InvalidRequestError(f"{_said(value)} is there twice in {line.axis}.")


def _said(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= 60 else shown(value)


def _settled(
    dispatcher: Dispatcher, fields: Mapping[str, object], lines: Sequence[Line]
) -> dict[str, object]:
    """With a model, one seed, and every choice in the prompts made."""
    model = fields.get("model") or dispatcher.status().model
    settled = {**fields, "model": model, "count": 1}
    seeds = [line.values[0] for line in lines if line.axis is Axis.SEED]
    texts = {name: settled.get(name) for name in ("prompt", "negative_prompt")}
    first = validate(
        dispatcher.limits(_name(model)), **texts, seed=seeds[0] if seeds else settled.get("seed")
    )
    prompt, negative_prompt = (draw(text, first.seed) for text in first.written)
    return {
        **settled, "prompt": prompt, "negative_prompt": negative_prompt, "seed": first.seed
    }  # fmt: skip


def _request(
    dispatcher: Dispatcher, fields: Mapping[str, object], values: Mapping[str, object]
) -> GenerationRequest:
    """One cell. Raises InvalidRequestError that names it."""
    base = dict(fields)
    if values.get(Axis.MODEL, base["model"]) != base["model"]:
        base |= {Axis.STEPS: None, Axis.GUIDANCE: None}
    wanted = base | dict(values)
    model = wanted.pop("model")
    try:
        return validate(dispatcher.limits(_name(model)), **wanted)
    except InvalidRequestError as error:
        where = ", ".join(f"{axis} {_said(value)}" for axis, value in values.items())
        raise InvalidRequestError(f"With {where}: {error}") from error


def _name(model: object) -> str:
    if not isinstance(model, str):
        raise InvalidRequestError(f"A model is named by text, not {shown(model)}.")
    return model


def _check_ready(status: Status, cells: Iterable[Cell]) -> None:
    ready = {
        (status.model, mode, size)
        for mode, sizes in status.sizes.items()
        for size, one in sizes.items()
        if one.state is ProgramState.READY
    }
    for cell in cells:
        request = cell.request
        if request.model != status.model:
            raise LockedError(
                f"The sizes are locked, and model {request.model} is not loaded."
                f" Compare with {status.model} alone."
            )
        if (request.model, request.mode, request.size) not in ready:
            listed = ", ".join(f"{size} in {mode} mode" for _, mode, size in sorted(ready, key=str))
            raise LockedError(
                f"The sizes are locked, and {request.size} is not ready in {request.mode} mode."
                f" Ready: {listed or 'nothing yet'}."
            )


def _in_order(cells: Sequence[Cell], loaded: str) -> tuple[Cell, ...]:
    """So that no model is loaded twice, the one that is there comes first, and programs change as
    rarely as they can."""
    requests = [cell.request for cell in cells]
    models = list(dict.fromkeys([loaded, *(request.model for request in requests)]))
    modes = list(dict.fromkeys(request.mode for request in requests))
    sizes = list(dict.fromkeys(request.size for request in requests))

    def place(cell: Cell) -> tuple[int, int, int]:
        request = cell.request
        return models.index(request.model), modes.index(request.mode), sizes.index(request.size)

    return tuple(sorted(cells, key=place))
