"""What each rank holds and runs: its share of the weights, and one graph."""

from pathlib import Path

import pytest

from tests.runtime import twins
from tests.runtime.sharding import run_ranks
from tests.runtime.twins.large import pickled, small_and_large
from tpu_ui import presets
from tpu_ui.shapes import Strategy


def test_a_rank_holds_its_share_and_at_no_time_much_more(tmp_path: Path) -> None:
    files = small_and_large(tmp_path)
    # What is freed goes back at once, so that it is not counted.
    environment = {"MALLOC_MMAP_THRESHOLD_": "65536"}
    watch = "tests.runtime.ranks.memory"
    sharded = run_ranks(watch, Strategy.SHARDED, *files, **environment)
    (whole,) = run_ranks(watch, Strategy.RESIDENT, *files, ranks=1, **environment)
    assert len(sharded) == 2
    shared = sharded[0]["shared"]
    assert shared > 0.75 * sharded[0]["all"]
    assert sum(rank["share"] for rank in sharded) == shared
    for rank in sharded:
        assert rank["share"] == pytest.approx(shared / 2, rel=0.001)  # a vocabulary may be odd
        held = rank["all"] - shared + rank["share"]
        most = held + rank["largest"]
        assert 0.9 * held < rank["peak"] < most
        assert whole["peak"] > most, "nothing would show in this test"


def test_denoiser_that_is_shared_out_compiles_whole_and_its_trace_is_read_again(
    tmp_path: Path,
) -> None:
    preset = pickled(twins.of(presets.load_all()["flux2-dev"], tmp_path), tmp_path / "preset")
    for graphs in (1, 0):
        results = run_ranks("tests.runtime.ranks.one_graph", preset, tmp_path / "traces")
        assert len(results) == 2
        for result in results:
            assert result["graphs_traced"] == graphs
            assert result["runs"] == 2
            assert result["spread"] > 0.1
            assert result["apart"] < 1e-5
