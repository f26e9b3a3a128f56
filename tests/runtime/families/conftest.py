"""What the presets of one family have in common."""

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the family's twins and for what was compiled for them."""
    return tmp_path_factory.mktemp("family")
