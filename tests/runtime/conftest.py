"""Real runtimes in real worker processes, on the software TPU and the CPU."""

import random
import string
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.dispatch.driving import ending_of, saved_by
from tests.runtime import twins
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.presets import Preset
from tpu_ui.protocol import Finished
from tpu_ui.request import Limits, validate
from tpu_ui.runtime.start import forget_shared_memory, shared_memory_name
from tpu_ui.shapes import Mode

READY_S = 240.0
# XLA's CPU backend does the same and takes its time to run it: tiny programs are compiled here by
# the thousand, and each is run a few times.
QUICK_TO_COMPILE = "--xla_backend_optimization_level=0"

Start = Callable[..., LocalDispatcher]


@contextmanager
def starting(folder: Path) -> Iterator[Start]:
    made: list[LocalDispatcher] = []

    def make(preset: Preset, *others: Preset, **options: Any) -> LocalDispatcher:
        chosen: dict[str, Any] = {
            "model": preset.name,
            "mode": None,
            "device": "software-tpu",
            "warm": "none",
            "locked": False,
            "workers": 1,
            "outputs": folder / "outputs",
            "cache": folder / f"cache-{len(made)}",
            **options,
        }
        presets = {one.name: one for one in (preset, *others)}
        made.append(LocalDispatcher(presets, **chosen))
        return made[-1]

    yield make
    for dispatcher in made:
        dispatcher.close()
    for cache in folder.glob("cache-*"):
        forget_programs(cache)


def forget_programs(cache: Path) -> None:
    """Nothing of a test stays in shared memory."""
    for folder in (cache / "programs").glob("*"):
        forget_shared_memory(shared_memory_name(folder))


def warm_all(dispatcher: LocalDispatcher, model: str, modes: Iterable[Mode] = Mode) -> None:
    """Every size of the model ready in the modes."""
    for mode in modes:
        for size in dispatcher.limits(model).sizes:
            ending = ending_of(dispatcher, dispatcher.warm_up(model, mode, size), READY_S)
            assert isinstance(ending, Finished), ending


def assert_compiles_nothing(
    dispatcher: LocalDispatcher, model: str, mode: Mode, wishes: dict[str, Any]
) -> None:
    """The images that are wished for are made in `mode`, by programs that are there."""
    job = dispatcher.submit(validate(dispatcher.limits(model), mode=mode, **wishes))
    ending = ending_of(dispatcher, job, READY_S)
    assert isinstance(ending, Finished), ending
    saved = saved_by(dispatcher, job)
    assert [one.info.programs_compiled for one in saved] == [0] * wishes["count"], wishes
    assert {one.info.mode for one in saved} == {mode}
    assert dispatcher.status().programs_compiled_since_ready == 0


def random_wish(chance: random.Random, limits: Limits) -> dict[str, Any]:
    """Anything that the limits allow; few steps and few images more often than many."""
    text = "".join(chance.choices(string.ascii_letters + " ,é雪", k=chance.randint(1, 120)))
    guidance, negative = limits.guidance, limits.takes_negative_prompt
    return {
        "prompt": f"a {text}",
        "negative_prompt": chance.choice(["", "fog", text[::-1]]) if negative else "",
        "size": str(chance.choice(limits.sizes)),
        "steps": min(limits.steps.minimum + int(chance.expovariate(0.3)), limits.steps.maximum),
        "guidance": chance.choice(
            [guidance.minimum, guidance.default, chance.uniform(guidance.minimum, guidance.maximum)]
        ),
        "seed": chance.randrange(2**32 - 8),
        "count": chance.choice([1, 1, 1, chance.randint(2, limits.max_count)]),
    }


def pixels(path: Path) -> bytes:
    with Image.open(path) as image:
        return image.tobytes()


@pytest.fixture(scope="module", autouse=True)
def quick_to_compile() -> Iterator[None]:
    """Whatever the tests of a file start compiles with little effort."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLA_FLAGS", QUICK_TO_COMPILE)
        yield


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start a dispatcher for a preset, and others to switch to; keywords replace the options."""
    with starting(tmp_path_factory.mktemp("real")) as make:
        yield make


@pytest.fixture(scope="session")
def tiny_sd3(tmp_path_factory: pytest.TempPathFactory) -> Preset:
    return twins.sd3(tmp_path_factory.mktemp("twins"))
