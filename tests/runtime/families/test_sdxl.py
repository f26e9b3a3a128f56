"""Claims about the presets of Stable Diffusion XL, by their tiny twins."""

from pathlib import Path

import pytest

from tests.runtime.conftest import Start
from tests.runtime.families.claims import each, gives_the_picture_and_compiles_nothing


# Its scheduler (diffusers 0.42.1) and NumPy 2.
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")
@each("sdxl")
def test_strategies_and_modes_give_the_picture_and_compile_nothing(
    name: str, start: Start, family: Path
) -> None:
    gives_the_picture_and_compiles_nothing(name, start, family)
