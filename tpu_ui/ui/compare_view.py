"""What the page says of a comparison: labels, cost, the grid as HTML. Pure functions, no Gradio."""

import html
from collections.abc import Mapping, Sequence
from typing import assert_never

from tpu_ui.compare import Axis, Comparison, Cost, Line
from tpu_ui.grid import GridCell
from tpu_ui.metadata import ImageInfo
from tpu_ui.shapes import ImageSize, Mode
from tpu_ui.ui import view

AXIS_TITLES = {
    Axis.MODE: "Mode",
    Axis.STEPS: "Steps",
    Axis.GUIDANCE: "Guidance scale",
    Axis.SIZE: "Size",
    Axis.SEED: "Seed",
    Axis.MODEL: "Model",
}
NO_AXIS = ("Nothing else", "")
NOTHING = '<div class="tpu-compare"></div>'
WAITS = "Waits."
VALUES, NUMBERS = "Values", "Values; others can be typed"

Titles = Mapping[str, str]  # of the models, by name
Shown = Mapping[tuple[int, int], tuple[str, str]]  # address of a small copy, and of the picture


def label(axis: Axis, value: object, titles: Titles) -> str:
    """A value with its unit: "4 steps", "Compiled"."""
    match axis:
        case Axis.MODE:
            return view.MODE_TITLES[Mode(str(value))]
        case Axis.MODEL:
            return titles.get(str(value), str(value))
        case Axis.SIZE:
            return str(value)
        case Axis.STEPS:
            return view.counted(int(str(value)), "step")
        case Axis.GUIDANCE:
            return f"Guidance {float(str(value)):g}"
        case Axis.SEED:
            return f"Seed {value}"
        case _:
            assert_never(axis)


def labels(line: Line | None, titles: Titles) -> tuple[str, ...]:
    """Those of a whole axis; of none, one that is empty."""
    if line is None:
        return ("",)
    return tuple(label(line.axis, value, titles) for value in line.values)


def named(comparison: Comparison, column: int, row: int, titles: Titles) -> str:
    """A cell: "4 steps, Compiled"."""
    parts = (labels(comparison.columns, titles)[column], labels(comparison.rows, titles)[row])
    return ", ".join(part for part in parts if part)


def cost_text(cost: Cost, titles: Titles) -> str:
    """Everything that a comparison takes, said before it begins."""
    pictures = view.counted(cost.pictures, "picture")
    if not cost.unknown:
        time = f"{pictures}, {view.about(cost.seconds)}."
    elif cost.seconds:
        time = f"{pictures}, {view.about(cost.seconds)} and what is not known yet."
    else:
        time = f"{pictures}, {view.about(None)}."
    said = [time]
    if cost.loads:
        models = ", ".join(titles.get(name, name) for name in cost.loads)
        said.append(f"Loads {models}, for everybody here.")
    if cost.compiles:
        programs = ", ".join(
            _programs(name, mode, size, cost, titles) for name, mode, size in cost.compiles
        )
        said.append(f"Compiles first: {programs}.")
    if not cost.loads and not cost.compiles:
        said.append("Nothing to load or to compile.")
    return " ".join(said)


def _programs(name: str, mode: Mode, size: ImageSize, cost: Cost, titles: Titles) -> str:
    of = f" of {titles.get(name, name)}" if cost.loads else ""
    return f"{size}{of} ({view.MODE_TITLES[mode].lower()})"


def note(info: ImageInfo, warm_up_programs: int, warm_up_s: float) -> str:
    """Under a picture: seconds, and the programs that were compiled for it."""
    seconds = info.timings_s.encode + info.timings_s.denoise + info.timings_s.decode
    programs = view.counted(warm_up_programs + info.programs_compiled, "program")
    warmed = f" in {view.duration(warm_up_s)}" if warm_up_programs else ""
    return f"{view.duration(seconds)}, {programs}{warmed}"


def ended(cells: Sequence[GridCell], count: int, cancelled: bool, elapsed_s: float) -> str:
    """The last sentence about a comparison."""
    made = sum(cell.path is not None for cell in cells)
    if cancelled:
        return f"Cancelled: {made} of {view.counted(count, 'picture')} made."
    failed = "" if made == count else f", {count - made} failed"
    return f"Done: {view.counted(made, 'picture')} in {view.duration(elapsed_s)}{failed}."


def grid_html(
    comparison: Comparison, cells: Sequence[GridCell], shown: Shown, titles: Titles
) -> str:
    """The grid as it is now. Each place has its picture's shape from the beginning."""
    done = {(cell.column, cell.row): cell for cell in cells}
    sizes = {(cell.column, cell.row): cell.request.size for cell in comparison.cells}
    columns, rows = labels(comparison.columns, titles), labels(comparison.rows, titles)
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
                named(comparison, column, row, titles),
            )
            for column in range(len(columns))
        )
        lines.append(f"<tr>{head}{places}</tr>")
    wide = f"min-width: {8 * len(columns)}rem"
    return (
        f'<div class="tpu-compare"><table style="{wide}"><thead><tr>{corner}{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _place(
    cell: GridCell | None, size: ImageSize, addresses: tuple[str, str] | None, name: str
) -> str:
    picture = ""
    if addresses is not None:
        small, whole = (html.escape(address) for address in addresses)
        picture = (
            f'<a href="{whole}" target="_blank"><img src="{small}" alt="{html.escape(name)}"></a>'
        )
    words = html.escape(cell.note if cell else WAITS)
    state = "waits" if cell is None else "failed" if cell.path is None else "made"
    shape = f"aspect-ratio: {size.width_px} / {size.height_px}"
    return f'<td data-state="{state}"><div style="{shape}">{picture}</div><p>{words}</p></td>'
