"""The app's promise, on the model that comes with it: after ready nothing compiles.

Compiled mode on all of the demo model's sizes; test_twin has all modes on a smaller model.
"""

import random

from tests.dispatch.driving import ending_of
from tests.runtime.conftest import READY_S, Start, assert_compiles_nothing, random_wish
from tpu_ui.presets import load_all
from tpu_ui.protocol import Finished
from tpu_ui.shapes import Mode

REQUESTS = 40  # benchmarks/zero_after_ready.py makes 200


def test_nothing_compiles_after_ready(start: Start) -> None:
    demo = start(load_all()["demo"])
    limits = demo.limits("demo")
    for size in limits.sizes:
        ending = ending_of(demo, demo.warm_up("demo", Mode.COMPILED, size), READY_S)
        assert isinstance(ending, Finished), ending
    chance = random.Random("demo")
    for _ in range(REQUESTS):
        assert_compiles_nothing(demo, "demo", Mode.COMPILED, random_wish(chance, limits))
