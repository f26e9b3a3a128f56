"""The worker's loop: commands in, the runtime's events out. Imports no torch, knows no Gradio.

The main thread runs the runtime, and between two events of a job looks for a cancel. A second
thread, the reporter, tells how far the compiler is, since one compilation may keep the main thread
for minutes; and, when there is nothing to tell, that this process lives.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TypeVar, assert_never

from tpu_ui.errors import TpuUiError
from tpu_ui.protocol import (
    Cancel,
    Cancelled,
    Command,
    Counted,
    Ending,
    Event,
    Failed,
    Finished,
    Generate,
    Load,
    Memory,
    Progress,
    Readers,
    Shutdown,
    Started,
    Warmed,
    Warming,
    WarmUp,
)
from tpu_ui.runtime.interface import Runtime
from tpu_ui.shapes import ImageSize, Mode

EXIT_BROKEN = 70  # EX_SOFTWARE: an error after which this process must not go on
REPORT_S = 0.5
BEAT_S = 2.0  # longest silence of a process that is well; the dispatcher's watchdog relies on it
MEMORY_STEP_BYTES = 16 * 2**20  # less of a change is not worth an event
MAX_LINE_CHARACTERS = 200

E = TypeVar("E", bound=Event)

log = logging.getLogger(__name__)


class ParentGone(Exception):
    """The UI process has closed the connection, or has died. Nobody is left to tell."""


class JobLabel(logging.Filter):
    """Puts the id of the running job into every log record."""

    def __init__(self) -> None:
        super().__init__()
        self.job = "-"

    def filter(self, record: logging.LogRecord) -> bool:
        record.job = self.job
        return True


@dataclass(slots=True)
class _Running:
    """The job that the main thread works on. `warmed`: its programs were ready when it began."""

    command: Load | WarmUp | Generate
    begin_s: float
    programs_before: int
    warmed: bool
    stage: str = ""


class Loop:
    """Runs commands until Shutdown or the end of the connection; `run` returns the exit code."""

    def __init__(self, connection: Connection, label: JobLabel) -> None:
        self._connection = connection
        self._label = label
        self._sending = threading.RLock()  # guards the connection's writing end and all below
        self._running: _Running | None = None
        self._warmed: set[tuple[Mode, ImageSize]] = set()
        self._since_ready = 0
        self._reported = Counted(0, 0)
        self._sent_s = time.monotonic()
        self._held: Memory | None = None
        self._later: deque[Command] = deque()  # came while a job ran; main thread only
        self._stopping = threading.Event()

    def run(self, make_runtime: Callable[[], Runtime]) -> int:
        """Start the runtime, then serve. A runtime that cannot start is one Failed with no job."""
        made: list[Runtime] = []

        def start() -> Started:
            made.append(make_runtime())
            return made[0].started()

        try:
            event, survived = self._guarded("", start)
            self._send(event)
            if not survived or isinstance(event, Failed):
                return EXIT_BROKEN
            return self._serve(made[0])
        except ParentGone:
            log.info("the connection to the UI process has ended")
            return 0

    def _serve(self, runtime: Runtime) -> int:
        self._report_memory(runtime)
        reporter = threading.Thread(
            target=self._report, args=(runtime,), name="reporter", daemon=True
        )
        reporter.start()
        try:
            while True:
                command = self._later.popleft() if self._later else self._receive()
                match command:
                    case Load() | WarmUp() | Generate():
                        if not self._run_job(runtime, command):
                            return EXIT_BROKEN
                    case Cancel():
                        log.info("job %s to be cancelled is not running", command.job)
                    case Shutdown():
                        return 0
                    case _:
                        assert_never(command)
        finally:
            self._stopping.set()
            reporter.join()

    def _run_job(self, runtime: Runtime, command: Load | WarmUp | Generate) -> bool:
        """Run one job to its one ending. False: this process must not go on."""
        self._label.job = command.job
        log.info("%s begins", type(command).__name__)
        with self._sending:
            self._running = _Running(
                command,
                time.monotonic(),
                runtime.programs_compiled(),
                isinstance(command, Generate)
                and (command.request.mode, command.request.size) in self._warmed,
            )
            if isinstance(command, Load):
                self._warmed.clear()
        ending, survived = self._guarded(command.job, lambda: self._pump(runtime, command))
        log.info("%s: %s", type(command).__name__, type(ending).__name__)
        with self._sending:
            self._reported = self._counted(runtime)
            self._since_ready = self._reported.since_ready
            self._report_stray(runtime)
            self._running = None
            if isinstance(command, Load) and isinstance(ending, Finished):
                self._send(Readers(runtime.readers()))
            self._send(self._reported)
            self._send(ending)
        self._label.job = "-"
        return survived

    def _report_stray(self, runtime: Runtime) -> None:
        """Log what a job compiled though its programs were ready: a bug for its owner to report."""
        running = self._running
        if running is None or not running.warmed:
            return
        count = runtime.programs_since(running.programs_before)
        if count > 0:
            names = runtime.program_names(running.programs_before)
            log.warning(
                "compiled %d program(s) after ready: %s", count, ", ".join(names) or "names unknown"
            )

    def _pump(self, runtime: Runtime, command: Load | WarmUp | Generate) -> Ending:
        events = _begin(runtime, command)
        try:
            while True:
                if self._asked_to_stop(command.job):
                    return Cancelled(command.job)
                event = next(events, None)
                if event is None:
                    return Finished(command.job)
                with self._sending:
                    self._notice(event)
                    self._send(event)
        finally:
            if isinstance(events, Generator):
                events.close()

    def _notice(self, event: Progress) -> None:
        if isinstance(event, Warming) and self._running is not None:
            self._running.stage = event.stage
        if isinstance(event, Warmed):
            self._warmed.add((event.mode, event.size))

    def _asked_to_stop(self, job: str) -> bool:
        """Whether a Cancel of `job` or a Shutdown has come. Anything else is kept for after."""
        while self._connection.poll(0):
            command = self._receive()
            match command:
                case Cancel():
                    if command.job == job:
                        return True
                case Shutdown():
                    self._later.appendleft(command)
                    return True
                case Load() | WarmUp() | Generate():
                    self._later.append(command)
                case _:
                    assert_never(command)
        return False

    def _guarded(self, job: str, work: Callable[[], E]) -> tuple[E | Failed, bool]:
        """What `work` returns, or why it failed; and whether this process can go on."""
        try:
            return work(), True
        except ParentGone:
            raise
        except Exception as error:
            log.exception("job %s failed", job or "start")
            survives = not isinstance(error, TpuUiError) or error.survives
            return Failed(job, type(error).__name__, message_of(error)), survives

    def _report(self, runtime: Runtime) -> None:
        """The reporter thread. Its events never come after the ending of the job they are about."""
        while not self._stopping.wait(REPORT_S):
            try:
                with self._sending:
                    self._report_once(runtime)
            except ParentGone:  # the main thread finds that out too
                return

    def _report_once(self, runtime: Runtime) -> None:
        counted = self._counted(runtime)
        if counted != self._reported or time.monotonic() - self._sent_s >= BEAT_S:
            self._reported = counted
            self._send(counted)
        self._report_memory(runtime)
        running = self._running
        if running is not None and isinstance(running.command, Load):
            self._report_loading(runtime, running.command)
        if running is not None and isinstance(running.command, WarmUp):
            command = running.command
            self._send(
                Warming(
                    command.job,
                    command.mode,
                    command.size,
                    running.stage,
                    runtime.programs_since(running.programs_before),
                    time.monotonic() - running.begin_s,
                    command.expected_s,
                )
            )

    def _report_memory(self, runtime: Runtime) -> None:
        now, before = runtime.memory(), self._held
        if before and abs(now.in_use_bytes - before.in_use_bytes) < MEMORY_STEP_BYTES:
            return
        self._held = now
        self._send(now)

    def _report_loading(self, runtime: Runtime, command: Load) -> None:
        reached = runtime.loading(command)
        if reached is not None and reached.loaded_bytes > 0:
            self._send(reached)

    def _counted(self, runtime: Runtime) -> Counted:
        count = runtime.programs_compiled()
        since_ready = self._since_ready
        if self._running is not None and self._running.warmed:
            since_ready += runtime.programs_since(self._running.programs_before)
        return Counted(count, since_ready)

    def _receive(self) -> Command:
        try:
            command: Command = self._connection.recv()
        except (EOFError, OSError) as error:
            raise ParentGone from error
        return command

    def _send(self, event: Event) -> None:
        try:
            with self._sending:
                self._connection.send(event)
                self._sent_s = time.monotonic()
        except OSError as error:
            raise ParentGone from error


def _begin(runtime: Runtime, command: Load | WarmUp | Generate) -> Iterator[Progress]:
    match command:
        case Load():
            return runtime.load(command)
        case WarmUp():
            return runtime.warm_up(command)
        case Generate():
            return runtime.generate(command)
        case _:
            assert_never(command)


def message_of(error: Exception) -> str:
    """What a person is told: our errors say it themselves, others are named in one line."""
    if isinstance(error, TpuUiError):
        return str(error)
    line = next(iter(str(error).splitlines()), "")[:MAX_LINE_CHARACTERS]
    named = f"{type(error).__name__}: {line}" if line else type(error).__name__
    return f"Something went wrong in the worker ({named}). The log has the rest."
