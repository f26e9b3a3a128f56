"""Each program compiled once, by libtpu, for a chip that is not here.

A compilation is a process of its own; what it said is kept in the cache, by the program, the chip
and the version of libtpu. Knows nothing of torch.
"""

import contextlib
import fcntl
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from tpu_ui.chips import Chip
from tpu_ui.errors import PlanError
from tpu_ui.folders import write_whole
from tpu_ui.plan.captured import attended
from tpu_ui.plans import Program

# libtpu's names of topologies, by chip and number of chips (libtpu 0.0.52).
TOPOLOGIES = {
    "v5e": {1: "v5e:1x1", 4: "v5e:2x2", 8: "v5e:2x4"},
    "v5p": {1: "v5p:2x2x1", 4: "v5p:2x2x1"},  # no machine has fewer than four
    "v6e": {1: "v6e:1x1", 4: "v6e:2x2", 8: "v6e:2x4"},
    "v7x": {1: "tpu7x:1x1x1", 4: "tpu7x:2x2x1"},
}
TELL_S = 0.5

# "the total memory required for HLO temporaries (38.44G) exceeds available HBM (31.24G)", or
# "Used 39.12G of 31.25G hbm" (libtpu 0.0.52).
_USED = re.compile(
    r"(?:\(|Used )([\d.]+)([KMGT]?)(?:\) exceeds available HBM| of [\d.]+[KMGT]? hbm)",
    re.IGNORECASE,
)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def topology(chip: Chip, chips: int) -> str:
    """libtpu's name for a machine. Raises PlanError that says which numbers of chips there are."""
    known = TOPOLOGIES.get(chip.short_name, {})
    if chips not in known:
        counts = ", ".join(map(str, known)) or "no number"
        raise PlanError(f"A machine has {counts} of {chip.short_name} chips, not {chips}.")
    return known[chips]


def kept(program: Program, topology_name: str, cache: Path) -> Program | None:
    """The program with what the compiler has said of it before; None if nobody has asked."""
    file = _file(program, topology_name, cache)
    if not file.exists():
        return None
    return program.model_copy(update=_said(json.loads(file.read_text())))


def compile_(
    program: Program, file: Path, topology_name: str, cache: Path, waits: Callable[[], None]
) -> Program:
    """The program in `file` with what the compiler says of it, which is kept. `waits` is called
    now and then. A compiler that crashes has refused the program; that is not kept."""
    command = [sys.executable, "-m", "tpu_ui.plan.libtpu", str(file), topology_name]
    with (
        _alone(cache, waits),
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as errors,
    ):
        status = attended(command, waits, stdout=out, stderr=errors)
        out.seek(0)
        errors.seek(0)
        answer = out.read()
        if status == 0 and answer:
            write_whole(_file(program, topology_name, cache), answer.encode())
            said = json.loads(answer)
        else:
            last = errors.read().strip().splitlines()[-1:] or ["no message"]
            said = {"error": f"the compiler crashed ({status}): {last[0]}"}
    return program.model_copy(update=_said(said))


@contextlib.contextmanager
def _alone(cache: Path, waits: Callable[[], None]) -> Iterator[None]:
    """A context for one process at a time: a compilation takes every core, and much memory."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "compiling.lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waits()
            else:
                break
        yield


def _said(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" not in answer:
        answer = {name: value for name, value in answer.items() if name != "alias_bytes"}
        return {**answer, "how": "compiled"}
    error = " ".join(answer["error"].split())
    used = _USED.search(error)
    peak_bytes = round(float(used[1]) * _UNITS[used[2]]) if used else 0
    return {"how": "failed", "error": error[:300], "peak_bytes": peak_bytes}


def _file(program: Program, topology_name: str, cache: Path) -> Path:
    compiler = f"libtpu-{metadata.version('libtpu')}"
    key = hashlib.sha256(f"{program.digest} {topology_name}".encode()).hexdigest()[:32]
    return cache / "compiled" / compiler / topology_name.replace(":", "-") / f"{key}.json"
