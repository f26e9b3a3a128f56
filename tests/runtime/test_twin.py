"""A tiny Stable Diffusion 3 through the worker, on the software TPU."""

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dispatch.driving import all_updates, ending_of, saved_by, wait_for, wait_step
from tests.runtime import twins
from tests.runtime.conftest import (
    READY_S,
    Start,
    assert_compiles_nothing,
    forget_programs,
    pixels,
    random_wish,
    warm_all,
)
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.errors import LoadError
from tpu_ui.presets import Preset, load
from tpu_ui.protocol import Failed, Load, Loading, Warming
from tpu_ui.request import validate
from tpu_ui.runtime.device import open_device
from tpu_ui.runtime.diffusion import DiffusionRuntime
from tpu_ui.shapes import ImageSize, Mode, ProgramState
from tpu_ui.strategy import RESIDENT

SQUARE = ImageSize(32, 32)
WIDE = ImageSize(64, 32)


@pytest.fixture(scope="module")
def warm_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warm") / "cache"


@pytest.fixture(scope="module")
def warm(start: Start, tiny_sd3: Preset, warm_cache: Path) -> Iterator[LocalDispatcher]:
    """Both sizes of the twin ready in all three modes."""
    dispatcher = start(tiny_sd3, cache=warm_cache)
    warm_all(dispatcher, "tiny-sd3")
    assert dispatcher.status().programs_compiled > 0
    yield dispatcher
    forget_programs(warm_cache)


def wish(dispatcher: LocalDispatcher, **wishes: object) -> str:
    limits = dispatcher.limits("tiny-sd3")
    return dispatcher.submit(validate(limits, **{"prompt": "a hill", "seed": 1, **wishes}))


@pytest.mark.parametrize("mode", list(Mode))
def test_nothing_compiles_after_ready(warm: LocalDispatcher, mode: Mode) -> None:
    chance = random.Random(f"zero {mode}")
    limits = warm.limits("tiny-sd3")
    for _ in range(12):
        assert_compiles_nothing(warm, "tiny-sd3", mode, random_wish(chance, limits))


def test_second_start_compiles_nothing(
    warm: LocalDispatcher, warm_cache: Path, start: Start, tiny_sd3: Preset
) -> None:
    again = start(tiny_sd3, cache=warm_cache)
    warm_all(again, "tiny-sd3")
    (saved,) = saved_by(again, wish(again, mode="compiled"))
    assert again.status().programs_compiled == 0
    (first,) = saved_by(warm, wish(warm, mode="compiled"))
    assert pixels(saved.path) == pixels(first.path)


def test_several_images_are_the_images_of_following_seeds(warm: LocalDispatcher) -> None:
    together = saved_by(warm, wish(warm, mode="compiled", seed=40, count=2))
    alone = saved_by(warm, wish(warm, mode="compiled", seed=41))
    assert [one.info.seed for one in together] == [40, 41]
    assert pixels(together[1].path) == pixels(alone[0].path)
    assert pixels(together[0].path) != pixels(alone[0].path)


@pytest.mark.parametrize("mode", list(Mode))
def test_remembered_prompt_gives_the_same_picture(warm: LocalDispatcher, mode: Mode) -> None:
    prompt = f"first seen in {mode} mode"
    fresh = saved_by(warm, wish(warm, mode=mode, prompt=prompt, negative_prompt="fog"))
    again = saved_by(warm, wish(warm, mode=mode, prompt=prompt, negative_prompt="fog"))
    assert pixels(fresh[0].path) == pixels(again[0].path)
    other = saved_by(warm, wish(warm, mode=mode, prompt=prompt, negative_prompt="rain"))
    assert pixels(fresh[0].path) != pixels(other[0].path)


def test_changing_modes_loads_nothing(warm: LocalDispatcher) -> None:
    pids = warm.worker_pids()
    for mode in (Mode.EAGER, Mode.COMPILED, Mode.FUSED):
        updates = all_updates(warm, wish(warm, mode=mode))
        assert not [update for update in updates if isinstance(update, Loading | Warming)]
    assert warm.worker_pids() == pids


def test_prompt_beyond_the_encoders_length_is_told(warm: LocalDispatcher) -> None:
    saved = saved_by(warm, wish(warm, mode="compiled", prompt="x" * 20 + " tail" * 10))
    assert len(saved[0].info.notices) == 1
    assert "text_encoder and text_encoder_2 read only 24" in saved[0].info.notices[0]
    assert "tail" in saved[0].info.notices[0]


def test_negative_prompt_without_guidance_is_told(warm: LocalDispatcher) -> None:
    saved = saved_by(warm, wish(warm, mode="compiled", guidance=1.0, negative_prompt="fog"))
    assert saved[0].info.notices == ("At guidance scale 1 the negative prompt has no effect.",)


def test_warm_up_tells_what_it_does(start: Start, tiny_sd3: Preset) -> None:
    dispatcher = start(tiny_sd3)
    updates = all_updates(dispatcher, dispatcher.warm_up("tiny-sd3", Mode.FUSED, SQUARE), READY_S)
    warming = [update for update in updates if isinstance(update, Warming)]
    counts = [update.programs_compiled for update in warming]
    assert counts == sorted(counts)
    assert counts[-1] > 0
    assert {"guidance 4: text", "guidance 1: step 3 of 3"} <= {update.stage for update in warming}
    status = dispatcher.status().sizes[Mode.FUSED][SQUARE]
    assert status.state is ProgramState.READY
    assert status.programs_compiled == counts[-1]
    assert status.seconds


def test_killed_worker_fails_its_job_and_the_next_runs(warm: LocalDispatcher) -> None:
    job = wish(warm, mode="eager", steps=30, count=4)
    wait_step(warm, job, 2)
    (pid,) = warm.worker_pids()
    os.kill(pid, signal.SIGKILL)
    ending = ending_of(warm, job)
    assert isinstance(ending, Failed)
    assert "killed by signal 9" in ending.message
    wait_for(warm, lambda status: status.state == "ready", READY_S)
    assert warm.worker_pids() != (pid,)
    assert warm.status().sizes[Mode.COMPILED][WIDE].state is ProgramState.READY
    saved = saved_by(warm, wish(warm, mode="compiled", size="64x32"))
    assert saved[0].info.programs_compiled == 0


def test_nan_is_an_error_and_not_a_black_picture(
    start: Start, tmp_path_factory: pytest.TempPathFactory
) -> None:
    broken = twins.sd3(tmp_path_factory.mktemp("broken"), "tiny-sd3", broken=True)
    dispatcher = start(broken, device="cpu")
    for _ in range(2):  # the worker survives: the second job is answered alike
        job = dispatcher.submit(validate(dispatcher.limits("tiny-sd3"), prompt="a hill"))
        ending = ending_of(dispatcher, job, READY_S)
        assert isinstance(ending, Failed)
        assert ending.kind == "BrokenImageError"
        assert "NaN" in ending.message


def test_missing_weights_file_is_named(
    start: Start, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("missing")
    preset = twins.sd3(folder)
    (folder / "tiny-sd3" / "vae" / "diffusion_pytorch_model.safetensors").unlink()
    dispatcher = start(preset, device="cpu")
    status = wait_for(dispatcher, lambda status: status.state == "failed", READY_S)
    assert "vae" in status.detail
    assert "complete" in status.detail


@pytest.mark.parametrize(
    ("right", "wrong", "field", "remedy"),
    [
        ('denoiser = "transformer"', 'denoiser = "unet"', "components.denoiser", "it has"),
        ('sizes = ["32x32", "64x32"]', 'sizes = ["34x32"]', "sizes", "multiples of 4"),
        ('repository = "./tiny-sd3"', 'repository = "./gone"', "./gone", "beside"),
    ],
)
def test_preset_that_does_not_fit_its_model_is_told(
    right: str, wrong: str, field: str, remedy: str, tmp_path: Path
) -> None:
    twins.sd3(tmp_path)
    path = tmp_path / "tiny-sd3.toml"
    assert right in path.read_text()
    path.write_text(path.read_text().replace(right, wrong))
    runtime = DiffusionRuntime(open_device("cpu"), tmp_path / "traces")
    with pytest.raises(LoadError) as error:
        list(runtime.load(Load("load", load(path), RESIDENT)))
    assert field in str(error.value)
    assert remedy in str(error.value)
    assert str(tmp_path) not in str(error.value)


def test_model_that_is_not_compiled_is_an_error_and_not_another_mode(
    start: Start, tiny_sd3: Preset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")  # left to itself, torch would run eager
    dispatcher = start(tiny_sd3)
    ending = ending_of(dispatcher, wish(dispatcher, mode="compiled"), READY_S)
    assert isinstance(ending, Failed)
    assert ending.kind == "CompilationError"
    assert "Use fused or eager mode" in ending.message
    assert dispatcher.status().sizes[Mode.COMPILED][SQUARE].state is ProgramState.FAILED
