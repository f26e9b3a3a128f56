"""Where things go on a postcard: horizon, feet and heights, all of it said by the scene.

Knows sizes in pixels, nothing of colours. The same layout tells the renderer where to paint, the
trainer which parts matter and the scorer what is where. Feet and horizons stand on a grid of tiles,
each one token of the transformer, and heights are three for each kind: a thing is made of the same
few tiles wherever it stands, which lets a small model draw it crisply. Nothing is left to chance,
or the model would draw several layouts over each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from demo_model.latents import BLOCK_PX
from demo_model.objects import HEIGHT_OF_SIZE, WIDTH_OF_HEIGHT, Spot
from demo_model.scene import SIZES, Group, Scene

TILE_PX = 4 * BLOCK_PX  # the transformer's patch: 4 x 4 latents
HALF_TILE_PX = TILE_PX // 2
PLACE_X = {"left": 0.25, "middle": 0.5, "right": 0.75}
# For each height of a card: on meadow and snow, and by the sea and in the desert.
HORIZONS_PX = {256: (128, 160), 192: (96, 128), 320: (192, 224)}
_LOW_GROUNDS = ("sea", "desert")
_HEIGHT_PX = {"small": 46.0, "medium": 68.0, "big": 96.0}
_MARGIN_PX = 5.0
_GAP_PX = 6.0
# Where the middle of a group may lie, as a share of the card's width, to be at its place.
_REACH = {"left": (0.0, 0.4), "middle": (0.35, 0.65), "right": (0.6, 1.0)}


@dataclass(frozen=True)
class Placed:
    """One thing with the group it belongs to, of the size it is drawn in, and its spot."""

    group: Group
    spot: Spot

    @property
    def box_px(self) -> tuple[float, float, float, float]:
        half = WIDTH_OF_HEIGHT[self.group.kind] * self.spot.height / 2
        return (
            self.spot.x - half,
            self.spot.base - self.spot.height,
            self.spot.x + half,
            self.spot.base,
        )


@dataclass(frozen=True)
class Layout:
    horizon_px: float
    placed: tuple[Placed, ...]


def snap(value: float, grid_px: int) -> float:
    """The nearest point of the grid."""
    return round(value / grid_px) * float(grid_px)


def snap_up(value: float, grid_px: int) -> float:
    """The next point of the grid."""
    return math.ceil(value / grid_px) * float(grid_px)


def lay_out(scene: Scene) -> Layout:
    """Find room for all groups; where there is none, the biggest becomes a size smaller.

    Raises:
        ValueError: not even small things have room; `sample_scene` makes no such scene.
    """
    horizon_px = float(HORIZONS_PX[scene.height_px][scene.ground in _LOW_GROUNDS])
    groups = list(scene.groups)
    while (columns := _columns(groups, scene.width_px)) is None:
        biggest = max(range(len(groups)), key=lambda n: SIZES.index(groups[n].size))
        if groups[biggest].size == SIZES[0]:
            raise ValueError(f"no room for {scene.groups} on a card {scene.width_px} pixels wide")
        smaller = SIZES[SIZES.index(groups[biggest].size) - 1]
        groups[biggest] = replace(groups[biggest], size=smaller)
    placed = []
    for group, xs in zip(groups, columns, strict=True):
        base = _base(scene, group, horizon_px)
        placed += [Placed(group, Spot(x, base, height_px(group))) for x in xs]
    return Layout(horizon_px, tuple(sorted(placed, key=lambda thing: thing.spot.base)))


def as_drawn(scene: Scene, layout: Layout) -> Scene:
    """The scene with the sizes that its things came out with: two big houses beside each other on a
    narrow card are medium ones."""
    drawn = {thing.group.place: thing.group for thing in layout.placed}
    return replace(scene, groups=tuple(drawn[group.place] for group in scene.groups))


def height_px(group: Group) -> float:
    return _HEIGHT_PX[group.size] * HEIGHT_OF_SIZE[group.kind]


def _columns(groups: list[Group], width_px: int) -> list[list[float]] | None:
    """The x of each thing of each group, left to right; None if they have no room."""
    firsts: list[float] = []
    for group in groups:
        width, step = _width_and_step(group)
        across = step * (group.count - 1)
        low = snap_up(_MARGIN_PX + width / 2, HALF_TILE_PX)
        high = width_px - _MARGIN_PX - width / 2 - across
        if low > high:
            return None
        high = high // HALF_TILE_PX * HALF_TILE_PX
        first = snap(width_px * PLACE_X[group.place] - across / 2, HALF_TILE_PX)
        firsts.append(min(max(first, low), high))
    if len(groups) == 2 and not _pushed_apart(groups, firsts, width_px):
        return None
    columns = []
    for group, first in zip(groups, firsts, strict=True):
        _, step = _width_and_step(group)
        columns.append([first + step * number for number in range(group.count)])
        low_share, high_share = _REACH[group.place]
        if not low_share <= (columns[-1][0] + columns[-1][-1]) / 2 / width_px <= high_share:
            return None
    return columns


def _pushed_apart(groups: list[Group], firsts: list[float], width_px: int) -> bool:
    """Move the right group right and the left group left, in turn, until they do not touch."""
    (left_width, left_step), (right_width, right_step) = map(_width_and_step, groups)
    most = width_px - _MARGIN_PX - right_width / 2 - right_step * (groups[1].count - 1)
    turn = 0
    while (
        firsts[0] + left_step * (groups[0].count - 1) + left_width / 2 + _GAP_PX
        > firsts[1] - right_width / 2
    ):
        can_right = firsts[1] + HALF_TILE_PX <= most
        can_left = firsts[0] - HALF_TILE_PX >= _MARGIN_PX + left_width / 2
        if not (can_right or can_left):
            return False
        if can_right and (turn % 2 == 0 or not can_left):
            firsts[1] += HALF_TILE_PX
        else:
            firsts[0] -= HALF_TILE_PX
        turn += 1
    return True


def _width_and_step(group: Group) -> tuple[float, float]:
    """Of one thing, and from one thing of the group to the next."""
    width = WIDTH_OF_HEIGHT[group.kind] * height_px(group)
    return width, snap_up(width + _GAP_PX, HALF_TILE_PX)


def _base(scene: Scene, group: Group, horizon_px: float) -> float:
    """Small things stand far away, the others near; balloons hang in the sky."""
    if group.kind == "balloon":
        return snap_up(height_px(group) + 6, TILE_PX)
    rows = [horizon_px + TILE_PX * n for n in (1, 2) if horizon_px + TILE_PX * n < scene.height_px]
    return rows[0] if group.size == "small" else rows[-1]
