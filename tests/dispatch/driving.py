"""How the tests drive a dispatcher with the fake runtime in real worker processes."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tpu_ui.dispatch.interface import Dispatcher, ImageSaved, Status, Update
from tpu_ui.presets import Preset, load
from tpu_ui.protocol import Cancelled, Ending, Failed, Finished, Stepped
from tpu_ui.request import GenerationRequest, validate
from tpu_ui.shapes import ImageSize, Mode, ProgramState

FAKE = "tpu_ui.runtime.fake:FakeRuntime"
SQUARE = ImageSize(64, 64)
WIDE = ImageSize(96, 64)
COMPILED = Mode.COMPILED
TIMEOUT_S = 20.0

T = TypeVar("T")

TOML = """
name = "{name}"
title = "Model {name}"
description = "{description}"
repository = "./{name}"
licence = "Apache-2.0"
pipeline = "StableDiffusion3Pipeline"
dtype = "float32"
sizes = ["64x64", "96x64"]
negative_prompt = true
text_tokens = 40

[steps]
minimum = 1
maximum = 30
default = 2

[guidance]
minimum = 1.0
maximum = 8.0
default = 4.0
off = 1.0

[components]
denoiser = "transformer"
text_encoders = ["text_encoder"]
vae = "vae"
"""


def make_preset(
    folder: Path, name: str = "demo", description: str = "A fake.", **changes: object
) -> Preset:
    path = folder / f"{name}.toml"
    path.write_text(TOML.format(name=name, description=description))
    return load(path).model_copy(update=changes)


def ask(
    dispatcher: Dispatcher, prompt: str = "a hill", model: str = "demo", **wishes: object
) -> GenerationRequest:
    return validate(dispatcher.limits(model), prompt=prompt, **{"seed": 7, **wishes})


def wait_for(
    dispatcher: Dispatcher, claim: Callable[[Status], bool], timeout_s: float = TIMEOUT_S
) -> Status:
    """The first status for which `claim` holds."""
    tick = threading.Event()
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        status = dispatcher.status()
        if claim(status):
            return status
        tick.wait(0.02)
    raise AssertionError(f"did not come about; last status: {dispatcher.status()}")


def wait_ready(dispatcher: Dispatcher) -> Status:
    return wait_for(dispatcher, lambda status: status.state == "ready")


def state_of(status: Status, size: ImageSize = SQUARE, mode: Mode = COMPILED) -> ProgramState:
    return status.sizes[mode][size].state


def in_time(work: Callable[[], T], timeout_s: float = TIMEOUT_S) -> T:
    """What `work` returns; an error when that takes too long."""
    results: list[T] = []
    thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
    thread.start()
    thread.join(timeout_s)
    assert results, "did not end in time"
    return results[0]


def all_updates(dispatcher: Dispatcher, job: str, timeout_s: float = TIMEOUT_S) -> list[Update]:
    return in_time(lambda: list(dispatcher.updates(job)), timeout_s)


def ending_of(dispatcher: Dispatcher, job: str, timeout_s: float = TIMEOUT_S) -> Ending:
    """The one ending of a job, which is also its last update."""
    updates = all_updates(dispatcher, job, timeout_s)
    endings = [update for update in updates if isinstance(update, Finished | Failed | Cancelled)]
    assert len(endings) == 1
    assert endings[0] is updates[-1]
    return endings[0]


def saved_by(dispatcher: Dispatcher, job: str) -> list[ImageSaved]:
    return [one for one in all_updates(dispatcher, job) if isinstance(one, ImageSaved)]


def wait_step(dispatcher: Dispatcher, job: str, step: int = 1) -> None:
    """Until the job has done `step`."""

    def follow() -> bool:
        for update in dispatcher.updates(job):
            if isinstance(update, Stepped) and update.step >= step:
                return True
        return False

    assert in_time(follow), "the job ended before that step"


def alive(pid: int) -> bool:
    """Whether a process runs. One that has ended but whose parent has not asked yet does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
