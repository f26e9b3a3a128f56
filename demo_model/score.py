"""Score pictures against what their prompts ask for, and the scorer against rendered pictures.

    python -m demo_model.score presets/demo [--count 200]       the model, on held-out prompts
    python -m demo_model.score --rendered [--count 1000]        the scorer itself

Prompts come from scenes that hold a combination training never saw. Each kind of attribute is
counted only where the prompt says it.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from demo_model import dataset, scorer
from demo_model.captions import Wanted, WantedGroup, describe, parse
from demo_model.contact_sheet import GUIDANCE, STEPS, draw, load
from demo_model.layout import as_drawn, lay_out
from demo_model.scene import PICTURE_SIZES_PX, PLACES, Group, Scene, sample_scene

_RELATIVE = ("L", "R")


@dataclass
class Tally:
    """How often each kind of attribute was asked for, and was there."""

    asked: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)

    def count(self, kind: str, is_met: bool) -> None:
        self.asked[kind] += 1
        self.met[kind] += is_met

    def share(self, *kinds: str) -> float:
        names = kinds or tuple(k for k in self.asked if k not in ("at place", "everything"))
        return sum(self.met[k] for k in names) / max(sum(self.asked[k] for k in names), 1)

    def table(self) -> str:
        rows = [f"{k:12} {self.met[k]:5} of {self.asked[k]:5}  {100 * self.share(k):5.1f} %"
                for k in self.asked]  # fmt: skip
        return "\n".join([*rows, f"all attributes {100 * self.share():.1f} %"])


def compare(wanted: Wanted, reading: scorer.Reading, tally: Tally) -> None:
    """Count every attribute that is wanted."""
    before = sum(tally.asked.values()) - sum(tally.met.values())
    for name in ("sky", "ground", "mountains"):
        asked = getattr(wanted, name)
        if asked is not None:
            tally.count(name, asked == getattr(reading, name))
    for group, found in zip(wanted.groups, _match(wanted.groups, reading.groups), strict=True):
        tally.count("object", found is not None)
        for name in ("colour", "size", "count"):
            asked = getattr(group, name)
            if asked is not None:
                tally.count(name, found is not None and asked == getattr(found, name))
        if group.place is not None and group.place not in _RELATIVE:
            tally.count("place", found is not None and group.place == found.place)
            here = any(g.kind == group.kind and g.place == group.place for g in reading.groups)
            tally.count("at place", here)
    _compare_order(wanted, reading, tally)
    missed = sum(tally.asked.values()) - sum(tally.met.values()) - before
    tally.count("everything", missed == 0)


def _match(wanted: tuple[WantedGroup, ...], seen: tuple[Group, ...]) -> list[Group | None]:
    """For each wanted group the seen one of its kind that fits best, each seen one used once."""
    free = list(seen)
    matched: list[Group | None] = []
    for group in wanted:
        fits = [other for other in free if other.kind == group.kind]
        best = max(fits, key=lambda other: _fit(group, other), default=None)
        if best is not None:
            free.remove(best)
        matched.append(best)
    return matched


def _fit(wanted: WantedGroup, seen: Group) -> int:
    same_place = wanted.place in _RELATIVE or wanted.place in (None, seen.place)
    return (
        2 * (wanted.colour in (None, seen.colour)) + 2 * same_place + (wanted.count == seen.count)
    )


def _compare_order(wanted: Wanted, reading: scorer.Reading, tally: Tally) -> None:
    """'A left of B': both there, A further left."""
    if [group.place for group in wanted.groups] != list(_RELATIVE):
        return
    first, second = _match(wanted.groups, reading.groups)
    right = (
        first is not None
        and second is not None
        and PLACES.index(first.place) < PLACES.index(second.place)
    )
    tally.count("place", right)
    tally.count("at place", right)


def held_out_prompts(count: int, size_px: tuple[int, int]) -> list[tuple[str, Wanted]]:
    """Prompts that ask for things, from scenes that training could not have seen."""
    rng = random.Random(f"prompts {size_px}")
    prompts: list[tuple[str, Wanted]] = []
    while len(prompts) < count:
        scene = sample_scene(rng, held_out=True, size_px=size_px)
        caption, wanted = describe(as_drawn(scene, lay_out(scene)), rng)
        if wanted.groups and len(caption.replace(",", " ,").split()) <= 28:
            assert parse(caption) == wanted
            prompts.append((caption, wanted))
    return prompts


def score_model(
    folder: Path, count: int, steps: int, guidance: float, sheet: Path | None = None
) -> Tally:
    """Half the prompts square, a quarter each of the other sizes."""
    pipeline, reader, tally = load(folder), scorer.load(), Tally()
    for size_px, part in zip(PICTURE_SIZES_PX, (2, 1, 1), strict=True):
        prompts = held_out_prompts(count * part // 4, size_px)
        pictures = draw(
            pipeline,
            [caption for caption, _ in prompts],
            size_px,
            list(range(len(prompts))),
            steps=steps,
            guidance=guidance,
            max_sequence_length=1,
        )
        readings = scorer.read(reader, np.stack([np.asarray(p) for p in pictures]))
        for (caption, wanted), reading, picture in zip(prompts, readings, pictures, strict=True):
            failures = Tally()
            compare(wanted, reading, failures)
            compare(wanted, reading, tally)
            if sheet and not failures.met["everything"]:
                sheet.mkdir(parents=True, exist_ok=True)
                picture.save(sheet / (caption.replace(" ", "_") + ".png"))
    return tally


def score_scorer(count: int) -> Tally:
    """The scorer on held-out rendered postcards, where every attribute counts as asked for."""
    reader, tally = scorer.load(), Tally()
    for number in range(count):
        size_px = PICTURE_SIZES_PX[number % 3]
        pixels, scene, _ = dataset.postcard(number, size_px, held_out=True)
        compare(everything(scene), scorer.read(reader, pixels[None])[0], tally)
    return tally


def everything(scene: Scene) -> Wanted:
    groups = tuple(WantedGroup(g.kind, g.count, g.colour, g.size, g.place) for g in scene.groups)
    return Wanted(scene.sky, scene.ground, scene.mountains, groups)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("presets/demo"))
    parser.add_argument("--rendered", action="store_true")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--guidance", type=float, default=GUIDANCE)
    parser.add_argument("--failures", type=Path, help="folder for the pictures that missed")
    arguments = parser.parse_args()
    if arguments.rendered:
        print(score_scorer(arguments.count).table())
        return
    tally = score_model(
        arguments.folder, arguments.count, arguments.steps, arguments.guidance, arguments.failures
    )
    print(tally.table())


if __name__ == "__main__":
    main()
