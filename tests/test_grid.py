"""Claims about a comparison as one picture."""

from dataclasses import replace
from pathlib import Path

from PIL import Image

from tests.test_metadata import INFO
from tpu_ui.grid import MAX_SIDE_PX, Grid, GridCell, encode_grid
from tpu_ui.metadata import encode_png, read_png, without_job

RED, BLUE = (200, 10, 10), (10, 10, 200)


def cell(folder: Path, column: int, row: int, colour: tuple[int, int, int], steps: int) -> GridCell:
    info = replace(INFO, steps=steps)
    path = folder / f"{column}-{row}.png"
    path.write_bytes(encode_png(Image.new("RGB", (64, 48), colour), info))
    return GridCell(column, row, path, "1.2 s", info.to_dict())


def test_grid_holds_every_picture_and_the_settings_of_each(tmp_path: Path) -> None:
    cells = (cell(tmp_path, 0, 0, RED, 4), cell(tmp_path, 1, 0, BLUE, 8))
    lost = GridCell(2, 0, None, "Failed: the chip's memory is used up", None)
    axes = {"steps": [4, 8, 99]}
    path = tmp_path / "grid.png"
    path.write_bytes(
        encode_grid(Grid(("Steps 4", "Steps 8", "Steps 99"), ("",), axes, (*cells, lost)))
    )
    info = read_png(path)
    assert (info["prompt"], info["seed"], info["axes"]) == ("a hill", 7, axes)
    assert "steps" not in info, "it is not the same in all cells"
    assert [one["info"] for one in info["cells"]] == [
        *(without_job(one.info or {}) for one in cells),
        None,
    ]
    assert "job" not in info, "who is shown the picture could cancel it"
    assert "memory" in info["cells"][2]["note"]
    with Image.open(path) as sheet:
        counts = {colour: count for count, colour in sheet.getcolors(1_000_000)}
    assert counts[RED] == counts[BLUE] == 64 * 48


def test_a_large_grid_is_made_smaller(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    path.write_bytes(encode_png(Image.new("RGB", (2048, 16), RED), INFO))
    cells = tuple(GridCell(column, 0, path, "", None) for column in range(16))
    sheet = tmp_path / "grid.png"
    sheet.write_bytes(encode_grid(Grid(("label",) * 16, ("row",), {}, cells)))
    with Image.open(sheet) as image:
        assert 0.8 * MAX_SIDE_PX < image.width < 1.1 * MAX_SIDE_PX
