"""What is known of each worker, and what follows for the sizes. Data; the pool's lock guards it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, assert_never

from tpu_ui import errors
from tpu_ui.dispatch.costs import Cost, RunsOn
from tpu_ui.dispatch.interface import SizeStatus, WorkerReport
from tpu_ui.dispatch.jobs import Job, Target
from tpu_ui.errors import TpuUiError, WorkerDiedError
from tpu_ui.presets import Preset
from tpu_ui.protocol import (
    Counted,
    Failed,
    ImageMade,
    Loading,
    Memory,
    Progress,
    Started,
    Stepped,
    Warmed,
    Warming,
)
from tpu_ui.shapes import ImageSize, ProgramState, amount
from tpu_ui.strategy import RESIDENT, Placement

Phase = Literal["loading", "warming", "ready", "busy", "failed"]
PHASES: tuple[Phase, ...] = ("busy", "warming", "ready", "loading", "failed")  # first shown first
MAX_KILLS = 2  # a warm-up nobody asked for is tried again once after it took its worker along

_FATAL: dict[str, type[TpuUiError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, TpuUiError) and not kind.survives
}


@dataclass
class WorkerState:
    """One worker, whatever process it is in now.

    `settled`: the warm-ups of its start-up are done, one way or the other. `wanted`: what a new
    process has to warm before it takes jobs. `failed`: why a warm-up failed.
    """

    index: int
    preset: Preset
    phase: Phase = "loading"
    detail: str = "Starting the worker."
    pid: int | None = None
    started: Started | None = None
    placement: Placement = RESIDENT
    loaded: bool = False
    settled: bool = False
    warmed: dict[Target, Cost] = field(default_factory=dict)
    wanted: dict[Target, None] = field(default_factory=dict)
    failed: dict[Target, str] = field(default_factory=dict)
    kills: dict[Target, int] = field(default_factory=dict)
    warming: tuple[Target, Warming] | None = None
    stepped: tuple[float, Stepped] | None = None  # the job's latest step, and when it was done
    job: Job | None = None
    programs_compiled: int = 0
    since_ready: int = 0
    failure: Failed | None = None
    restart_asked: bool = False
    memory: Memory | None = None

    @property
    def runs_on(self) -> RunsOn | None:
        """Where this worker's programs run; None before its process has said so."""
        if self.started is None:
            return None
        return RunsOn(self.started.device, self.started.chip, self.placement.strategy)

    def report(self) -> WorkerReport:
        """What its owner may want to know."""
        return WorkerReport(
            index=self.index,
            pid=self.pid,
            state=self.phase,
            chip=self.started.chip if self.started else "",
            versions=self.started.versions if self.started else (),
            memory=self.memory,
            programs_compiled=self.programs_compiled,
        )

    def lose_process(self) -> None:
        """The process is gone, and with it all that was loaded and warm."""
        self.wanted.update(dict.fromkeys(self.warmed))
        self.warmed.clear()
        self.loaded = self.settled = False
        self.pid = self.memory = None
        self.warming = None
        self.programs_compiled = self.since_ready = 0
        self.phase, self.detail = "loading", "Starting a new worker."

    def switch(self, preset: Preset) -> None:
        """Nothing is known of another model's programs."""
        self.preset = preset
        for known in (self.warmed, self.wanted, self.failed, self.kills):
            known.clear()

    def place(self, placement: Placement) -> None:
        """In another placement, what failed may do: it is tried again, with what was ready."""
        if placement != self.placement:
            self.wanted.update(dict.fromkeys(self.failed))
            self.failed.clear()
            self.kills.clear()
        self.placement = placement

    def notice(self, target: Target, event: Progress) -> None:
        """How far the worker is with a job for `target`, for those who ask."""
        match event:
            case Loading():
                self.phase = "loading"
                self.detail = loading_message(event, self.preset.title)
            case Warming():
                self.warming = (target, event)
                self.phase = "warming"
                self.detail = warming_message(event)
            case Warmed():
                self.warmed[target] = Cost(event.elapsed_s, event.programs_compiled)
                self.wanted[target] = None
                self.kills.pop(target, None)
            case Stepped():
                self.phase = "busy"
                self.detail = (
                    f"Making picture {event.image} of {event.count}:"
                    f" step {event.step} of {event.steps}."
                )
            case ImageMade():
                pass
            case _:
                assert_never(event)

    def count(self, counted: Counted) -> int:
        """By how many programs compiled after ready there are more than before."""
        grown = counted.since_ready - self.since_ready
        self.programs_compiled, self.since_ready = counted.programs_compiled, counted.since_ready
        return grown

    def warm_up_failed(self, target: Target, reason: str) -> None:
        self.failed[target] = reason
        self.wanted.pop(target, None)


def loading_message(event: Loading, title: str = "") -> str:
    """ "Loading transformer, 6 of 7: 28 MB so far." Megabytes of weights, 10^6 bytes each.

    With the model's `title`: "Loading Demo: transformer, 6 of 7, 28 MB so far."
    """
    of = "so far" if event.total_bytes is None else f"of {amount(event.total_bytes)}"
    done = f"{amount(event.loaded_bytes)} {of}."
    if not event.component:
        return f"Downloading {title or 'the model'}: {done}"
    place = f"{event.component}, {event.index} of {event.count}"
    return f"Loading {title}: {place}, {done}" if title else f"Loading {place}: {done}"


def warming_message(event: Warming) -> str:
    """ "Compiling 320x192 in compiled mode: 41 programs, 12 s of about 30 s (step 1 of 2)." """
    number = event.programs_compiled
    count = f"{number} program" if number == 1 else f"{number} programs"
    of = "so far" if event.expected_s is None else f"of about {event.expected_s:.0f} s"
    stage = f" ({event.stage})" if event.stage else ""
    what = f"Compiling {event.size} in {event.mode} mode"
    return f"{what}: {count}, {event.elapsed_s:.0f} s {of}{stage}."


def phase_of(states: list[WorkerState]) -> tuple[Phase, str]:
    """What all workers together are at, and a sentence about it."""
    first = min(states, key=lambda state: PHASES.index(state.phase))
    lost = [state for state in states if state.failure]
    if not lost or len(lost) == len(states):
        return first.phase, first.detail
    count = f"{len(lost)} of {len(states)} workers failed"
    return first.phase, f"{first.detail} {count}: {lost[0].detail}"


def is_ready(target: Target, states: Iterable[WorkerState]) -> bool:
    """Whether a request for `target` compiles nothing, whichever worker takes it."""
    able = [state for state in states if state.loaded]
    settled = [state for state in able if state.settled]
    if settled:
        return all(target in state.warmed for state in settled)
    return any(target in state.warmed for state in able)


def size_status(
    target: Target, states: list[WorkerState], waits: bool, cost: Cost | None
) -> SizeStatus:
    """One line of the status. `waits`: a warm-up of it is in the queue; `cost`: of the last one."""
    expected_s = cost.seconds if cost else None
    costs = [state.warmed[target] for state in states if target in state.warmed]
    if is_ready(target, states):
        return SizeStatus(
            ProgramState.READY,
            max(done.seconds for done in costs),
            expected_s,
            sum(done.programs for done in costs),
        )
    at_it = [state.warming[1] for state in states if state.warming and state.warming[0] == target]
    if at_it:
        slowest = max(at_it, key=lambda warming: warming.elapsed_s)
        return SizeStatus(
            ProgramState.COMPILING,
            slowest.elapsed_s,
            slowest.expected_s,
            sum(warming.programs_compiled for warming in at_it),
            slowest.stage,
        )
    if waits:
        return SizeStatus(ProgramState.COLD, expected_s=expected_s, stage="waits for its turn")
    reasons = [state.failed[target] for state in states if target in state.failed]
    if reasons:
        return SizeStatus(ProgramState.FAILED, expected_s=expected_s, reason=reasons[0])
    return SizeStatus(ProgramState.COLD, expected_s=expected_s)


def not_ready_message(target: Target, states: list[WorkerState], sizes: list[ImageSize]) -> str:
    """Why a locked app refuses `target`, and what it would take. `sizes` orders the ready ones."""
    loaded = states[0].preset.name
    known = {ready for state in states for ready in state.warmed}
    ready = [known_target for known_target in known if is_ready(known_target, states)]
    ready.sort(key=lambda one: (one.mode != target.mode, one.mode, sizes.index(one.size)))
    names = [
        str(one.size) if one.mode == target.mode else f"{one.size} in {one.mode} mode"
        for one in ready
    ]
    if not names:
        return f"Nothing is ready yet: {_going_on(states)}."
    if target.model != loaded:
        listed = ", ".join(f"{one.size} in {one.mode} mode" for one in ready)
        return f"Model {target.model} is not loaded. Ready: model {loaded}, {listed}."
    return f"{target.size} is not ready in {target.mode} mode. Ready: {', '.join(names)}."


def _going_on(states: list[WorkerState]) -> str:
    for state in states:
        if state.warming:
            return f"{state.warming[0].size} is being compiled"
    if any(state.phase == "loading" for state in states):
        return "the model is being loaded"
    return "no size has been compiled, and the sizes are locked"


def refusal(failed: Failed) -> TpuUiError:
    """The error that a new request is answered with when no worker runs, and none will."""
    return _FATAL.get(failed.kind, WorkerDiedError)(failed.message)


def worker_survives(failed: Failed) -> bool:
    """Whether a worker that sent `failed` goes on; the worker decides in the same way."""
    return failed.kind not in _FATAL
