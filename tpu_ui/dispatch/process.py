"""One worker process, seen from the UI process: start, talk, end. Knows nothing of jobs or queues.

Each worker is the leader of its own process group, so that Ctrl+C in a terminal reaches only the
UI process, and so that whatever the runtime has started ends with the worker.
"""

import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge, wait
from pathlib import Path
from typing import BinaryIO, Self

import tpu_ui
from tpu_ui.dispatch import logs
from tpu_ui.protocol import Command, Event, Failed, Shutdown, Started

START_TIMEOUT_S = 180.0  # importing torch and opening a TPU may take a minute on a slow disk
STEP_S = 0.1
SHUTDOWN_S = 2.0
TERMINATE_S = 1.0
KILL_S = 3.0

log = logging.getLogger(__name__)


class WorkerEnded(Exception):
    """The process is gone. `how` goes on after "The worker process": "was killed by signal 9"."""

    def __init__(self, how: str) -> None:
        super().__init__(f"The worker process {how}.")
        self.how = how


class StartRefused(Exception):
    """The runtime said why it cannot start: trying again would end in the same way."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message)
        self.failed = failed


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """How to start the worker number `index`. `environment` is added to this process's own.

    With several ranks it is a group of as many processes, of which the first one talks.
    """

    index: int
    runtime: str
    device: str
    cache: Path
    environment: tuple[tuple[str, str], ...] = ()
    ranks: int = 1
    start_timeout_s: float = START_TIMEOUT_S


class WorkerProcess:
    """A started worker. One thread receives; any thread may send."""

    def __init__(self, process: subprocess.Popen[bytes], spec: WorkerSpec) -> None:
        self._process = process
        self._spec = spec
        self._connection: Connection | None = None
        self._sending = threading.Lock()
        self.started: Started | None = None

    @classmethod
    def start(cls, spec: WorkerSpec, give_up: Callable[[], bool]) -> Self:
        """Start a worker and wait until it has said what it runs on.

        `give_up` is asked ten times a second. Raises WorkerEnded, StartRefused.
        """
        folder = Path(tempfile.mkdtemp(prefix="tpu-ui-"))  # readable by this user only
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(folder / "worker"))
                listener.listen(1)
                key = secrets.token_bytes(32)
                worker = cls(_spawn(spec, folder / "worker", key), spec)
                try:
                    worker._connect(listener, key, give_up)
                except BaseException:
                    worker.stop(0)
                    raise
                return worker
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, command: Command) -> None:
        """Raises WorkerEnded when nobody is there to take it."""
        assert self._connection is not None
        try:
            with self._sending:
                self._connection.send(command)
        except OSError as error:
            raise WorkerEnded(self.how_it_ended()) from error

    def receive(self, timeout_s: float) -> Event | None:
        """The next event; None if none has come in time. Raises WorkerEnded after the last one."""
        assert self._connection is not None
        try:
            if not self._connection.poll(timeout_s):
                return None
            event: Event = self._connection.recv()
        except (EOFError, OSError) as error:
            raise WorkerEnded(self.how_it_ended()) from error
        return event

    def how_it_ended(self) -> str:
        """Words for the end of the process; ends it if only its connection is closed."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(KILL_S)
        code = self._process.poll()
        if code is None:
            self._signal(signal.SIGKILL)
            return "closed its connection"
        return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"

    def stop(self, patience_s: float = SHUTDOWN_S) -> None:
        """End the process: by asking for `patience_s`, then by SIGTERM, then by SIGKILL."""
        if patience_s and self._connection is not None:
            with suppress(WorkerEnded):
                self.send(Shutdown())
        if not self._gone_within(patience_s):
            self._signal(signal.SIGTERM)
            if not self._gone_within(TERMINATE_S if patience_s else 0):
                self._signal(signal.SIGKILL)
                self._process.wait(KILL_S)
        self._signal(signal.SIGKILL)  # what the worker had started and did not end itself
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        if self._connection is not None:
            self._connection.close()

    def _gone_within(self, seconds: float) -> bool:
        """Whether the process ends in time. Takes its last events, lest it block on sending."""
        deadline_s = time.monotonic() + seconds
        connected = self._connection is not None
        while self._process.poll() is None:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            if not connected:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(left_s)
                continue
            try:
                assert self._connection is not None
                if self._connection.poll(min(left_s, STEP_S)):
                    self._connection.recv_bytes()
            except (EOFError, OSError):
                connected = False
        return True

    def _connect(self, listener: socket.socket, key: bytes, give_up: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + self._spec.start_timeout_s
        while not wait([listener], STEP_S):
            self._check_start(deadline_s, give_up)
        connected, _ = listener.accept()
        self._connection = Connection(connected.detach())
        try:
            deliver_challenge(self._connection, key)
            answer_challenge(self._connection, key)
        except (EOFError, OSError) as error:
            raise WorkerEnded(self.how_it_ended()) from error
        while (event := self.receive(STEP_S)) is None:
            self._check_start(deadline_s, give_up)
        if isinstance(event, Failed):
            raise StartRefused(event)
        assert isinstance(event, Started), event
        self.started = event

    def _check_start(self, deadline_s: float, give_up: Callable[[], bool]) -> None:
        if not self.alive():
            raise WorkerEnded(self.how_it_ended())
        if give_up():
            raise WorkerEnded("was stopped while it started")
        if time.monotonic() > deadline_s:
            raise WorkerEnded(f"did not start within {self._spec.start_timeout_s:g} s")

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _spawn(spec: WorkerSpec, address: Path, key: bytes) -> subprocess.Popen[bytes]:
    root = str(Path(tpu_ui.__file__).resolve().parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    path = f"{root}{os.pathsep}{inherited}" if inherited else root
    module = ["tpu_ui.worker"]
    if spec.ranks > 1:
        module = ["tpu_ui.runtime.group", str(spec.ranks)]
    arguments = [sys.executable, "-m", *module, "--address", str(address)]
    arguments += ["--runtime", spec.runtime, "--device", spec.device, "--cache", str(spec.cache)]
    with _open_log(spec) as output:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": path, **dict(spec.environment)},
            start_new_session=True,
        )
    assert process.stdin is not None
    with suppress(OSError):  # it has died already; the wait for its connection says how
        process.stdin.write(key.hex().encode() + b"\n")
        process.stdin.flush()
    return process


def _open_log(spec: WorkerSpec) -> BinaryIO:
    """The worker's log, empty. The log of the worker before it is kept, for what ended it."""
    path = logs.path(spec.cache, spec.index)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.replace(path.with_suffix(".previous.log"))
        return path.open("wb")
    except OSError as error:
        log.warning("worker %d has no log file: %s", spec.index, error.strerror)
        return Path(os.devnull).open("wb")
