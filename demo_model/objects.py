"""How each kind of thing is drawn, standing on (x, base) with a height in pixels.

Knows the canvas and a light; nothing of scenes. Only the part that carries the named colour
changes with the colour; everything else is the same for every house, boat, and so on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from demo_model.canvas import (
    Canvas,
    Colour,
    both,
    box,
    capsule,
    circle,
    ellipse,
    mix,
    polygon,
    union,
)

COLOUR_RGB: dict[str, Colour] = {
    "red": (218, 54, 50),
    "orange": (244, 138, 34),
    "yellow": (252, 214, 66),
    "green": (62, 158, 78),
    "blue": (52, 104, 214),
    "purple": (146, 80, 194),
    "white": (248, 246, 242),
}
WIDTH_OF_HEIGHT = {
    "house": 1.12,
    "tree": 0.72,
    "boat": 0.98,
    "balloon": 0.74,
    "lighthouse": 0.5,
    "cactus": 0.72,
    "sheep": 1.22,
}
# A small lighthouse is still taller than a small sheep.
HEIGHT_OF_SIZE = {
    "house": 1.0,
    "tree": 1.25,
    "boat": 1.15,
    "balloon": 1.3,
    "lighthouse": 1.5,
    "cactus": 1.12,
    "sheep": 0.8,
}


@dataclass(frozen=True)
class Light:
    """What the hour does to the colour of things: a tint, a darkness, and whether lamps are lit."""

    tint: Colour
    tint_share: float
    brightness: float
    lamps: bool

    def on(self, colour: Colour) -> Colour:
        tinted = mix(colour, self.tint, self.tint_share)
        return mix((0.0, 0.0, 0.0), tinted, self.brightness)


@dataclass(frozen=True)
class Spot:
    """Where a thing stands: middle of its foot, and its height."""

    x: float
    base: float
    height: float

    def at(self, across: float, up: float) -> tuple[float, float]:
        return self.x + across * self.height, self.base - up * self.height

    def window(
        self, left: float, top: float, right: float, bottom: float
    ) -> tuple[float, float, float, float]:
        x0, y0 = self.at(left, top)
        x1, y1 = self.at(right, bottom)
        return x0, y0, x1, y1


Painter = Callable[[Canvas, Spot, Colour, Light], None]


def shades(colour: Colour, light: Light) -> tuple[Colour, Colour]:
    """The lit and the shaded end of a surface."""
    lit = mix(colour, (255, 255, 255), 0.12)
    shaded = mix(colour, (46, 30, 84), 0.2)
    return light.on(lit), light.on(shaded)


def _rect(
    canvas: Canvas,
    spot: Spot,
    area: tuple[float, float, float, float],
    first: Colour,
    last: Colour,
    corner: float = 0.0,
) -> None:
    window = spot.window(*area)
    canvas.fill(box(*window, corner * spot.height), window, first, end=last)


def _poly(
    canvas: Canvas,
    spot: Spot,
    points: list[tuple[float, float]],
    first: Colour,
    last: Colour,
    corner: float = 0.0,
) -> None:
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    window = spot.window(min(xs), max(ys), max(xs), min(ys))
    shape = polygon([spot.at(*p) for p in points], corner * spot.height)
    canvas.fill(shape, window, first, end=last)


def paint_house(canvas: Canvas, spot: Spot, colour: Colour, light: Light) -> None:
    lit, shaded = shades(colour, light)
    roof = light.on((128, 82, 78)), light.on((88, 58, 66))
    wood = light.on((92, 58, 48))
    glass = (255, 224, 130) if light.lamps else light.on((206, 232, 246))
    _rect(canvas, spot, (0.2, 0.98, 0.34, 0.6), roof[1], roof[1])
    _rect(canvas, spot, (-0.46, 0.6, 0.46, 0.0), lit, shaded, 0.02)
    _poly(canvas, spot, [(-0.57, 0.52), (-0.3, 0.94), (0.3, 0.94), (0.57, 0.52)], *roof, 0.05)
    _rect(canvas, spot, (-0.1, 0.33, 0.12, 0.0), wood, wood, 0.03)
    for left in (-0.37, 0.2):
        _rect(canvas, spot, (left, 0.39, left + 0.18, 0.19), glass, glass, 0.03)
        if light.lamps:
            canvas.glow(*spot.at(left + 0.09, 0.29), 0.13 * spot.height, (255, 214, 110), 0.45)


def paint_tree(canvas: Canvas, spot: Spot, colour: Colour, light: Light) -> None:
    lit, shaded = shades(colour, light)
    bark = light.on((124, 82, 58)), light.on((88, 58, 46))
    _rect(canvas, spot, (-0.06, 0.26, 0.06, 0.0), *bark)
    tiers = ((0.18, 0.56, 0.36), (0.4, 0.78, 0.29), (0.62, 1.02, 0.22))
    for number, (low, high, half) in enumerate(tiers):
        dim = 0.16 - 0.08 * number
        ends = mix(lit, (30, 24, 60), dim), mix(shaded, (30, 24, 60), dim)
        _poly(canvas, spot, [(-half, low), (0.0, high), (half, low)], *ends, 0.06)


def paint_boat(canvas: Canvas, spot: Spot, colour: Colour, light: Light) -> None:
    lit, shaded = shades(colour, light)
    hull = light.on((150, 92, 58)), light.on((100, 62, 50))
    pole = light.on((96, 64, 52))
    _rect(canvas, spot, (-0.035, 1.0, 0.025, 0.2), pole, pole)
    _poly(canvas, spot, [(0.045, 0.3), (0.045, 0.98), (0.46, 0.3)], lit, shaded, 0.03)
    pale = mix(lit, (255, 255, 255), 0.16)
    _poly(canvas, spot, [(-0.36, 0.3), (-0.055, 0.86), (-0.055, 0.3)], pale, lit, 0.03)
    window = spot.window(-0.49, 0.23, 0.49, 0.0)
    x, top = spot.at(0.0, 0.23)
    deck = box(window[0], top, window[2], window[3] + 1)
    bowl = ellipse(x, top, 0.49 * spot.height, 0.23 * spot.height)
    canvas.fill(both(deck, bowl), window, hull[0], end=hull[1])


def paint_balloon(canvas: Canvas, spot: Spot, colour: Colour, light: Light) -> None:
    lit, shaded = shades(colour, light)
    stripe = mix(lit, (255, 255, 255), 0.42) if sum(colour) < 700 else light.on((206, 206, 222))
    rope = light.on((140, 104, 84))
    _poly(canvas, spot, [(-0.13, 0.34), (0.13, 0.34), (0.07, 0.12), (-0.07, 0.12)], rope, rope)
    basket = light.on((150, 96, 58)), light.on((108, 68, 50))
    _rect(canvas, spot, (-0.1, 0.16, 0.1, 0.0), *basket, 0.03)
    x, y = spot.at(0.0, 0.64)
    radius = 0.36 * spot.height
    taper = polygon(
        [spot.at(*p) for p in [(-0.335, 0.52), (0.335, 0.52), (0.13, 0.24), (-0.13, 0.24)]], 2.0
    )
    shape = union(circle(x, y, radius), taper)
    window = spot.window(-0.37, 1.0, 0.37, 0.24)
    canvas.fill(shape, window, lit, end=shaded)
    middle = ellipse(x, y - 0.02 * spot.height, 0.13 * spot.height, 0.39 * spot.height)
    canvas.fill(both(shape, middle), window, stripe)


def paint_lighthouse(canvas: Canvas, spot: Spot, colour: Colour, light: Light) -> None:
    lit, shaded = shades(colour, light)
    plain = (250, 246, 240) if sum(colour) < 700 else (176, 180, 196)
    other = shades(plain, light)
    # Each band is painted from its lower end to the tower's top, so that no seam shows between.
    for number, low in enumerate((0.0, 0.17, 0.34, 0.51)):
        half_low, half_high = 0.17 - 0.085 * low, 0.11
        points = [(-half_low, low), (-half_high, 0.7), (half_high, 0.7), (half_low, low)]
        _poly(canvas, spot, points, *((lit, shaded) if number % 2 == 0 else other))
    dark = light.on((78, 70, 92))
    lamp = (255, 232, 130) if light.lamps else light.on((255, 238, 176))
    _rect(canvas, spot, (-0.07, 0.87, 0.07, 0.72), lamp, lamp)
    _rect(canvas, spot, (-0.155, 0.745, 0.155, 0.69), dark, dark, 0.015)
    _poly(canvas, spot, [(-0.12, 0.85), (0.0, 1.0), (0.12, 0.85)], *shades(colour, light), 0.02)
    strength = 0.75 if light.lamps else 0.3
    canvas.glow(*spot.at(0.0, 0.79), 0.16 * spot.height, (255, 228, 130), strength)


def paint_cactus(canvas: Canvas, spot: Spot, colour: Colour, light: Light) -> None:
    lit, shaded = shades(colour, light)
    parts = (
        (0.0, 0.0, 0.0, 0.86, 0.13),
        (0.0, 0.36, -0.26, 0.36, 0.085),
        (-0.26, 0.36, -0.26, 0.62, 0.085),
        (0.0, 0.28, 0.27, 0.28, 0.085),
        (0.27, 0.28, 0.27, 0.72, 0.085),
    )
    shape = union(
        *(capsule(*spot.at(a, b), *spot.at(c, d), r * spot.height) for a, b, c, d, r in parts)
    )
    flat = box(*spot.window(-0.5, 1.1, 0.5, 0.0))
    canvas.fill(both(shape, flat), spot.window(-0.37, 1.0, 0.37, 0.0), lit, end=shaded)
    bloom = light.on((255, 150, 190))
    window = spot.window(-0.1, 1.07, 0.1, 0.87)
    canvas.fill(circle(*spot.at(0.0, 0.97), 0.085 * spot.height), window, bloom)


def paint_sheep(canvas: Canvas, spot: Spot, colour: Colour, light: Light) -> None:
    lit, shaded = shades(colour, light)
    dark = light.on((74, 60, 72))
    for left in (-0.3, -0.14, 0.14, 0.28):
        _rect(canvas, spot, (left, 0.4, left + 0.1, 0.0), dark, dark)
    puffs = ((-0.34, 0.5, 0.22), (-0.14, 0.64, 0.26), (0.14, 0.66, 0.26), (0.32, 0.5, 0.22))
    under = ((-0.12, 0.42, 0.22), (0.14, 0.42, 0.22))
    h = spot.height
    wool = union(*(circle(*spot.at(a, b), r * h) for a, b, r in puffs + under))
    canvas.fill(wool, spot.window(-0.56, 0.92, 0.54, 0.2), lit, end=shaded, across=(0.4, 0.7))
    head = ellipse(*spot.at(0.5, 0.62), 0.13 * h, 0.18 * h)
    canvas.fill(head, spot.window(0.36, 0.82, 0.64, 0.42), dark)
    canvas.fill(circle(*spot.at(0.4, 0.8), 0.11 * h), spot.window(0.28, 0.92, 0.52, 0.68), lit)


PAINTERS: dict[str, Painter] = {
    "house": paint_house,
    "tree": paint_tree,
    "boat": paint_boat,
    "balloon": paint_balloon,
    "lighthouse": paint_lighthouse,
    "cactus": paint_cactus,
    "sheep": paint_sheep,
}
