"""Claims about compiling for chips that are not here: libtpu itself, on a small program."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.launching import ROOT
from tpu_ui.chips import BY_NAME
from tpu_ui.errors import PlanError
from tpu_ui.plan import compiler
from tpu_ui.plan.compiler import TOPOLOGIES, compile_, kept, topology
from tpu_ui.plans import Program

SIDE = 1024
MATMUL = Program(component="transformer", part="Linear", digest="0" * 32)


def written(folder: Path, side: int) -> Path:
    """The program of a product of float32 matrices, side x side."""
    file = folder / f"matmul-{side}.program"
    script = ROOT / "tests" / "plan" / "small_program.py"
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, script, file, str(side)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return file


@pytest.fixture(scope="module")
def matmul(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("programs"), SIDE)


def nothing() -> None:
    """For what there is to do while a compiler works."""


@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_compiler_says_what_a_program_takes_and_it_is_kept(
    matmul: Path, tmp_path: Path, chip: str
) -> None:
    name = topology(BY_NAME[chip], 1)
    assert kept(MATMUL, name, tmp_path) is None
    said = compile_(MATMUL, matmul, name, tmp_path, nothing)
    matrix_bytes = SIDE * SIDE * 4
    assert said.how == "compiled"
    assert said.argument_bytes == 2 * matrix_bytes
    assert said.output_bytes == matrix_bytes
    assert said.flop == pytest.approx(2 * SIDE**3, rel=0.01)
    assert said.accessed_bytes >= said.argument_bytes + matrix_bytes
    assert kept(MATMUL, name, tmp_path) == said


def test_what_is_no_program_is_refused_and_not_a_traceback(tmp_path: Path) -> None:
    import pickle

    file = tmp_path / "bad.program"
    file.write_bytes(pickle.dumps((b"nothing", b"")))
    said = compile_(MATMUL, file, "v6e:1x1", tmp_path, nothing)
    assert said.how == "failed"
    assert "crashed" not in said.error
    assert "Failed to parse" in said.error


def test_program_that_does_not_fit_is_refused_with_what_it_would_take(tmp_path: Path) -> None:
    file = written(tmp_path, 2**16)  # three matrices of 16 GiB
    said = compile_(MATMUL, file, "v6e:1x1", tmp_path, nothing)
    assert said.how == "failed"
    assert "Ran out of memory" in said.error
    assert said.peak_bytes >= 48 * 2**30


def test_crash_of_the_compiler_is_a_refusal_that_is_not_kept(tmp_path: Path) -> None:
    said = compile_(MATMUL, tmp_path / "missing", "v6e:1x1", tmp_path, nothing)
    assert said.how == "failed"
    assert said.error.startswith("the compiler crashed (1): ")
    assert kept(MATMUL, "v6e:1x1", tmp_path) is None


def test_memory_that_a_program_would_take_is_read_from_the_refusal() -> None:
    for text in ("Used 39.5G of 31.25G hbm. Exceeded", "it (39.5G) exceeds available HBM (31.24G)"):
        said = compiler._said({"error": f"RESOURCE_EXHAUSTED: {text}"})
        assert (said["how"], said["peak_bytes"]) == ("failed", round(39.5 * 2**30))


def test_machine_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(PlanError, match="A machine has 1, 4, 8 of v6e chips, not 2"):
        topology(BY_NAME["v6e"], 2)
    assert set(TOPOLOGIES) == {"v5e", "v5p", "v6e", "v7x"}
