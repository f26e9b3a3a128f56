"""Claims about how a worker process starts."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dispatch.driving import FAKE
from tpu_ui.worker.__main__ import runtime_maker


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """This process's garbage collector is as it was afterwards."""
    yield
    gc.enable()
    gc.unfreeze()


def test_what_is_imported_for_a_runtime_is_not_searched_for_garbage(tmp_path: Path) -> None:
    before = gc.get_freeze_count()
    runtime_maker(FAKE, "auto", tmp_path)()
    assert gc.get_freeze_count() > before
    assert gc.isenabled()


def test_runtime_that_cannot_be_imported_leaves_the_collector_at_work(tmp_path: Path) -> None:
    with pytest.raises(ImportError):
        runtime_maker("tpu_ui.runtime.no_such:Runtime", "auto", tmp_path)()
    assert gc.isenabled()
