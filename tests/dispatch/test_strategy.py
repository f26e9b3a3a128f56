"""Claims about another strategy while the app runs: loaded again, warmed again, nothing lost."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.dispatch.driving import (
    COMPILED,
    SQUARE,
    WIDE,
    ask,
    ending_of,
    make_preset,
    saved_by,
    state_of,
    wait_for,
    wait_ready,
    wait_step,
)
from tests.test_chips import plug
from tpu_ui import chips
from tpu_ui.dispatch.costs import FILE_NAME
from tpu_ui.dispatch.interface import Status
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.dispatch.options import Options
from tpu_ui.dispatch.process import WorkerProcess, WorkerSpec
from tpu_ui.errors import InvalidRequestError, SettingsError, StrategyError
from tpu_ui.presets import Preset
from tpu_ui.protocol import Finished
from tpu_ui.shapes import Device, ProgramState, Strategy
from tpu_ui.strategy import Machine

RESIDENT, STAGED, OFFLOAD = Strategy.RESIDENT, Strategy.STAGED, Strategy.OFFLOAD
SHARDED = Strategy.SHARDED

Start = Callable[..., LocalDispatcher]


def offering(folder: Path, *strategies: Strategy, **changes: Any) -> Preset:
    return make_preset(folder, strategies=strategies or (RESIDENT, STAGED, OFFLOAD), **changes)


@pytest.fixture
def begin(start: Start, tmp_path: Path) -> Start:
    """Start a dispatcher whose model offers three strategies."""

    def make(description: str = "A fake.", **options: Any) -> LocalDispatcher:
        return start(
            presets={"demo": offering(tmp_path, description=description)},
            cache=tmp_path / "cache",
            **options,
        )

    return make


def runs_by(strategy: Strategy) -> Callable[[Status], bool]:
    """The claim that the model is loaded by `strategy` and that the app is at rest."""
    return lambda status: status.state == "ready" and status.placement.strategy is strategy


def drawn_by(dispatcher: LocalDispatcher, job: str) -> str:
    """The strategy that a picture says it was made by."""
    (saved,) = saved_by(dispatcher, job)
    return saved.info.strategy


def test_another_strategy_loads_again_and_warms_what_was_ready(begin: Start) -> None:
    dispatcher = begin()
    wait_ready(dispatcher)
    assert isinstance(ending_of(dispatcher, dispatcher.warm_up("demo", COMPILED, WIDE)), Finished)
    before = dispatcher.worker_pids()
    dispatcher.set_strategy("demo", OFFLOAD)
    status = wait_for(dispatcher, runs_by(OFFLOAD))
    assert dispatcher.worker_pids() != before
    assert status.strategy is OFFLOAD
    assert status.placement.reason == "asked for"
    assert {state_of(status, size) for size in (SQUARE, WIDE)} == {ProgramState.READY}
    assert drawn_by(dispatcher, dispatcher.submit(ask(dispatcher, size=WIDE))) == OFFLOAD
    assert dispatcher.status().programs_compiled_since_ready == 0


def test_choice_of_what_runs_already_loads_nothing(begin: Start) -> None:
    dispatcher = begin()
    assert wait_ready(dispatcher).placement.reason.startswith("no limit is known")
    before = dispatcher.worker_pids()
    dispatcher.set_strategy("demo", RESIDENT)
    wait_for(dispatcher, lambda status: status.placement.reason == "asked for")
    dispatcher.set_strategy("demo", None)
    wait_for(dispatcher, lambda status: status.placement.reason != "asked for")
    assert dispatcher.worker_pids() == before


def test_jobs_submitted_meanwhile_are_not_lost(begin: Start) -> None:
    dispatcher = begin("fake:slow-load")
    wait_ready(dispatcher)
    running = dispatcher.submit(ask(dispatcher, "fake:slow", steps=3))
    waiting = dispatcher.submit(ask(dispatcher))
    wait_step(dispatcher, running, 1)
    dispatcher.set_strategy("demo", OFFLOAD)
    wait_for(dispatcher, lambda status: status.state == "loading")
    after = dispatcher.submit(ask(dispatcher, size=WIDE))
    assert drawn_by(dispatcher, running) == RESIDENT
    assert drawn_by(dispatcher, waiting) == OFFLOAD
    assert drawn_by(dispatcher, after) == OFFLOAD


def test_job_that_follows_a_choice_runs_by_it(begin: Start) -> None:
    dispatcher = begin()
    wait_ready(dispatcher)
    for strategy in (STAGED, OFFLOAD, RESIDENT):
        dispatcher.set_strategy("demo", strategy)
        assert drawn_by(dispatcher, dispatcher.submit(ask(dispatcher))) == strategy


def test_every_worker_follows(begin: Start) -> None:
    dispatcher = begin(workers=2)
    wait_for(dispatcher, lambda status: status.programs_compiled == 8)
    dispatcher.set_strategy("demo", STAGED)
    wait_for(dispatcher, lambda status: status.programs_compiled < 8)
    wait_for(dispatcher, lambda status: status.programs_compiled == 8)
    jobs = [dispatcher.submit(ask(dispatcher, "fake:slow")) for _ in range(2)]
    assert {drawn_by(dispatcher, job) for job in jobs} == {STAGED}


@pytest.mark.parametrize(
    ("model", "strategy", "error", "reason"),
    [
        ("demo", SHARDED, StrategyError, "the software TPU is one device"),
        ("other", OFFLOAD, StrategyError, "is not offered offload; choose from resident"),
        ("none", OFFLOAD, InvalidRequestError, "There is no model 'none'"),
    ],
)
def test_refused_strategy_leaves_everything_as_it_was(
    start: Start,
    tmp_path: Path,
    model: str,
    strategy: Strategy,
    error: type[Exception],
    reason: str,
) -> None:
    demo = offering(tmp_path, RESIDENT, STAGED, SHARDED)
    other = make_preset(tmp_path, "other")
    dispatcher = start(presets={"demo": demo, "other": other}, strategy=STAGED)
    before, pids = wait_ready(dispatcher), dispatcher.worker_pids()
    with pytest.raises(error, match=reason):
        dispatcher.set_strategy(model, strategy)
    assert drawn_by(dispatcher, dispatcher.submit(ask(dispatcher))) == STAGED
    assert dispatcher.worker_pids() == pids
    assert wait_ready(dispatcher) == before


def test_strategies_are_offered_or_have_a_reason(start: Start, tmp_path: Path) -> None:
    dispatcher = start(presets={"demo": offering(tmp_path, STAGED, SHARDED)})
    status = wait_ready(dispatcher)
    assert status.strategies[STAGED] is None
    assert "the software TPU is one device" in (status.strategies[SHARDED] or "")
    assert status.placement.strategy is STAGED
    assert status.strategy is None


def test_costs_are_kept_for_each_strategy(begin: Start, tmp_path: Path) -> None:
    dispatcher = begin()
    wait_ready(dispatcher)
    dispatcher.set_strategy("demo", OFFLOAD)
    wait_for(dispatcher, runs_by(OFFLOAD))
    assert set(json.loads((tmp_path / "cache" / FILE_NAME).read_text())) == {
        "demo/compiled/software-tpu (fake) resident/64x64",
        "demo/compiled/software-tpu (fake) offload/64x64",
    }


def test_strategy_that_cannot_be_loaded_is_left_for_one_that_can(begin: Start) -> None:
    dispatcher = begin("fake:load-oom=resident")
    status = wait_for(dispatcher, lambda status: status.state == "failed")
    assert "no room for text_encoder" in status.detail
    dispatcher.set_strategy("demo", STAGED)
    status = wait_for(dispatcher, runs_by(STAGED))
    assert state_of(status) is ProgramState.READY
    assert drawn_by(dispatcher, dispatcher.submit(ask(dispatcher))) == STAGED


def test_what_was_ready_comes_back_when_a_strategy_that_failed_is_left(begin: Start) -> None:
    dispatcher = begin("fake:load-oom=resident", strategy=STAGED)
    wait_ready(dispatcher)
    assert isinstance(ending_of(dispatcher, dispatcher.warm_up("demo", COMPILED, WIDE)), Finished)
    dispatcher.set_strategy("demo", RESIDENT)
    wait_for(dispatcher, lambda status: status.state == "failed")
    dispatcher.set_strategy("demo", OFFLOAD)
    status = wait_for(dispatcher, runs_by(OFFLOAD))
    assert {state_of(status, size) for size in (SQUARE, WIDE)} == {ProgramState.READY}


def test_size_that_failed_by_one_strategy_is_tried_by_the_next(begin: Start) -> None:
    dispatcher = begin("fake:warm-oom=resident")
    status = wait_for(dispatcher, lambda status: state_of(status) is ProgramState.FAILED)
    assert "fake:warm-oom" in status.sizes[COMPILED][SQUARE].reason
    dispatcher.set_strategy("demo", STAGED)
    status = wait_for(dispatcher, runs_by(STAGED))
    assert state_of(status) is ProgramState.READY


def test_strategy_of_the_start_holds_for_every_model_that_offers_it(
    start: Start, tmp_path: Path
) -> None:
    presets = {"demo": offering(tmp_path), "other": make_preset(tmp_path, "other")}
    dispatcher = start(presets=presets, strategy=STAGED)
    assert drawn_by(dispatcher, dispatcher.submit(ask(dispatcher))) == STAGED
    assert drawn_by(dispatcher, dispatcher.submit(ask(dispatcher, model="other"))) == RESIDENT
    assert dispatcher.status().strategy is None
    assert drawn_by(dispatcher, dispatcher.submit(ask(dispatcher))) == STAGED


def test_strategy_of_the_start_that_cannot_be_starts_nothing(start: Start, tmp_path: Path) -> None:
    with pytest.raises(StrategyError, match="is not offered sharded; choose from resident"):
        start(strategy=SHARDED)
    with pytest.raises(StrategyError, match="on a plain CPU there is no chip"):
        start(presets={"demo": offering(tmp_path)}, strategy=STAGED, device="cpu")


def test_model_that_cannot_run_here_is_refused_and_the_loaded_one_stays(
    start: Start, tmp_path: Path
) -> None:
    other = make_preset(tmp_path, "other", strategies=(SHARDED,))
    dispatcher = start(presets={"demo": offering(tmp_path), "other": other})
    wait_ready(dispatcher)
    before = dispatcher.worker_pids()
    with pytest.raises(StrategyError, match="Model other cannot run on software-tpu"):
        dispatcher.submit(ask(dispatcher, model="other"))
    with pytest.raises(StrategyError, match="Model other cannot run on software-tpu"):
        dispatcher.warm_up("other", COMPILED, SQUARE)
    assert isinstance(ending_of(dispatcher, dispatcher.submit(ask(dispatcher))), Finished)
    assert dispatcher.worker_pids() == before


def test_choice_made_while_a_process_starts_is_loaded_by_as_many_as_it_takes(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks: list[int] = []
    start_process = WorkerProcess.start
    chosen = {1: SHARDED, 2: RESIDENT}

    def start_and_choose(spec: WorkerSpec, give_up: Callable[[], bool]) -> WorkerProcess:
        ranks.append(spec.ranks)
        worker = start_process(replace(spec, ranks=1), give_up)
        if len(ranks) in chosen:
            made[0].set_strategy("demo", chosen[len(ranks)])
        return worker

    made: list[LocalDispatcher] = []
    monkeypatch.setattr(WorkerProcess, "start", start_and_choose)
    preset = offering(tmp_path, RESIDENT, SHARDED)
    made.append(start(presets={"demo": preset}, device="cpu", chips=2, strategy=RESIDENT))
    wait_for(made[0], lambda status: len(ranks) == 3 and status.state == "ready")
    assert ranks == [1, 2, 1]
    assert made[0].status().placement.strategy is RESIDENT


# Chips, of which there are none here


@pytest.fixture
def eight_v6e(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "pci"
    folder.mkdir()
    for number in range(8):
        plug(folder / f"0000:00:{number:02x}.0", "0x1ae0", "0x006f")
    monkeypatch.setattr(chips, "PCI_FOLDER", folder)


def options(folder: Path, **changes: Any) -> Options:
    values: dict[str, Any] = {
        "presets": {},
        "model": "demo",
        "mode": None,
        "device": "tpu",
        "warm": "none",
        "locked": False,
        "workers": 1,
        "outputs": folder,
        "cache": folder,
        "runtime": "",
        "queue_limit": 1,
        "first_pause_s": 1.0,
        **changes,
    }
    return Options(**values)


@pytest.mark.usefixtures("eight_v6e")
@pytest.mark.parametrize(
    ("workers", "each", "devices", "visible"),
    [
        (1, None, 8, None),
        (1, 8, 8, None),
        (1, 4, 4, "0,1,2,3"),
        (2, None, 4, "4,5,6,7"),
        (2, 2, 2, "2,3"),
        (3, None, 2, "4,5"),
        (8, None, 1, "7"),
    ],
)
@pytest.mark.parametrize("device", ["tpu", "auto"])
def test_chips_are_shared_out_among_the_workers(
    tmp_path: Path, workers: int, each: int | None, devices: int, visible: str | None, device: str
) -> None:
    chosen = options(tmp_path, workers=workers, chips=each, device=device)
    chosen.check_chips()
    assert chosen.machine(None) == Machine(Device.TPU, 32, devices, "v6e")
    assert chosen.machine(Device.SOFTWARE_TPU) == Machine(Device.SOFTWARE_TPU, None, each or 1)
    last = dict(chosen.environment(workers - 1))
    assert last == ({"TPU_VISIBLE_CHIPS": visible} if visible else {})


@pytest.mark.usefixtures("eight_v6e")
@pytest.mark.parametrize(("workers", "each", "taken"), [(9, None, 9), (2, 5, 10), (1, 16, 16)])
def test_more_chips_than_there_are_start_nothing(
    start: Start, workers: int, each: int | None, taken: int
) -> None:
    with pytest.raises(SettingsError, match=f"would take {taken} chips, and there are 8"):
        start(device="tpu", workers=workers, chips=each)


@pytest.mark.usefixtures("eight_v6e")
def test_start_model_that_does_not_fit_starts_nothing(start: Start, tmp_path: Path) -> None:
    weights = {"transformer": 30.0, "text_encoder": 1.0, "vae": 2.0}
    large = offering(tmp_path, RESIDENT, STAGED, weights_gib=weights)
    with pytest.raises(StrategyError, match=r"staged, it needs 32\.0 GiB of each device's 32"):
        start(presets={"demo": large}, device="tpu")
