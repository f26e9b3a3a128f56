"""A float canvas painted with signed distances: soft, antialiased, deterministic.

Knows shapes and colours, nothing of scenes. A distance is in pixels, negative inside; a shape's
edge is a ramp a little wider than one pixel, so that no detail is sharper than the pictures need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # float32
Colour = tuple[float, float, float]
Distance = Callable[[Array, Array], Array]
EDGE_PX = 1.3


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """The colour that has `share` of the second in it."""
    return (
        first[0] + (second[0] - first[0]) * share,
        first[1] + (second[1] - first[1]) * share,
        first[2] + (second[2] - first[2]) * share,
    )


def circle(x: float, y: float, radius: float) -> Distance:
    return lambda px, py: np.hypot(px - x, py - y) - radius


def ellipse(x: float, y: float, radius_x: float, radius_y: float) -> Distance:
    """First-order distance to an ellipse; exact at the edge, which is all that painting needs."""

    def distance(px: Array, py: Array) -> Array:
        u, v = (px - x) / radius_x, (py - y) / radius_y
        level = np.hypot(u, v)
        slope = np.hypot(u / radius_x, v / radius_y) + 1e-6
        result: Array = level * (level - 1) / slope
        return result

    return distance


def box(left: float, top: float, right: float, bottom: float, corner: float = 0.0) -> Distance:
    """A box with round corners."""
    x, y = (left + right) / 2, (top + bottom) / 2
    half_x, half_y = (right - left) / 2 - corner, (bottom - top) / 2 - corner

    def distance(px: Array, py: Array) -> Array:
        u, v = np.abs(px - x) - half_x, np.abs(py - y) - half_y
        outside = np.hypot(np.maximum(u, 0), np.maximum(v, 0))
        return outside + np.minimum(np.maximum(u, v), 0) - corner

    return distance


def polygon(points: list[tuple[float, float]], corner: float = 0.0) -> Distance:
    """A convex polygon, its points given clockwise as seen on the screen."""

    def distance(px: Array, py: Array) -> Array:
        worst: Array | None = None
        for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1], strict=True):
            length = float(np.hypot(x1 - x0, y1 - y0))
            side = ((px - x0) * (y1 - y0) - (py - y0) * (x1 - x0)) / length
            worst = side if worst is None else smooth_max(worst, side, corner)
        assert worst is not None
        return worst

    return distance


def smooth_max(first: Array, second: Array, radius: float) -> Array:
    """The larger distance, with the corner between the two rounded."""
    if radius <= 0:
        return np.maximum(first, second)
    blend = np.maximum(radius - np.abs(first - second), 0) / radius
    rounded: Array = np.maximum(first, second) + blend * blend * radius * 0.25
    return rounded


def capsule(x0: float, y0: float, x1: float, y1: float, radius: float) -> Distance:
    """A line with round ends."""
    dx, dy = x1 - x0, y1 - y0
    square = dx * dx + dy * dy + 1e-6

    def distance(px: Array, py: Array) -> Array:
        along = np.clip(((px - x0) * dx + (py - y0) * dy) / square, 0, 1)
        return np.hypot(px - x0 - along * dx, py - y0 - along * dy) - radius

    return distance


def union(*parts: Distance) -> Distance:
    def distance(px: Array, py: Array) -> Array:
        result = parts[0](px, py)
        for part in parts[1:]:
            result = np.minimum(result, part(px, py))
        return result

    return distance


def both(first: Distance, second: Distance) -> Distance:
    return lambda px, py: np.maximum(first(px, py), second(px, py))


class Canvas:
    """A picture being painted: float32 RGB, 0 to 255, shape (height, width, 3)."""

    def __init__(self, width_px: int, height_px: int) -> None:
        self.width_px, self.height_px = width_px, height_px
        self.rgb: Array = np.zeros((height_px, width_px, 3), np.float32)
        self.x: Array = np.arange(width_px, dtype=np.float32)[None, :] + 0.5
        self.y: Array = np.arange(height_px, dtype=np.float32)[:, None] + 0.5

    def fill(
        self,
        shape: Distance,
        window: tuple[float, float, float, float],
        colour: Colour,
        *,
        end: Colour | None = None,
        across: tuple[float, float] = (1.0, 0.0),
        alpha: float = 1.0,
        edge_px: float = EDGE_PX,
    ) -> None:
        """Paint a shape inside a window (left, top, right, bottom), in a gradient if `end` is set.

        `across` is the gradient's direction over the window, in shares of its width and height.
        """
        left, top = max(int(window[0]) - 2, 0), max(int(window[1]) - 2, 0)
        right = min(int(window[2]) + 3, self.width_px)
        bottom = min(int(window[3]) + 3, self.height_px)
        if right <= left or bottom <= top:
            return
        px, py = self.x[:, left:right], self.y[top:bottom]
        cover = np.clip(0.5 - shape(px, py) / edge_px, 0, 1)[..., None] * np.float32(alpha)
        paint: Array = np.asarray(colour, np.float32)
        if end is not None:
            share_x = (px - window[0]) / max(window[2] - window[0], 1)
            share_y = (py - window[1]) / max(window[3] - window[1], 1)
            share = np.clip(share_x * across[0] + share_y * across[1], 0, 1)[..., None]
            paint = paint + (np.asarray(end, np.float32) - paint) * share
        target = self.rgb[top:bottom, left:right]
        target += (paint - target) * cover

    def glow(self, x: float, y: float, radius: float, colour: Colour, alpha: float) -> None:
        """A soft round light, strongest in its middle and gone at three radii."""
        reach = 3 * radius
        left, right = max(int(x - reach), 0), min(int(x + reach) + 1, self.width_px)
        top, bottom = max(int(y - reach), 0), min(int(y + reach) + 1, self.height_px)
        if right <= left or bottom <= top:
            return
        px, py = self.x[:, left:right], self.y[top:bottom]
        square = ((px - x) ** 2 + (py - y) ** 2) / (radius * radius)
        cover = (np.maximum(np.exp(-square / 2) - 0.011, 0) * alpha)[..., None]
        target = self.rgb[top:bottom, left:right]
        target += (np.asarray(colour, np.float32) - target) * cover

    def pixels(self) -> NDArray[np.uint8]:
        return np.clip(np.rint(self.rgb), 0, 255).astype(np.uint8)
