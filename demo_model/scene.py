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
# Room for one thing, so that all of them fit; with the middle taken there is less.
_THING_PX, _THING_BESIDE_MIDDLE_PX = 64, 80
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
    places.sort(key=PLACES.index)
    groups = [_any_group(rng, ground, place) for place in places]
    while not _fit_together(groups, size_px[0]):
        groups = [_any_group(rng, ground, place) for place in places]
    return Scene(
        size_px[0], size_px[1], rng.choice(SKIES), ground, rng.random() < 0.5, tuple(groups)
    )


def _fit_together(groups: list[Group], width_px: int) -> bool:
    """A group that fills the card is in its middle; two groups are told apart by kind or colour,
    and have room beside each other."""
    if any(g.count * _THING_PX >= width_px and g.place != "middle" for g in groups):
        return False
    if len(groups) < 2:
        return True
    one, other = groups
    if (one.kind, one.colour) == (other.kind, other.colour):
        return False
    beside_middle = [group.count for group in groups if group.place != "middle"]
    middle_taken = len(beside_middle) == 1
    room_px = _THING_BESIDE_MIDDLE_PX if middle_taken else _THING_PX
    if middle_taken and beside_middle[0] > 2:
        return False
    return one.count + other.count <= width_px // room_px


def _any_group(rng: random.Random, ground: str, place: str) -> Group:
    kind = rng.choices(KINDS, _KIND_WEIGHTS[ground])[0]
    colour = rng.choices(COLOURS, _COLOUR_WEIGHTS.get(kind, (1,) * len(COLOURS)))[0]
    count = rng.choices((1, 2, 3), (66, 20, 14))[0]
    # Three big houses fit on no card.
    size = rng.choice(SIZES) if count == 1 else rng.choice(SIZES[:2])
    return Group(kind, colour, size, count, place)
