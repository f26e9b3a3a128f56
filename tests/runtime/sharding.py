"""How the tests have ranks on the CPU share a model: dispatchers, pictures, groups of processes."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors.torch import load_file, save_file

from tests.dispatch.driving import ending_of, saved_by
from tests.processes import family, listening, parent
from tests.runtime import twins
from tests.runtime.conftest import READY_S, Start
from tpu_ui import presets
from tpu_ui.dispatch.interface import ImageSaved
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.presets import Preset
from tpu_ui.protocol import Finished
from tpu_ui.request import GenerationRequest, validate
from tpu_ui.shapes import Mode, Strategy

ROOT = Path(__file__).resolve().parents[2]
BREAKING = "#"  # a prompt with it makes the twin below go wrong
SCRIPT_S = 120.0


def flux2_that_can_break(folder: Path) -> Preset:
    """FLUX.2 [dev]'s twin. What its text encoder knows of one character are not numbers."""
    preset = twins.of(presets.load_all()["flux2-dev"], folder)
    weights = Path(preset.source) / "text_encoder" / "model.safetensors"
    tensors = load_file(weights)
    (name,) = [name for name in tensors if name.endswith("embed_tokens.weight")]
    words = json.loads((Path(preset.source) / "tokenizer" / "tokenizer.json").read_text())
    tensors[name][words["model"]["vocab"][BREAKING]] = float("nan")
    save_file(tensors, weights, {"format": "pt"})
    return preset


def start_sharded(start: Start, preset: Preset, chips: int, **options: Any) -> LocalDispatcher:
    return start(preset, device="cpu", strategy=Strategy.SHARDED, chips=chips, **options)


def ask(
    dispatcher: LocalDispatcher, preset: Preset, prompt: str = "a hill", steps: int = 4
) -> GenerationRequest:
    limits = dispatcher.limits(preset.name)
    steps = min(max(steps, limits.steps.minimum), limits.steps.maximum)
    return validate(limits, prompt=prompt, mode=Mode.EAGER, seed=1, steps=steps)


def drawn(dispatcher: LocalDispatcher, preset: Preset) -> ImageSaved:
    """A picture; its size is warmed for it, if it has to be."""
    job = dispatcher.submit(ask(dispatcher, preset))
    ending = ending_of(dispatcher, job, READY_S)
    assert isinstance(ending, Finished), ending
    (saved,) = saved_by(dispatcher, job)
    return saved


@dataclass(frozen=True)
class Group:
    """The processes of a dispatcher's one worker, and the sockets that they listen on."""

    torchrun: int
    ranks: tuple[int, ...]
    sockets: frozenset[str]

    @property
    def pids(self) -> tuple[int, ...]:
        return (self.torchrun, *self.ranks)


def group_of(dispatcher: LocalDispatcher) -> Group:
    (first,) = dispatcher.worker_pids()
    torchrun = parent(first)
    ranks = family(torchrun)
    assert ranks[0] == first
    return Group(torchrun, tuple(ranks), frozenset(listening([torchrun, *ranks])))


def run_ranks(module: str, *arguments: object, ranks: int = 2, **environment: str) -> list[Any]:
    """Run `python -m module arguments` in each rank of a group; the JSON that they print."""
    environment |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    with TemporaryDirectory() as folder:
        ran = subprocess.run(
            [sys.executable, *torchrun, f"--log-dir={folder}", "-m", module, *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=SCRIPT_S,
        )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
