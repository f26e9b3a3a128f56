"""Models shared out among ranks on the CPU: real torchrun, gloo and dispatcher, tiny twins."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.dispatch.driving import ending_of, wait_for
from tests.runtime import twins
from tests.runtime.conftest import READY_S, Start, pixels
from tests.runtime.sharding import BREAKING, ask, drawn, flux2_that_can_break, start_sharded
from tpu_ui import presets
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.errors import BrokenImageError, StrategyError
from tpu_ui.presets import Preset
from tpu_ui.protocol import Cancelled, Failed, Generate, ImageMade, Load, Stepped
from tpu_ui.request import validate
from tpu_ui.runtime.device import open_device
from tpu_ui.shapes import Mode, Strategy
from tpu_ui.strategy import RESIDENT

ROUNDING = 1  # of 255: the shares of a sum are added in another order


@pytest.fixture(scope="module")
def tiny_flux2(tmp_path_factory: pytest.TempPathFactory) -> Preset:
    return flux2_that_can_break(tmp_path_factory.mktemp("twins"))


@pytest.fixture(scope="module")
def pair(start: Start, tiny_flux2: Preset) -> Iterator[LocalDispatcher]:
    """FLUX.2 [dev] on two ranks. Tests leave it at work."""
    dispatcher = start_sharded(start, tiny_flux2, 2)
    yield dispatcher
    dispatcher.close()


def alone(dispatcher: LocalDispatcher, preset: Preset) -> bytes:
    """What this process by itself makes of the same request."""
    from tpu_ui.runtime.diffusion import DiffusionRuntime

    runtime = DiffusionRuntime(open_device("cpu"), Path())
    for _ in runtime.load(Load("load", preset, RESIDENT)):
        pass
    *_, made = runtime.generate(Generate("draw", ask(dispatcher, preset)))
    assert isinstance(made, ImageMade)
    assert made.info.strategy == Strategy.RESIDENT
    return made.rgb


def shared(dispatcher: LocalDispatcher, preset: Preset) -> bytes:
    """What the ranks make of it."""
    saved = drawn(dispatcher, preset)
    assert saved.info.strategy == Strategy.SHARDED
    return pixels(saved.path)


def difference(one: bytes, other: bytes) -> int:
    """The largest between two pixels' values, of 255."""
    values = [np.frombuffer(picture, np.uint8).astype(int) for picture in (one, other)]
    assert np.ptp(values[0]) > 50, "a flat picture shows nothing"
    return int(np.abs(values[0] - values[1]).max())


def test_two_and_four_ranks_of_flux_2_draw_what_one_draws(
    start: Start, tiny_flux2: Preset, pair: LocalDispatcher
) -> None:
    reference = alone(pair, tiny_flux2)
    assert difference(reference, shared(pair, tiny_flux2)) <= ROUNDING
    four = start_sharded(start, tiny_flux2, 4)
    try:
        assert difference(reference, shared(four, tiny_flux2)) <= ROUNDING
    finally:
        four.close()


@pytest.mark.parametrize("name", ["flux2-klein-4b", "flux1-dev", "qwen-image"])
def test_two_ranks_draw_what_one_draws(start: Start, tmp_path: Path, name: str) -> None:
    preset = twins.of(presets.load_all()[name], tmp_path)
    dispatcher = start_sharded(start, preset, 2)
    try:
        reference = alone(dispatcher, preset)
        assert difference(reference, shared(dispatcher, preset)) <= ROUNDING
    finally:
        dispatcher.close()


def test_cancel_ends_a_job_within_a_step_and_leaves_the_ranks_in_step(
    pair: LocalDispatcher, tiny_flux2: Preset
) -> None:
    before = shared(pair, tiny_flux2)
    (pid,) = pair.worker_pids()
    job = pair.submit(ask(pair, tiny_flux2, steps=50))
    steps_done = 0
    for update in pair.updates(job):
        if isinstance(update, Stepped):
            steps_done = update.step
            if update.step == 3:
                assert pair.cancel(job).state == "cancelled"
    assert ending_of(pair, job) == Cancelled(job)
    assert steps_done <= 5  # the one at work, and one that was told of while the cancel was sent
    assert shared(pair, tiny_flux2) == before
    assert pair.worker_pids() == (pid,)


def test_values_that_are_no_numbers_fail_one_job_and_leave_the_ranks_in_step(
    pair: LocalDispatcher, tiny_flux2: Preset
) -> None:
    before = shared(pair, tiny_flux2)
    (pid,) = pair.worker_pids()
    for _ in range(2):
        job = pair.submit(ask(pair, tiny_flux2, prompt=f"a {BREAKING} hill"))
        ending = ending_of(pair, job, READY_S)
        assert isinstance(ending, Failed)
        assert ending.kind == BrokenImageError.__name__
        assert "not numbers (NaN)" in ending.message
    assert shared(pair, tiny_flux2) == before
    assert pair.worker_pids() == (pid,)


def test_chips_that_cannot_share_the_heads_are_refused_before_weights_are_read(
    start: Start, tiny_flux2: Preset, tmp_path: Path
) -> None:
    dispatcher = start_sharded(start, tiny_flux2, 3, cache=tmp_path)
    try:
        failed = wait_for(dispatcher, lambda status: status.state == "failed", READY_S)
        assert "4 attention heads" in failed.detail
        assert "Use 2, 4 chips." in failed.detail
        assert (
            "INFO tpu_ui.runtime.placement" not in (tmp_path / "logs" / "worker-0.log").read_text()
        )
        limits = dispatcher.limits(tiny_flux2.name)
        with pytest.raises(StrategyError, match=r"Use 2, 4 chips\."):
            dispatcher.submit(validate(limits, prompt="a hill", mode=Mode.EAGER))
        dispatcher.set_strategy(tiny_flux2.name, Strategy.RESIDENT)
        assert drawn(dispatcher, tiny_flux2).info.strategy == Strategy.RESIDENT
    finally:
        dispatcher.close()
