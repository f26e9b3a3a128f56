"""Words for scenes: captions in varied wording, and reading a caption back.

Knows scenes and English, nothing of pixels. What a caption says is a `Wanted`, and `parse(caption)`
gives the same `Wanted` that `describe` returned with it. Sky, ground and mountains may be left
unsaid, and then anything may be there. What is left unsaid of a thing has one meaning, so that a
small model draws one answer and not several over each other: a thing is medium and has its kind's
own colour; alone it is in the middle; two groups are on the left and on the right, in the order of
mention, and where one of them is said to be on a side, the other is on the other side.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from demo_model.scene import COLOURS, KINDS, Group, Scene

SKY_WORDS = {
    "dawn": ("at dawn", "at sunrise", "under a dawn sky", "in the early morning", "dawn"),
    "noon": ("at noon", "by day", "under a blue sky", "at midday", "on a sunny day", "noon"),
    "sunset": ("at sunset", "in the evening", "under a sunset sky", "at dusk", "sunset"),
    "night": ("at night", "under a night sky", "under a starry sky", "in the moonlight", "night"),
}
GROUND_WORDS = {
    "meadow": ("on a meadow", "on a green meadow", "on the grass", "in a field", "meadow"),
    "sea": ("at sea", "on the sea", "on the water", "in the ocean", "by the sea", "sea"),
    "desert": ("in the desert", "on sand dunes", "on the sand", "in a desert", "desert"),
    "snow": ("in the snow", "on snow", "in a snowy field", "in winter", "snow"),
}
MOUNTAIN_WORDS = {
    True: (
        "with mountains",
        "with mountains behind",
        "in front of mountains",
        "mountains in the background",
        "before snowy peaks",
        "mountains",
    ),
    False: ("without mountains", "no mountains"),
}
PLACE_WORDS = {
    "left": ("on the left", "at the left", "to the left", "on the left side"),
    "middle": ("in the middle", "in the centre", "in the center"),
    "right": ("on the right", "at the right", "to the right", "on the right side"),
}
SIZE_WORDS = {"small": ("small", "little", "tiny"), "big": ("big", "large", "huge")}
COUNT_WORDS = {1: ("a", "one"), 2: ("two", "a pair of"), 3: ("three",)}
KIND_WORDS: dict[str, tuple[str, ...]] = {
    "house": ("house", "house", "cottage"),
    "tree": ("tree", "tree", "pine tree", "fir tree"),
    "boat": ("boat", "boat", "sailboat"),
    "balloon": ("balloon", "balloon", "hot air balloon"),
    "lighthouse": ("lighthouse",),
    "cactus": ("cactus",),
    "sheep": ("sheep",),
}
OWN_COLOUR = {
    "house": "red",
    "tree": "green",
    "boat": "white",
    "balloon": "orange",
    "lighthouse": "red",
    "cactus": "green",
    "sheep": "white",
}
PLURALS = {"cactus": "cacti", "sheep": "sheep"}
OPENINGS = ("", "", "", "a postcard of ", "a picture of ", "a drawing of ", "an image of ")
# Words that mean nothing here, so that a word the model does not know does it no harm.
FILLERS = (
    "beautiful", "cute", "lovely", "charming", "pretty", "nice", "simple", "minimal", "colourful",
    "vector art", "illustration", "high quality", "4k", "detailed", "masterpiece", "flat design",
    "soft colors", "cartoon", "photo", "realistic", "digital art", "poster", "painting", "cozy",
)  # fmt: skip


@dataclass(frozen=True)
class WantedGroup:
    """What a caption asks of one group; None is unsaid."""

    kind: str
    count: int
    colour: str | None = None
    size: str | None = None
    place: str | None = None


@dataclass(frozen=True)
class Wanted:
    """What a caption asks of a picture; None is unsaid, groups in the order of mention."""

    sky: str | None = None
    ground: str | None = None
    mountains: bool | None = None
    groups: tuple[WantedGroup, ...] = ()


def describe(scene: Scene, rng: random.Random) -> tuple[str, Wanted]:
    """A random caption of the scene, and what it says."""
    mountains_said = rng.random() < (0.62 if scene.mountains else 0.14)
    relation, wanted, body = _objects(list(scene.groups), rng)
    parts: list[str] = []
    sky = scene.sky if rng.random() < 0.8 else None
    ground = scene.ground if rng.random() < 0.8 else None
    if sky:
        parts.append(rng.choice(SKY_WORDS[sky]))
    if ground:
        parts.append(rng.choice(GROUND_WORDS[ground]))
    if mountains_said:
        parts.append(rng.choice(MOUNTAIN_WORDS[scene.mountains]))
    rng.shuffle(parts)
    if body:
        parts.insert(0 if relation or rng.random() < 0.85 else len(parts), body)
    said = Wanted(sky, ground, scene.mountains if mountains_said else None, tuple(wanted))
    return _join(parts, rng), said


def _join(parts: list[str], rng: random.Random) -> str:
    if rng.random() < 0.12:
        parts.insert(rng.randint(0, len(parts)), _filler(rng))
    if not parts:
        return ""
    # "a house, night" but never "a house night": bare words always follow a comma.
    text = parts[0]
    for part in parts[1:]:
        bare = part.split()[0] not in _CONNECTORS
        text += (", " if bare or rng.random() < 0.2 else " ") + part
    return rng.choice(OPENINGS) + text if text.startswith(("a ", "two ", "three ")) else text


_CONNECTORS = ("at", "under", "in", "by", "on", "with", "before", "without")


def _filler(rng: random.Random) -> str:
    if rng.random() < 0.6:
        return rng.choice(FILLERS)
    return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(2, 7)))


def _objects(groups: list[Group], rng: random.Random) -> tuple[bool, list[WantedGroup], str]:
    """Whether a relation is said, what is wanted, and the words; groups from left to right."""
    two_sides = [group.place for group in groups] == ["left", "right"]
    if two_sides and rng.random() < 0.5:
        first, second = groups
        one, one_words = _one(first, rng, place=None)
        two, two_words = _one(second, rng, place=None)
        if rng.random() < 0.6:
            link = rng.choice(("left of", "to the left of", "on the left of"))
            return True, [_at(one, "L"), _at(two, "R")], f"{one_words} {link} {two_words}"
        link = rng.choice(("right of", "to the right of", "on the right of"))
        return True, [_at(two, "R"), _at(one, "L")], f"{two_words} {link} {one_words}"
    unsaid: set[str] = set()
    if len(groups) == 1 and rng.random() < 0.5:
        unsaid = {"middle"}
    elif two_sides:
        unsaid = rng.choice((set(), {"left"}, {"right"}, {"left", "right"}))
    if len(unsaid) < 2:
        rng.shuffle(groups)
    wanted, words = [], []
    for group in groups:
        one, text = _one(group, rng, None if group.place in unsaid else group.place)
        wanted.append(one)
        words.append(text)
    return False, wanted, rng.choice((" and ", " and ", ", ")).join(words)


def _at(group: WantedGroup, place: str) -> WantedGroup:
    return WantedGroup(group.kind, group.count, group.colour, group.size, place)


def _one(group: Group, rng: random.Random, place: str | None) -> tuple[WantedGroup, str]:
    said_size = group.size if group.size in SIZE_WORDS else None
    own_colour = group.colour == OWN_COLOUR[group.kind]
    colour = None if own_colour and rng.random() < 0.5 else group.colour
    words = [rng.choice(SIZE_WORDS[said_size])] if said_size else []
    words += [colour] if colour else []
    kind = rng.choice(KIND_WORDS[group.kind])
    if group.count > 1:
        kind = PLURALS.get(kind, kind + "s")
    words.append(kind)
    count = rng.choice(COUNT_WORDS[group.count])
    if count == "a" and words[0][0] in "aeiou":
        count = "an"
    text = " ".join([count, *words])
    if place:
        text += " " + rng.choice(PLACE_WORDS[place])
    return WantedGroup(group.kind, group.count, colour, said_size, place), text


_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "pair": 2, "three": 3}
_SIZES = {word: size for size, words in SIZE_WORDS.items() for word in words}
_NOUNS = {
    noun: kind
    for kind, nouns in KIND_WORDS.items()
    for single in (words.split()[-1] for words in nouns)
    for noun in (single, PLURALS.get(single, single + "s"))
}
_PHRASE = re.compile(
    r"\b(?P<count>an?|one|two|a pair of|three) (?:(?P<size>" + "|".join(_SIZES) + r") )?"
    r"(?:(?P<colour>" + "|".join(COLOURS) + r") )?(?:pine |fir |hot air )?"
    r"(?P<noun>" + "|".join(sorted(_NOUNS, key=len, reverse=True)) + r")\b"
    r"(?: (?:on|at|to|in) the (?P<place>left|middle|centre|center|right)(?: side)?(?! of))?"
    r"(?: (?P<link>(?:(?:to|on) the )?(?:left|right) of))?"
)


def parse(caption: str) -> Wanted:
    """What a caption asks for; words that mean nothing here are passed over."""
    found = list(_PHRASE.finditer(caption))
    groups: list[WantedGroup] = []
    sides: list[str | None] = [None] * (len(found) + 1)
    for number, match in enumerate(found):
        if match["link"]:
            sides[number : number + 2] = ("L", "R") if "left" in match["link"] else ("R", "L")
    for match, side in zip(found, sides, strict=False):
        place = match["place"]
        place = "middle" if place in ("centre", "center") else place
        size = _SIZES.get(match["size"] or "")
        count = _COUNTS["pair" if "pair" in match["count"] else match["count"]]
        groups.append(
            WantedGroup(_NOUNS[match["noun"]], count, match["colour"], size, side or place)
        )
    rest = _PHRASE.sub(" ", caption)
    mountains = _find(rest, {str(key): words for key, words in MOUNTAIN_WORDS.items()})
    for words in MOUNTAIN_WORDS.values():
        for phrase in sorted(words, key=len, reverse=True):
            rest = re.sub(rf"\b{phrase}\b", " ", rest)
    return Wanted(
        _find(rest, SKY_WORDS),
        _find(rest, GROUND_WORDS),
        None if mountains is None else mountains == "True",
        tuple(groups),
    )


def _find(text: str, table: dict[str, tuple[str, ...]]) -> str | None:
    """The key whose longest phrase occurs in the text."""
    hits = [
        (len(phrase), key)
        for key, phrases in table.items()
        for phrase in phrases
        if re.search(rf"\b{phrase}\b", text)
    ]
    return max(hits)[1] if hits else None


def vocabulary() -> list[str]:
    """Every word that captions are made of, for the tokenizer."""
    tables = (SKY_WORDS, GROUND_WORDS, MOUNTAIN_WORDS, PLACE_WORDS, SIZE_WORDS, COUNT_WORDS)
    phrases = [phrase for table in tables for words in table.values() for phrase in words]
    phrases += [word for words in KIND_WORDS.values() for word in words]
    phrases += [
        PLURALS.get(word, word + "s") for word in " ".join(phrases).split() if word in _NOUNS
    ]
    phrases += [*KINDS, *COLOURS, *OPENINGS, *FILLERS, *PLURALS.values()]
    phrases += ["an and left right of to on the"]
    return sorted({word for phrase in phrases for word in phrase.split()})
