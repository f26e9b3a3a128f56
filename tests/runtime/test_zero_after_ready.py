"""The app's promise, on the model that comes with it: after ready nothing compiles."""

import random

import pytest

from tests.runtime.conftest import Start, assert_compiles_nothing, random_wish, warm_all
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.presets import load_all
from tpu_ui.shapes import Mode

REQUESTS = 40  # benchmarks/zero_after_ready.py makes 200


@pytest.fixture(scope="module")
def demo(start: Start) -> LocalDispatcher:
    """The demo model, its three sizes ready in all three modes."""
    dispatcher = start(load_all()["demo"])
    warm_all(dispatcher, "demo")
    return dispatcher


@pytest.mark.parametrize("mode", list(Mode))
def test_nothing_compiles_after_ready(demo: LocalDispatcher, mode: Mode) -> None:
    chance = random.Random(f"demo {mode}")
    limits = demo.limits("demo")
    for _ in range(REQUESTS):
        assert_compiles_nothing(demo, "demo", mode, random_wish(chance, limits))
