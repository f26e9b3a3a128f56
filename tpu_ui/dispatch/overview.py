"""The state of the app at one moment, put together for those who ask. Changes nothing.

The pool's lock guards what is read here.
"""

from tpu_ui.dispatch.costs import Costs
from tpu_ui.dispatch.interface import SizeStatus, Status
from tpu_ui.dispatch.jobs import Target
from tpu_ui.dispatch.options import Options
from tpu_ui.dispatch.placements import Placements
from tpu_ui.dispatch.state import WorkerState, phase_of, size_status
from tpu_ui.dispatch.turns import Turns
from tpu_ui.protocol import Started


class Overview:
    """What the pool knows, for `Dispatcher.status`."""

    def __init__(
        self,
        options: Options,
        placements: Placements,
        costs: Costs,
        states: list[WorkerState],
        queue: Turns,
    ) -> None:
        self._options = options
        self._placements = placements
        self._costs = costs
        self._states = states
        self._queue = queue

    def status(self, started: Started | None, locked: bool) -> Status:
        """`started`: what the latest worker has said of itself; None before the first one has."""
        device = started.device if started else None
        preset = self.shown().preset
        limits = self._placements.limits(preset, device)
        phase, detail = phase_of(self._states)
        return Status(
            device=device,
            chip=started.chip if started else "",
            device_reason=started.reason if started else "",
            model=preset.name,
            mode=limits.default_mode,
            state=phase,
            detail=detail,
            locked=locked,
            sizes={
                mode: {
                    size: self.size_status(Target(preset.name, mode, size), started)
                    for size in limits.sizes
                }
                for mode in limits.modes
            },
            queue_length=sum(1 for job in self._queue if not job.working),
            programs_compiled=sum(state.programs_compiled for state in self._states),
            programs_compiled_since_ready=sum(state.since_ready for state in self._states),
            workers=len(self._states),
            placement=self.shown().placement,
            strategy=self._placements.wish(preset),
            strategies=self._placements.offered(preset, device),
            plan=self._placements.plan_note(preset, device),
        )

    def shown(self) -> WorkerState:
        """The worker whose model the status is about: a healthy one, if there is one."""
        return next((state for state in self._states if not state.failure), self._states[0])

    def size_status(self, target: Target, started: Started | None) -> SizeStatus:
        """What is known of one size's programs."""
        waits = any(job.request is None and job.target == target for job in self._queue)
        on = self.shown().runs_on
        cost = self._costs.get(target, on) if on else None
        states = [state for state in self._states if not state.failure] or self._states
        known = size_status(target, states, waits, cost)
        return self._placements.planned(target, started.device if started else None, known)
