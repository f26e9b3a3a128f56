"""Claims about the presets of FLUX.1, by their tiny twins."""

import random
from pathlib import Path

from tests.runtime import twins
from tests.runtime.conftest import Start, assert_compiles_nothing, random_wish, warm_all
from tests.runtime.families.claims import each, gives_the_picture_and_compiles_nothing
from tpu_ui.presets import load_all
from tpu_ui.shapes import Mode

REQUESTS = 12


@each("flux1")
def test_strategies_and_modes_give_the_picture_and_compile_nothing(
    name: str, start: Start, family: Path
) -> None:
    gives_the_picture_and_compiles_nothing(name, start, family)


def test_any_requests_for_any_sizes_compile_nothing(
    start: Start, family: Path, tmp_path: Path
) -> None:
    twin = twins.of(load_all()["flux1-schnell"], tmp_path)
    dispatcher = start(twin, cache=family / "cache")
    warm_all(dispatcher, twin.name)
    chance, limits = random.Random("flux"), dispatcher.limits(twin.name)
    assert len(limits.sizes) == 2
    for mode in Mode:
        for _ in range(REQUESTS):
            assert_compiles_nothing(dispatcher, twin.name, mode, random_wish(chance, limits))
    dispatcher.close()
