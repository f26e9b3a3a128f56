"""A comparison as one picture: cells with labels, and the settings of each as metadata. No torch,
no Gradio, and no idea of how the cells were made.
"""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from tpu_ui.metadata import JSON_KEY, without_job

MAX_SIDE_PX = 8192
GAP_PX = 12
INK, PAPER, FAINT = (24, 28, 34), (255, 255, 255), (236, 239, 243)


@dataclass(frozen=True, slots=True)
class GridCell:
    """One place. `path` is its picture; None where there is none, and `note` says why, or what it
    took. `info` is what made it."""

    column: int
    row: int
    path: Path | None
    note: str
    info: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Grid:
    """Labels, cells, and the names of the axes: field -> values."""

    columns: tuple[str, ...]
    rows: tuple[str, ...]
    axes: Mapping[str, Sequence[Any]]
    cells: tuple[GridCell, ...]


def encode_grid(grid: Grid) -> bytes:
    """The bytes of a PNG file with all cells, their labels and their settings."""
    text = PngInfo()
    text.add_itxt(JSON_KEY, json.dumps(grid_info(grid), ensure_ascii=True))
    file = io.BytesIO()
    _drawn(grid).save(file, format="PNG", pnginfo=text)
    return file.getvalue()


def grid_info(grid: Grid) -> dict[str, Any]:
    """What all cells have in common, as an info dict has it; the axes; and every cell's own."""
    infos = [without_job(cell.info) for cell in grid.cells if cell.info is not None]
    first = infos[0] if infos else {}
    common = {
        name: value
        for name, value in first.items()
        if name not in grid.axes and all(info.get(name) == value for info in infos)
    }
    cells = [
        {
            "column": cell.column,
            "row": cell.row,
            "note": cell.note,
            "info": None if cell.info is None else without_job(cell.info),
        }
        for cell in grid.cells
    ]
    return {**common, "axes": {name: list(of) for name, of in grid.axes.items()}, "cells": cells}


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where things are on the sheet, in pixels."""

    width: int
    height: int
    scale: float
    font: Any
    line: int
    left: int

    @property
    def top(self) -> int:
        return GAP_PX + self.line

    def corner(self, column: int, row: int) -> tuple[int, int]:
        """Of a cell, where its picture begins."""
        return (
            self.left + column * (self.width + GAP_PX),
            self.top + row * (self.height + self.line + GAP_PX),
        )


def _laid_out(grid: Grid, pictures: Sequence[Image.Image]) -> _Layout:
    width = max((one.width for one in pictures), default=256)
    height = max((one.height for one in pictures), default=256)
    scale = min(
        1.0,
        MAX_SIDE_PX / (len(grid.columns) * (width + GAP_PX)),
        MAX_SIDE_PX / (len(grid.rows) * (height + GAP_PX)),
    )
    width, height = max(round(width * scale), 64), max(round(height * scale), 64)
    letter = max(min(width // 14, 40), 11)
    font = ImageFont.load_default(letter)
    labels = max(round(font.getlength(one)) for one in grid.rows)
    left = GAP_PX + (labels + GAP_PX if labels else 0)
    return _Layout(width, height, scale, font, round(letter * 1.5), left)


def _drawn(grid: Grid) -> Image.Image:
    pictures = {(one.column, one.row): _opened(one.path) for one in grid.cells if one.path}
    layout = _laid_out(grid, list(pictures.values()))
    font, width = layout.font, layout.width
    sheet = Image.new("RGB", layout.corner(len(grid.columns), len(grid.rows)), PAPER)
    pen = ImageDraw.Draw(sheet)
    for column, label in enumerate(grid.columns):
        x, _ = layout.corner(column, 0)
        pen.text((x, GAP_PX // 2), _fitting(label, font, width), INK, font)
    for row, label in enumerate(grid.rows):
        _, y = layout.corner(0, row)
        pen.text((GAP_PX, y + layout.height // 2), label, INK, font)
    for cell in grid.cells:
        x, y = layout.corner(cell.column, cell.row)
        pen.rectangle((x, y, x + width - 1, y + layout.height - 1), FAINT)
        if (picture := pictures.get((cell.column, cell.row))) is not None:
            if layout.scale < 1:
                picture.thumbnail((width, layout.height))
            sheet.paste(picture, (x + (width - picture.width) // 2, y))
        pen.text((x, y + layout.height + 2), _fitting(cell.note, font, width), INK, font)
    return sheet


def _opened(path: Path) -> Image.Image:
    with Image.open(path) as picture:
        return picture.convert("RGB")


def _fitting(text: str, font: Any, width_px: int) -> str:
    """As much of `text` as there is room for."""
    if font.getlength(text) <= width_px:
        return text
    while text and font.getlength(f"{text}...") > width_px:
        text = text[:-1]
    return f"{text}..."
