"""What the page says of a comparison: labels, cost, the grid as HTML. Pure functions, no Gradio."""

import html
from collections.abc import Mapping, Sequence
from typing import assert_never

from tpu_ui.compare import Axis, Comparison, Cost, Line
from tpu_ui.grid import GridCell
from tpu_ui.metadata import ImageInfo
from tpu_ui.shapes import ImageSize, Mode
from tpu_ui.ui import view
from tpu_ui.ui.words import Words

AXIS_TITLES = {
    Axis.MODE: "Mode",
    Axis.STEPS: "Steps",
    Axis.GUIDANCE: "Guidance scale",
    Axis.SIZE: "Size",
    Axis.SEED: "Seed",
    Axis.MODEL: "Model",
}
NO_AXIS, NO_AXIS_TITLE = "", "Nothing else"
NOTHING = '<div class="tpu-compare"></div>'
WAITS = "Waits."
VALUES, NUMBERS = "Values", "Values; others can be typed"

Titles = Mapping[str, str]  # of the models, by name
Notes = Mapping[tuple[int, int], str]
Shown = Mapping[tuple[int, int], tuple[str, str]]  # address of a small copy, and of the picture


def value_title(words: Words, axis: Axis, value: object, titles: Titles) -> str:
    """A value with its unit: "4 steps", "Compiled"."""
    match axis:
        case Axis.MODE:
            return words(view.MODE_TITLES[Mode(str(value))])
        case Axis.MODEL:
            return titles.get(str(value), str(value))
        case Axis.SIZE:
            return str(value)
        case Axis.STEPS:
            return words.counted(int(str(value)), "step")
        case Axis.GUIDANCE:
            return words("Guidance {scale}", scale=f"{float(str(value)):g}")
        case Axis.SEED:
            return words("Seed {seed}", seed=value)
        case _:
            assert_never(axis)


def value_titles(words: Words, line: Line | None, titles: Titles) -> tuple[str, ...]:
    """Those of a whole axis; of none, one that is empty."""
    if line is None:
        return ("",)
    return tuple(value_title(words, line.axis, value, titles) for value in line.values)


def named(words: Words, comparison: Comparison, column: int, row: int, titles: Titles) -> str:
    """A cell: "4 steps, Compiled"."""
    parts = (
        value_titles(words, comparison.columns, titles)[column],
        value_titles(words, comparison.rows, titles)[row],
    )
    return ", ".join(part for part in parts if part)


def axis_titles(words: Words) -> list[tuple[str, str]]:
    """For a picker of axes."""
    return [(words(AXIS_TITLES[axis]), axis.value) for axis in AXIS_TITLES]


def cost_text(words: Words, cost: Cost, titles: Titles) -> str:
    """Everything that a comparison takes, said before it begins."""
    pictures = words.counted(cost.pictures, "picture")
    time = words.about(cost.seconds if cost.seconds or not cost.unknown else None)
    if cost.unknown and cost.seconds:
        told = words("{pictures}, {time} and what is not known yet.", pictures=pictures, time=time)
    else:
        told = words("{pictures}, {time}.", pictures=pictures, time=time)
    said = [told]
    if cost.loads:
        models = ", ".join(titles.get(name, name) for name in cost.loads)
        said.append(words("Loads {models}, for everybody here.", models=models))
    if cost.compiles:
        programs = ", ".join(
            _programs(words, name, mode, size, cost, titles) for name, mode, size in cost.compiles
        )
        said.append(words("Compiles first: {programs}.", programs=programs))
    if not cost.loads and not cost.compiles:
        said.append(words("Nothing to load or to compile."))
    return " ".join(said)


def _programs(
    words: Words, name: str, mode: Mode, size: ImageSize, cost: Cost, titles: Titles
) -> str:
    in_mode = words(view.MODE_TITLES[mode]).lower()
    if not cost.loads:
        return words("{size} ({mode})", size=size, mode=in_mode)
    model = titles.get(name, name)
    return words("{size} of {model} ({mode})", size=size, model=model, mode=in_mode)


def note(words: Words, info: ImageInfo, warm_up_programs: int, warm_up_s: float) -> str:
    """Under a picture: seconds, and the programs that were compiled for it."""
    seconds = info.timings_s.encode + info.timings_s.denoise + info.timings_s.decode
    told = {
        "time": words.duration(seconds),
        "programs": words.counted(warm_up_programs + info.programs_compiled, "program"),
    }
    if not warm_up_programs:
        return words("{time}, {programs}", **told)
    return words("{time}, {programs} in {warm_up}", warm_up=words.duration(warm_up_s), **told)


def ended(
    words: Words, cells: Sequence[GridCell], count: int, cancelled: bool, elapsed_s: float
) -> str:
    """The last sentence about a comparison."""
    made = sum(cell.path is not None for cell in cells)
    pictures, time = words.counted(made, "picture"), words.duration(elapsed_s)
    if cancelled:
        of = words.counted(count, "picture")
        return words("Cancelled: {made} of {pictures} made.", made=made, pictures=of)
    if made == count:
        return words("Done: {pictures} in {time}.", pictures=pictures, time=time)
    return words(
        "Done: {pictures} in {time}, {failed} failed.",
        pictures=pictures,
        time=time,
        failed=count - made,
    )


def grid_html(
    words: Words,
    comparison: Comparison,
    cells: Sequence[GridCell],
    shown: Shown,
    notes: Notes,
    titles: Titles,
) -> str:
    """The grid as it is now. Each place has its picture's shape from the beginning. `notes` are
    those of `cells` in the page's language."""
    done = {(cell.column, cell.row): cell for cell in cells}
    sizes = {(cell.column, cell.row): cell.request.size for cell in comparison.cells}
    columns = value_titles(words, comparison.columns, titles)
    rows = value_titles(words, comparison.rows, titles)
    corner = "<td></td>" if comparison.rows else ""
    heads = "".join(f'<th scope="col">{html.escape(one)}</th>' for one in columns)
    lines = []
    for row, title in enumerate(rows):
        head = f'<th scope="row">{html.escape(title)}</th>' if comparison.rows else ""
        places = "".join(
            _place(
                done.get((column, row)),
                sizes[column, row],
                shown.get((column, row)),
                named(words, comparison, column, row, titles),
                notes.get((column, row), words(WAITS)),
            )
            for column in range(len(columns))
        )
        lines.append(f"<tr>{head}{places}</tr>")
    wide = f"--columns: {len(columns)}"
    return (
        f'<div class="tpu-compare"><table style="{wide}"><thead><tr>{corner}{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _place(
    cell: GridCell | None,
    size: ImageSize,
    addresses: tuple[str, str] | None,
    name: str,
    note: str,
) -> str:
    picture = ""
    if addresses is not None:
        small, whole = (html.escape(address) for address in addresses)
        picture = (
            f'<a href="{whole}" target="_blank"><img src="{small}" alt="{html.escape(name)}"></a>'
        )
    state = "waits" if cell is None else "failed" if cell.path is None else "made"
    shape = f"aspect-ratio: {size.width_px} / {size.height_px}"
    said = html.escape(note)
    return f'<td data-state="{state}"><div style="{shape}">{picture}</div><p>{said}</p></td>'
