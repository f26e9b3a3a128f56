"""What a TPU's processes are told of each other before torchrun starts them. Here is no chip: torch
and torch_tpu are stand-ins in a process of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.sharding import ROOT
from tpu_ui.runtime.group import _assignments

SET_AND_TELL = """
import json, os
from tpu_ui.runtime.group import set_tpu_environment
before = dict(os.environ)
set_tpu_environment(4)
print(json.dumps({name: value for name, value in os.environ.items() if name not in before}))
"""

NEWER = """
import os
class distributed:
    @staticmethod
    def set_tpu_launch_env(nproc_per_node):
        os.environ["TOLD_BY"] = f"torch.tpu, of {nproc_per_node}"
"""

OLDER = """
print("export TOLD_BY='the older launcher'")
print("export CHIPS=2,2,1")
"""


def stand_ins(folder: Path, tpu: str = "", older: str | None = None) -> Path:
    """A folder for sys.path with a `torch.tpu` and, where it is given, the older launcher."""
    files = {"torch/__init__.py": "from torch import tpu", "torch/tpu.py": tpu}
    files["torch_tpu/__init__.py"] = ""
    if older is not None:
        package = "torch_tpu/_internal/distributed/launchers"
        files[f"{package}/singlehost_wrapper.py"] = older
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SET_AND_TELL],
        env={"PYTHONPATH": f"{folder}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=30,
    )


def told(folder: Path) -> dict[str, str]:
    ran = run(folder)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_torch_tpu_tells_it_where_it_can(tmp_path: Path) -> None:
    folder = stand_ins(tmp_path, tpu=NEWER, older=OLDER)
    assert told(folder) == {"TOLD_BY": "torch.tpu, of 4"}


def test_older_torch_tpu_has_a_module_that_prints_it(tmp_path: Path) -> None:
    folder = stand_ins(tmp_path, tpu="class distributed: ...", older=OLDER)
    assert told(folder) == {"TOLD_BY": "the older launcher", "CHIPS": "2,2,1"}


def test_torch_tpu_without_either_is_an_error_that_says_so(tmp_path: Path) -> None:
    ran = run(stand_ins(tmp_path))
    assert ran.returncode != 0
    assert "RuntimeError: This torch_tpu has no launcher for several chips." in ran.stderr


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("A=1", {"A": "1"}),
        ("export A=1", {"A": "1"}),
        ("export A='1, 2'", {"A": "1, 2"}),
        ('A="1=2"', {"A": "1=2"}),
        ("export A=", {"A": ""}),
        ("2 chips were found", {}),
        ("", {}),
    ],
)
def test_assignments_are_read_as_a_shell_would(line: str, expected: dict[str, str]) -> None:
    assert _assignments(line) == expected
    assert _assignments(f"B=0\n{line}\nC=0\n") == {"B": "0", **expected, "C": "0"}
