"""Claims about what this program is made of: pinned packages, and no code from a model's files."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "tpu_ui").rglob("*.py"))
PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^ ;\\]+)")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def locked() -> dict[str, tuple[str, int]]:
    """Package -> version, number of hashes."""
    found: dict[str, tuple[str, int]] = {}
    for block in re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text()):
        if pin := PIN.match(block):
            found[normal(pin[1])] = (pin[2], len(re.findall(r"--hash=sha256:[0-9a-f]{64}", block)))
    return found


def test_every_package_is_locked_with_hashes(locked: dict[str, tuple[str, int]]) -> None:
    assert len(locked) > 100
    assert [name for name, (_, hashes) in locked.items() if hashes == 0] == []


def test_lock_holds_what_the_readable_list_asks_for(locked: dict[str, tuple[str, int]]) -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    asked = [line for line in lines if line and not line.startswith("#")]
    names = {normal(re.split(r"[<>=;]", line)[0]) for line in asked}
    assert names <= locked.keys()
    for line in asked:
        if pin := PIN.match(line):
            assert locked[normal(pin[1])][0] == pin[2]


def test_lock_names_no_server(locked: dict[str, tuple[str, int]]) -> None:
    assert "://" not in (ROOT / "requirements.lock").read_text()


def calls(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield node


def test_nothing_trusts_code_that_comes_with_a_model() -> None:
    for path in SOURCES:
        assert "trust_remote_code" not in path.read_text(), path


def test_weights_are_never_unpickled() -> None:
    """`plan` pickles its own programs for a child process; nothing else may unpickle at all."""
    for path in SOURCES:
        if path.parent.name == "plan":
            continue
        assert not re.search(r"^(import|from) (pickle|joblib|dill)", path.read_text(), re.M), path
        names = {ast.unparse(call.func) for call in calls(path)}
        assert not names & {"torch.load", "pickle.load", "pickle.loads", "numpy.load"}, path


def test_whatever_reads_weights_insists_on_safetensors() -> None:
    readers = ("load_lora_weights", "kind.from_pretrained")
    found = [
        call
        for path in SOURCES
        for call in calls(path)
        if ast.unparse(call.func).endswith(readers)
        and any(word.arg in ("dtype", "adapter_name") for word in call.keywords)
    ]
    assert len(found) == 2
    for call in found:
        given = {word.arg: ast.unparse(word.value) for word in call.keywords}
        assert given["use_safetensors"] == "True"
