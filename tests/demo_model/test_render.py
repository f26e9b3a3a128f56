"""Claims about postcards and captions; no model is loaded."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from demo_model.captions import describe, parse
from demo_model.layout import HALF_TILE_PX, TILE_PX, as_drawn, lay_out
from demo_model.render import render, render_with_layout
from demo_model.scene import KINDS, PICTURE_SIZES_PX, PLACES, SIZES, is_held_out, sample_scene


@pytest.mark.parametrize("size_px", PICTURE_SIZES_PX)
def test_same_scene_and_seed_give_the_same_pixels(size_px: tuple[int, int]) -> None:
    scene = sample_scene(random.Random(3), held_out=False, size_px=size_px)
    first = render(scene, 5)
    assert first.shape == (size_px[1], size_px[0], 3)
    assert np.array_equal(first, render(scene, 5))
    assert not np.array_equal(first, render(scene, 6))


def test_things_stand_inside_the_card_in_the_order_of_their_places() -> None:
    rng = random.Random(0)
    for number in range(60):
        size_px = PICTURE_SIZES_PX[number % 3]
        scene = sample_scene(rng, held_out=False, size_px=size_px)
        _, layout = render_with_layout(scene, number)
        boxes = {thing.group.place: [] for thing in layout.placed}
        for thing in layout.placed:
            left, _, right, bottom = thing.box_px
            assert left >= 0
            assert right <= size_px[0]
            assert bottom <= size_px[1]
            boxes[thing.group.place].append((left + right) / 2)
        means = [np.mean(boxes[place]) for place in PLACES if place in boxes]
        assert means == sorted(means)


def test_a_size_is_the_one_that_a_thing_came_out_with() -> None:
    rng = random.Random(4)
    heights: dict[tuple[str, str], set[float]] = {}
    shrunk = 0
    for number in range(150):
        scene = sample_scene(rng, held_out=False, size_px=(192, 320))
        _, layout = render_with_layout(scene, number)
        drawn = as_drawn(scene, layout)
        shrunk += drawn != scene
        for thing in layout.placed:
            group = next(group for group in drawn.groups if group.place == thing.group.place)
            heights.setdefault((group.kind, group.size), set()).add(thing.spot.height)
    assert shrunk  # some had no room in the size that was asked for
    assert all(len(of_size) == 1 for of_size in heights.values())
    for kind in KINDS:
        of_kind = [min(heights[kind, size]) for size in SIZES]
        assert of_kind == sorted(set(of_kind))


@pytest.mark.parametrize("size_px", PICTURE_SIZES_PX)
def test_every_scene_has_room_on_the_grid_and_nothing_touches(size_px: tuple[int, int]) -> None:
    rng = random.Random(5)
    for _ in range(3000):
        layout = lay_out(sample_scene(rng, held_out=False, size_px=size_px))
        assert layout.horizon_px % TILE_PX == 0
        boxes = sorted(thing.box_px for thing in layout.placed)
        assert all(left[2] < right[0] for left, right in pairwise(boxes))
        for thing in layout.placed:
            assert thing.spot.base % TILE_PX == 0
            assert thing.spot.x % HALF_TILE_PX == 0


def test_a_caption_parses_back_to_what_it_says() -> None:
    rng = random.Random(1)
    for _ in range(2000):
        scene = sample_scene(rng, held_out=False, size_px=(256, 256))
        caption, wanted = describe(scene, rng)
        assert parse(caption) == wanted, caption


def test_held_out_scenes_never_come_from_the_training_side() -> None:
    rng = random.Random(2)
    for side in (True, False):
        for _ in range(200):
            assert is_held_out(sample_scene(rng, held_out=side, size_px=(256, 256))) == side
