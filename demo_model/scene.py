"""What a postcard shows, as plain values: its vocabulary, random scenes, and which are held out.

Knows nothing of pixels, words or models.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass

SKIES = ("dawn", "noon", "sunset", "night")
GROUNDS = ("meadow", "sea", "desert", "snow")
KINDS = ("house", "tree", "boat", "balloon", "lighthouse", "cactus", "sheep")
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "white")
SIZES = ("small", "medium", "big")
PLACES = ("left", "middle", "right")
PICTURE_SIZES_PX = ((256, 256), (320, 192), (192, 320))  # width, height

# What stands where, loosely: every pair occurs, the natural ones more often.
_KIND_WEIGHTS = {
    "meadow": (4, 4, 1, 3, 2, 1, 4),
    "sea": (1.5, 1.5, 6, 3, 3.5, 1, 1),
    "desert": (2.5, 2, 1, 3, 2, 4, 1.5),
    "snow": (4, 4, 1, 3, 2, 1, 2),
}
_COLOUR_WEIGHTS = {"tree": (1, 1, 1, 3, 1, 1, 1), "cactus": (1, 1, 1, 3, 1, 1, 1)}
HELD_OUT_IN = 10  # one of so many combinations is never trained on


@dataclass(frozen=True)
class Group:
    """One to three things of one kind, standing together at one place."""

    kind: str
    colour: str
    size: str
    count: int
    place: str


@dataclass(frozen=True)
class Scene:
    """Everything a caption may say about a postcard, and its size in pixels."""

    width_px: int
    height_px: int
    sky: str
    ground: str
    mountains: bool
    groups: tuple[Group, ...]


def is_held_out(scene: Scene) -> bool:
    """True if any group's (kind, colour, place, ground, sky) is one that training never sees."""
    return any(_combination_is_held_out(group, scene) for group in scene.groups)


def _combination_is_held_out(group: Group, scene: Scene) -> bool:
    combination = "/".join((group.kind, group.colour, group.place, scene.ground, scene.sky))
    return hashlib.sha256(combination.encode()).digest()[0] % HELD_OUT_IN == 0


def sample_scene(rng: random.Random, *, held_out: bool, size_px: tuple[int, int]) -> Scene:
    """A random scene of that size, from the training side or from the held-out side."""
    while True:
        scene = _any_scene(rng, size_px)
        if is_held_out(scene) == held_out:
            return scene


def _any_scene(rng: random.Random, size_px: tuple[int, int]) -> Scene:
    ground = rng.choice(GROUNDS)
    group_count = rng.choices((0, 1, 2), (6, 46, 48))[0]
    places = rng.sample(PLACES, group_count)
    groups: list[Group] = []
    for place in sorted(places, key=PLACES.index):
        group = _any_group(rng, ground, place)
        while any(group.kind == other.kind and group.colour == other.colour for other in groups):
            group = _any_group(rng, ground, place)
        groups.append(group)
    return Scene(
        size_px[0], size_px[1], rng.choice(SKIES), ground, rng.random() < 0.5, tuple(groups)
    )


def _any_group(rng: random.Random, ground: str, place: str) -> Group:
    kind = rng.choices(KINDS, _KIND_WEIGHTS[ground])[0]
    colour = rng.choices(COLOURS, _COLOUR_WEIGHTS.get(kind, (1,) * len(COLOURS)))[0]
    count = rng.choices((1, 2, 3), (66, 20, 14))[0]
    # Three big houses do not fit beside anything else.
    size = rng.choice(SIZES) if count == 1 else rng.choice(SIZES[:2])
    return Group(kind, colour, size, count, place)
