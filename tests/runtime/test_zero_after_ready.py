"""The app's promise, on the model that comes with it: after ready nothing compiles.

Compiled mode on all of the demo model's sizes; test_twin has all modes on a smaller model.
"""

import random

from tests.runtime.conftest import Start, assert_compiles_nothing, random_wish, warm_all
from tpu_ui.presets import load_all
from tpu_ui.shapes import Mode

REQUESTS = 40  # benchmarks/zero_after_ready.py makes 200


def test_nothing_compiles_after_ready(start: Start) -> None:
    demo = start(load_all()["demo"])
    warm_all(demo, "demo", [Mode.COMPILED])
    chance, limits = random.Random("demo"), demo.limits("demo")
    for _ in range(REQUESTS):
        assert_compiles_nothing(demo, "demo", Mode.COMPILED, random_wish(chance, limits))
