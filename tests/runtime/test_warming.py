"""The programs of sizes that are warmed up one after another compile side by side."""

import json
import subprocess
import sys
from pathlib import Path

from tests.launching import ROOT
from tests.runtime.conftest import forget_programs


def test_next_size_is_compiled_beside_and_is_neither_counted_nor_seen_elsewhere(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "tests.runtime.cores_to_spare", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    forget_programs(tmp_path / "cache")
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    stages, later = told["stages"], told["later_stages"]
    assert "next: 64x32" in stages
    assert stages.index("next: 64x32") < len(stages) - 1, "it comes before the own size is ready"
    assert not any(stage.startswith("next") for stage in later)
    assert later[0].endswith(": text"), "what was traced already was traced again"
    assert told["beside"] >= 13  # the denoiser in two states, and the decoder's parts
    assert told["counted"] == told["compiled"]
    assert told["strays"] == [0, 0, 0, 0]
    square, wide, *again = told["pictures"]
    assert again == [square, wide]
    assert square != wide
