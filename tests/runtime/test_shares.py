"""What each rank holds and runs: its share of the weights, and one graph."""

import pickle
from pathlib import Path

from tests.runtime import twins
from tests.runtime.sharding import run_ranks
from tpu_ui import presets


def test_denoiser_that_is_shared_out_compiles_whole_and_its_trace_is_read_again(
    tmp_path: Path,
) -> None:
    preset = twins.of(presets.load_all()["flux2-dev"], tmp_path)
    (tmp_path / "preset").write_bytes(pickle.dumps(preset))
    for graphs in (1, 0):
        results = run_ranks(
            "tests.runtime.ranks.one_graph", tmp_path / "preset", tmp_path / "traces"
        )
        assert len(results) == 2
        for result in results:
            assert result["graphs_traced"] == graphs
            assert result["runs"] == 2
            assert result["spread"] > 0.1
            assert result["apart"] < 1e-5
