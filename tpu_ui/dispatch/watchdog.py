"""Tells a worker that hangs from one that is at work. Ends nothing; knows no queue.

A worker says something every few seconds, whatever its main thread does, so silence means that the
process is stopped or stuck. One that still speaks may hang all the same: then nothing that it says
is news. How long that may last depends on what it is at. A step of an image is measured against
those before it. A compilation or a load may take an hour and say little, but uses the processor, or
brings bytes.

Time counts only while this process was awake to hear, so a machine that slept accuses nobody.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from tpu_ui.dispatch import family
from tpu_ui.dispatch.jobs import Target
from tpu_ui.protocol import (
    Cancelled,
    Counted,
    Event,
    Failed,
    Finished,
    Generate,
    ImageMade,
    Load,
    Loading,
    Memory,
    Readers,
    Started,
    Stepped,
    Warmed,
    Warming,
    WarmUp,
)

IDLE_SHARE = 0.05  # of one core, or MB a second: work is more, waiting less
AWAKE_S = 1.0  # a longer time between two looks was not spent listening
SCAN_S = 2.0  # between two looks at the processes


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a worker may take, in seconds.

    `step_s`: for a step of an image, at the least; up to `slowest` times the slowest one measured.
    `silence_s`: without any sign of life. `still_s`: for a load or a compilation with no news and
    an idle processor. `compile_s`: for a whole warm-up, at the least; up to `expected` times what
    was expected.
    """

    step_s: float = 120.0
    slowest: float = 10.0
    silence_s: float = 30.0
    still_s: float = 300.0
    compile_s: float = 7200.0
    expected: float = 10.0

    @classmethod
    def of(cls, step_s: float) -> "Patience":
        """The rest goes with the time for a step, where that is shorter than usual."""
        usual = cls()
        return cls(
            step_s=step_s,
            silence_s=min(usual.silence_s, step_s),
            still_s=min(usual.still_s, 2.5 * step_s),
        )


USUAL = Patience()


@dataclass(slots=True)
class Pid:
    """The processes that are watched. Tests put others in its place."""

    pid: int
    effort_s: Callable[[], float] = field(init=False)
    stopped: Callable[[], str] = field(init=False)

    def __post_init__(self) -> None:
        self.effort_s = lambda: family.effort_s(self.pid)
        self.stopped = lambda: family.stopped(self.pid)


class _Quiet:
    """For how long something has not happened, and whether nothing was done meanwhile."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._mark: tuple[float, float] | None = None  # a moment, what was done until then

    def end(self) -> None:
        self.seconds, self._mark = 0.0, None

    def idle(self, limit_s: float, effort_s: Callable[[], float]) -> bool:
        """Whether it has lasted that long, and nothing was done in the latter half."""
        if self.seconds < limit_s / 2:
            return False
        if self._mark is None:
            self._mark = (self.seconds, effort_s())
            return False
        began_s, done_before_s = self._mark
        watched_s = self.seconds - began_s
        if self.seconds < limit_s or watched_s < limit_s / 2:
            return False
        done_s = effort_s()
        self._mark = (self.seconds, done_s)
        return done_s - done_before_s < IDLE_SHARE * watched_s


class Watch:
    """One command of a worker, from the moment it was sent; or, without one, its idle time."""

    def __init__(
        self,
        patience: Patience,
        processes: Pid,
        command: Load | WarmUp | Generate | None,
        now_s: float,
        *,
        programs: int = 0,
        slowest_s: float = 0.0,
    ) -> None:
        self._patience = patience
        self._processes = processes
        self.command = command
        self._programs = programs
        self._compiles = not isinstance(command, Generate)  # loads count as such
        self._seen_s = now_s
        self._last_scan_s = 0.0
        self._whole_s = 0.0
        self._silent, self._still = _Quiet(), _Quiet()
        self._reached: tuple[str, int] | None = None
        self.slowest_s = slowest_s  # the slowest step, or encoding, or decoding

    def heard(self, event: Event, now_s: float) -> None:
        """The worker has said something."""
        self._pass(now_s)
        self._silent.end()
        if self._is_news(event):
            if isinstance(event, Stepped | ImageMade):
                if not self._compiles:
                    self.slowest_s = max(self.slowest_s, self._still.seconds)
                self._compiles = False
            self._still.end()

    def look(self, now_s: float) -> str | None:
        """What is wrong with it, to go on after "The worker process"; None if nothing is."""
        self._pass(now_s)
        wrong = self._stopped() or self._silence() or self._no_news()
        return f"hung ({wrong}) and was ended" if wrong else None

    def _pass(self, now_s: float) -> None:
        passed_s = min(now_s - self._seen_s, AWAKE_S)
        self._seen_s = now_s
        self._whole_s += passed_s
        self._silent.seconds += passed_s
        self._still.seconds += passed_s

    def _stopped(self) -> str | None:
        """A rank of a group may be stopped while the first one speaks."""
        limit_s = self._patience.silence_s
        quiet_s = self._still.seconds if self.command else self._silent.seconds
        if quiet_s < limit_s or self._whole_s - self._last_scan_s < SCAN_S:
            return None
        self._last_scan_s = self._whole_s
        who = self._processes.stopped()
        return f"{who} was stopped by a signal" if who else None

    def _silence(self) -> str | None:
        limit_s = self._patience.silence_s
        if self._silent.idle(limit_s, self._processes.effort_s):
            return f"no sign of life for {limit_s:g} s"
        return None

    def _no_news(self) -> str | None:
        if self.command is None:
            return None
        patience, still_s = self._patience, self._still.seconds
        if not self._compiles:
            limit_s = max(patience.step_s, patience.slowest * self.slowest_s)
            if still_s < limit_s:
                return None
            told = f"a step took more than {limit_s:.0f} s"
            if self.slowest_s:
                told += f"; the slowest before took {self.slowest_s:.1f} s"
            return told
        if self._still.idle(patience.still_s, self._processes.effort_s):
            if isinstance(self.command, Load):
                return f"it loaded nothing for {patience.still_s:g} s"
            return f"it compiled nothing for {patience.still_s:g} s"
        if isinstance(self.command, Load):
            return None
        expected_s = self.command.expected_s if isinstance(self.command, WarmUp) else None
        limit_s = max(patience.compile_s, patience.expected * (expected_s or 0.0))
        took_s = self._whole_s if isinstance(self.command, WarmUp) else still_s
        return f"it compiled for more than {limit_s:.0f} s" if took_s >= limit_s else None

    def _is_news(self, event: Event) -> bool:
        match event:
            case Counted():
                more = event.programs_compiled > self._programs
                self._programs = event.programs_compiled
                self._compiles |= more
                return more
            case Warming():
                return self._is_new((event.stage, event.programs_compiled))
            case Loading():
                return self._is_new((event.component, event.loaded_bytes))
            case Memory():
                return False
            case Started() | Readers() | Warmed() | Stepped() | ImageMade():
                return True
            case Finished() | Failed() | Cancelled():
                return True
            case _:
                assert_never(event)

    def _is_new(self, reached: tuple[str, int]) -> bool:
        """The reporter repeats how far the main thread is."""
        before, self._reached = self._reached, reached
        return reached != before


class Watchdog:
    """One worker's watches, and what its steps have taken so far."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._slowest_s: dict[Target | None, float] = {}

    def watch(self, pid: int, command: Load | WarmUp | Generate | None, programs: int = 0) -> Watch:
        """A watch over a process and those below it. `programs`: how many it has compiled."""
        return Watch(
            self._patience,
            Pid(pid),
            command,
            time.monotonic(),
            programs=programs,
            slowest_s=self._slowest_s.get(_target(command), 0.0) if command else 0.0,
        )

    def learn(self, watch: Watch) -> None:
        """From a command that has ended well."""
        if isinstance(watch.command, Generate):
            self._slowest_s[_target(watch.command)] = watch.slowest_s


def _target(command: Load | WarmUp | Generate) -> Target | None:
    """The programs that an image runs; None for what makes none."""
    if not isinstance(command, Generate):
        return None
    return Target(command.request.model, command.request.mode, command.request.size)
