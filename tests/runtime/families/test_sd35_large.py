"""Claims about the presets of Stable Diffusion 3.5 Large, by their tiny twins."""

from pathlib import Path

from tests.runtime.conftest import Start
from tests.runtime.families.claims import each, gives_the_picture_and_compiles_nothing


@each("sd35_large")
def test_strategies_and_modes_give_the_picture_and_compile_nothing(
    name: str, start: Start, family: Path
) -> None:
    gives_the_picture_and_compiles_nothing(name, start, family)
