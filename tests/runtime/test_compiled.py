"""Traces of compiled parts: kept, found again, never taken for another's, never in the way."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.dispatch.driving import ending_of, saved_by
from tests.runtime.conftest import READY_S, Start, forget_programs, pixels
from tests.runtime.twins.autoencoders import autoencoder
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.presets import Preset
from tpu_ui.protocol import Finished
from tpu_ui.request import validate
from tpu_ui.runtime.compiled import decoder_parts

# Prints what modules give for inputs of two shapes, compiled, and eager once more; a module for
# each epsilon.
RUN = """
import logging, sys
from pathlib import Path
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
from tpu_ui.runtime import device
from tpu_ui.runtime.start import keep_programs
cache = Path(sys.argv[1])
keep_programs(cache / "programs")
opened = device.open_device("software-tpu")
import torch
from tpu_ui.runtime.compiled import CompiledPart
wide = torch.arange(16.0).to(opened.torch_device)
for eps in map(float, sys.argv[2:]):
    module = torch.nn.LayerNorm(4, eps=eps).to(opened.torch_device)
    part = CompiledPart([module], opened, "a test", cache / "traces")
    with part.active():
        for values in (wide[:4], wide[8:12], wide.view(4, 4)):
            print([round(value, 3) for value in module(values).flatten().tolist()[-4:]])
    print(module(wide[:4]).requires_grad, part.runs)
"""

# Prints what two modules give while their programs are submitted, what is kept then, and the same
# once they are waited for. Both are on their way before the first is.
AHEAD = """
import sys
from pathlib import Path
from tpu_ui.runtime import device
from tpu_ui.runtime.start import keep_programs
cache = Path(sys.argv[1])
keep_programs(cache / "programs")
opened = device.open_device("software-tpu")
import torch
from tpu_ui.runtime.compiled import CompiledPart
from tpu_ui.runtime.modes import Modes
modules = [torch.nn.LayerNorm(width).to(opened.torch_device) for width in (4, 8)]
parts = [CompiledPart([module], opened, "a test", cache / "traces") for module in modules]
modes = Modes(parts, opened.device)
values = torch.arange(16.0).view(2, 8).to(opened.torch_device)

def show():
    results = [modules[0](values[:, :4]), modules[1](values)]
    kept = len(list((cache / "traces").glob("*")))
    print([round(result.sum(dtype=torch.float32).item() + result[0, -1].item(), 3)
           for result in results], [bool(part.submitted) for part in parts], kept)

with parts[0].active(), parts[1].active():
    with modes.ahead():
        show()
    print(sorted(one.name.partition("_")[0] for one in modes.submitted()))
    show()
    print(modes.submitted())
"""


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cache"
    forget_programs(tmp_path / "cache")


def run(script: str, cache: Path, *epsilons: float) -> tuple[list[str], str]:
    done = subprocess.run(
        [sys.executable, "-c", script, str(cache), *map(str, epsilons)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.splitlines(), done.stderr


def test_trace_is_found_again_and_not_taken_for_another(cache: Path) -> None:
    values, log = run(RUN, cache, 1e-5)
    normed = "[-1.342, -0.447, 0.447, 1.342]"
    assert values == [normed, normed, normed, "True 3"]
    assert log.count("LayerNorm: traced") == 3, "offset and shape each make a program"
    # The other is as large as the variance it is added to, and one a part.
    (*again, other, _, _, _), log = run(RUN, cache, 1e-5, 3.75)
    assert again == values
    assert other == "[-0.671, -0.224, 0.224, 0.671]"
    assert re.findall("LayerNorm: (read|traced)", log) == ["read"] * 3 + ["traced"] * 3


def test_programs_are_submitted_together_and_give_ones_until_they_are_waited_for(
    cache: Path,
) -> None:
    (ahead, submitted, after, left), _ = run(AHEAD, cache)
    assert ahead == "[9.0, 17.0] [True, True] 0"
    assert submitted == "['LayerNorm', 'LayerNorm']"
    assert after == "[1.342, 1.528] [False, False] 2"
    assert left == "frozenset()"


def test_decoder_is_compiled_in_parts_that_leave_nothing_out() -> None:
    vae = autoencoder()
    parts = [part for group in decoder_parts(vae) for part in group]
    weights = [id(weight) for part in parts for weight in part.parameters()]
    assert sorted(weights) == sorted(id(weight) for weight in vae.decoder.parameters())
    blocks = [one for one in vae.decoder.modules() if type(one).__name__ == "ResnetBlock2D"]
    assert {id(block) for block in blocks} <= {id(part) for part in parts}
    assert not any(isinstance(part, torch.nn.ModuleList) for part in parts)
    vae._no_split_modules = None
    assert decoder_parts(vae) == [[vae.decoder]]


@pytest.fixture(scope="module")
def traced(
    start: Start, tiny_sd3: Preset, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, bytes]:
    """A cache in which the twin's compiled mode is warm at one size, and the picture it made."""
    cache = tmp_path_factory.mktemp("traced") / "cache"
    return cache, picture(start(tiny_sd3, cache=cache))


def picture(dispatcher: LocalDispatcher) -> bytes:
    """The pixels of a picture, made compiled; always the same wish."""
    job = dispatcher.submit(
        validate(dispatcher.limits("tiny-sd3"), prompt="a hill", mode="compiled", seed=3)
    )
    assert isinstance(ending_of(dispatcher, job, READY_S), Finished)
    return pixels(saved_by(dispatcher, job)[0].path)


def traces(cache: Path) -> dict[str, tuple[int, int]]:
    """Name of each trace -> when it was written, and its length."""
    stats = {path.name: path.stat() for path in (cache / "traces").rglob("*.traced")}
    return {name: (stat.st_mtime_ns, stat.st_size) for name, stat in stats.items()}


def test_second_start_reads_the_traces_and_makes_none(
    start: Start, tiny_sd3: Preset, traced: tuple[Path, bytes]
) -> None:
    cache, first = traced
    before = traces(cache)
    assert len(before) == 13  # the denoiser with and without guidance, and the decoder's parts
    dispatcher = start(tiny_sd3, cache=cache)
    assert picture(dispatcher) == first
    assert dispatcher.status().programs_compiled == 0
    assert traces(cache) == before


def test_damaged_traces_cost_time_and_nothing_else(
    start: Start, tiny_sd3: Preset, traced: tuple[Path, bytes], cache: Path
) -> None:
    kept, first = traced
    shutil.copytree(kept, cache)
    for number, path in enumerate((cache / "traces").rglob("*.traced")):
        content = path.read_bytes()
        half = content[: len(content) // 2]
        path.write_bytes(half if number % 2 else content[:40] + os.urandom(len(content) - 40))
    for _ in range(2):
        dispatcher = start(tiny_sd3, cache=cache)
        assert picture(dispatcher) == first
        assert dispatcher.status().programs_compiled == 0
        dispatcher.close()
    assert traces(cache) == {}, "a program that was itself read is written down incomplete"


def test_traces_that_cannot_be_kept_do_no_harm(
    start: Start, tiny_sd3: Preset, traced: tuple[Path, bytes], cache: Path
) -> None:
    kept, first = traced
    shutil.copytree(kept / "programs", cache / "programs")
    (cache / "traces").write_text("a file where the folder should be")
    assert picture(start(tiny_sd3, cache=cache)) == first
