"""Claims about the queue's rules that need no process."""

from pathlib import Path

import pytest

from tests.dispatch.driving import COMPILED, FAKE, SQUARE, WIDE, make_preset
from tpu_ui import errors
from tpu_ui.dispatch.costs import Cost, Costs
from tpu_ui.dispatch.jobs import Target
from tpu_ui.dispatch.options import Options
from tpu_ui.dispatch.pool import Pool
from tpu_ui.dispatch.state import is_ready, refusal, worker_survives
from tpu_ui.errors import LoadError, ModeUnavailableError, TpuUiError, WorkerDiedError
from tpu_ui.protocol import Cancelled, Failed, Finished, Started
from tpu_ui.request import validate
from tpu_ui.shapes import Device, Mode

TARGET = Target("demo", COMPILED, SQUARE)
COST = Cost(1.0, 4)


def make_pool(
    folder: Path, mode: Mode | None = None, warm: str = "default", queue_limit: int = 1
) -> Pool:
    options = Options(
        presets={"demo": make_preset(folder)},
        model="demo",
        mode=mode,
        device="auto",
        warm=warm,
        locked=True,
        workers=2,
        outputs=folder,
        cache=folder,
        runtime=FAKE,
        queue_limit=queue_limit,
        first_pause_s=1.0,
    )
    return Pool(options, Costs(folder))


def started(device: Device = Device.SOFTWARE_TPU) -> Started:
    return Started(1, device, "fake", None, "a test", ())


def test_mode_that_the_device_turns_out_to_lack_is_refused_with_its_reason(
    tmp_path: Path,
) -> None:
    pool = make_pool(tmp_path, Mode.COMPILED)
    with pytest.raises(ModeUnavailableError, match="compiled mode uses TorchTPU's compiler"):
        pool.says(pool.states[0], started(Device.CPU))
    status = pool.status()
    assert status.device is Device.CPU
    assert status.mode in status.sizes


def test_default_mode_follows_the_device(tmp_path: Path) -> None:
    pool = make_pool(tmp_path)
    assert pool.status().mode is Mode.COMPILED
    pool.says(pool.states[0], started(Device.CPU))
    pool.came_up(pool.states[0])
    job = pool.take(pool.states[0])
    assert job is not None
    assert job.target == Target("demo", Mode.EAGER, SQUARE)


@pytest.mark.parametrize(("warm", "phase"), [("default", "warming"), ("none", "ready")])
def test_worker_is_not_ready_while_its_first_size_is_to_be_warmed(
    tmp_path: Path, warm: str, phase: str
) -> None:
    pool = make_pool(tmp_path, warm=warm)
    for state in pool.states:
        pool.says(state, started())
        pool.came_up(state)
        assert state.phase == phase
        pool.take(state)
        assert state.phase == phase


def test_mode_that_the_app_was_started_with_is_the_one_that_requests_get(tmp_path: Path) -> None:
    pool = make_pool(tmp_path, Mode.FUSED)
    assert validate(pool.limits("demo"), prompt="a hill").mode is Mode.FUSED
    pool.says(pool.states[0], started())
    assert validate(pool.limits("demo"), prompt="a hill").mode is Mode.FUSED
    assert validate(pool.limits("demo"), prompt="a hill", mode="eager").mode is Mode.EAGER


def test_size_is_ready_only_where_every_worker_that_is_up_is_warm(tmp_path: Path) -> None:
    first, second = make_pool(tmp_path).states
    assert not is_ready(TARGET, [first, second])
    first.loaded = True
    first.warmed[TARGET] = COST
    assert is_ready(TARGET, [first, second])  # the other is not up yet, and takes no job
    second.loaded = second.settled = True
    assert not is_ready(TARGET, [first, second])
    second.warmed[TARGET] = COST
    assert is_ready(TARGET, [first, second])
    second.lose_process()
    assert is_ready(TARGET, [first, second])
    assert TARGET in second.wanted


def test_start_warms_the_sizes_that_were_chosen_once_on_each_worker(tmp_path: Path) -> None:
    for warm, sizes in (("default", [SQUARE]), ("all", [SQUARE, WIDE]), ("none", [])):
        pool = make_pool(tmp_path, warm=warm)
        for state in pool.states:
            pool.says(state, started())
            pool.came_up(state)
        for state in pool.states:
            taken = []
            for _ in sizes:
                job = pool.take(state)
                assert job is not None
                taken.append(job.target.size)
                state.warmed[job.target] = COST
                pool.finish(state, job, Finished(job.id))
            assert taken == sizes
            assert pool.take(state) is None
            assert state.settled
        assert all(isinstance(job.ending, Finished) for job in pool.jobs.all())


def test_thread_that_ends_by_an_error_leaves_no_job_open(tmp_path: Path) -> None:
    pool = make_pool(tmp_path)
    state = pool.states[0]
    pool.says(state, started())
    pool.came_up(state)
    job = pool.take(state)
    assert job is not None
    pool.fail(pool.states[1], Failed("", "LoadError", "earlier"))
    assert job.ending is None
    pool.fail(state, Failed("", "WorkerDiedError", "why"))
    assert job.ending == Failed(job.id, "LoadError", "earlier")
    status = pool.status()
    assert (status.state, status.queue_length) == ("failed", 0)


def test_dispatcher_and_worker_agree_on_what_a_worker_survives() -> None:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, TpuUiError)
    ]
    assert len(kinds) > 10
    for kind in kinds:
        assert worker_survives(Failed("j", kind.__name__, "")) is kind.survives
    assert worker_survives(Failed("j", "RuntimeError", ""))


def test_refusal_is_of_the_kind_of_the_failure() -> None:
    assert isinstance(refusal(Failed("", "LoadError", "why")), LoadError)
    assert isinstance(refusal(Failed("", "RuntimeError", "why")), WorkerDiedError)
    assert str(refusal(Failed("", "RuntimeError", "why"))) == "why"


def test_request_whose_caller_has_gone_ends_in_its_turn_and_the_next_of_its_visitor_has_it(
    tmp_path: Path,
) -> None:
    pool = make_pool(tmp_path, warm="none", queue_limit=4)
    state, _ = pool.states
    pool.says(state, started())
    pool.came_up(state)
    state.warmed[Target("demo", Mode.COMPILED, SQUARE)] = COST
    request = validate(pool.limits("demo"), prompt="a hill")
    left, own = (pool.submit(request, "first", kept=False) for _ in range(2))
    others = [pool.submit(request, "second") for _ in range(2)]
    listener = left.follow()
    next(listener)
    listener.close()  # type: ignore[attr-defined]
    assert left.ending is None
    assert [pool.take(state) for _ in range(3)] == [own, *others]
    assert isinstance(left.ending, Cancelled)


def test_a_worker_that_warms_a_size_up_is_told_of_those_that_come_next(tmp_path: Path) -> None:
    pool = make_pool(tmp_path)
    first, second = pool.states
    for mode in (Mode.EAGER, COMPILED):
        for size in (SQUARE, WIDE):
            pool.warm_up(Target("demo", mode, size))
    assert pool.sizes_after(first, TARGET) == (SQUARE, WIDE)
    first.loaded = second.loaded = True
    for mode in (Mode.EAGER, COMPILED):
        job = pool.take(first)
        assert job is not None
        assert job.target == Target("demo", mode, SQUARE)
        assert pool.sizes_after(first, job.target) == (WIDE,)
        assert pool.sizes_after(second, job.target) == (SQUARE, WIDE)
        assert pool.take(first) is not None
        assert pool.sizes_after(first, job.target) == ()
