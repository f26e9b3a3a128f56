"""A tiny FLUX.1 through the worker, on the software TPU: the promise holds for its family too."""

import random

import pytest

from tests.dispatch.driving import saved_by
from tests.runtime import twins
from tests.runtime.conftest import Start, assert_compiles_nothing, pixels, random_wish, warm_all
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.request import validate
from tpu_ui.shapes import Mode


@pytest.fixture(scope="module")
def warm(start: Start, tmp_path_factory: pytest.TempPathFactory) -> LocalDispatcher:
    dispatcher = start(twins.flux1(tmp_path_factory.mktemp("flux1")))
    warm_all(dispatcher, "tiny-flux1")
    return dispatcher


@pytest.mark.parametrize("mode", list(Mode))
def test_nothing_compiles_after_ready(warm: LocalDispatcher, mode: Mode) -> None:
    chance = random.Random(f"flux {mode}")
    limits = warm.limits("tiny-flux1")
    for _ in range(12):
        assert_compiles_nothing(warm, "tiny-flux1", mode, random_wish(chance, limits))


def test_prompt_and_seed_change_the_picture(warm: LocalDispatcher) -> None:
    limits = warm.limits("tiny-flux1")
    made = [
        saved_by(warm, warm.submit(validate(limits, prompt=prompt, seed=seed, steps=3)))[0]
        for prompt, seed in (("a hill", 1), ("a hill", 1), ("a hill", 2), ("two boats", 1))
    ]
    first, again, other_seed, other_prompt = (pixels(one.path) for one in made)
    assert first == again
    assert first not in (other_seed, other_prompt)
