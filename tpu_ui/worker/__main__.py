"""Start-up of a worker process: arguments, key, log, connection, runtime.

The connection's key comes as the first line of stdin, so that it is in no process list and no
environment. Afterwards stdin stays open and empty: its end means that the UI process is gone, by
whatever death, and this process and all it has started end at once.
"""

import argparse
import contextlib
import ctypes
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

from tpu_ui.runtime.group import TORCHRUN_PID
from tpu_ui.runtime.interface import DEVICE_CHOICES, Runtime
from tpu_ui.worker.loop import JobLabel, Loop

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(arguments: list[str] | None = None) -> int:
    """Run one worker; returns the exit code."""
    options = _parser().parse_args(arguments)
    if int(os.environ.get("RANK", "0")) > 0:  # set by torchrun
        return follow(options)
    key = bytes.fromhex(sys.stdin.readline().strip())
    if "RANK" in os.environ:
        _end_with_torchrun()
    threading.Thread(target=_end_with_parent, name="parent watch", daemon=True).start()
    label = JobLabel()
    _configure_logging(label)
    with Client(options.address, family="AF_UNIX", authkey=key) as connection:
        make = runtime_maker(options.runtime, options.device, options.cache)
        return Loop(connection, label).run(make)


def follow(options: argparse.Namespace) -> int:
    """Run a rank that takes its commands from rank 0, for as long as torchrun is there."""
    _end_with_torchrun()
    _configure_logging(JobLabel())
    runtime: Any = runtime_maker(options.runtime, options.device, options.cache)()
    runtime.follow()
    return 0


def runtime_maker(name: str, device: str, cache: Path) -> Callable[[], Runtime]:
    """A function that imports "module:Class" and makes it. The import may take a minute."""

    def make() -> Runtime:
        module, _, class_name = name.partition(":")
        with _nothing_collected():
            runtime: Runtime = getattr(import_module(module), class_name)(device, cache)
        return runtime

    return make


@contextlib.contextmanager
def _nothing_collected() -> Iterator[None]:
    """A context for imports. What they make stays: looking through it for garbage, again and again,
    takes a fifth of the time in which a worker starts. Nobody looks through it later either.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tpu_ui.worker", description=__doc__)
    parser.add_argument("--address", required=True, help="path of the dispatcher's socket")
    parser.add_argument("--runtime", required=True, help='class of the runtime, "module:Class"')
    parser.add_argument("--device", required=True, choices=DEVICE_CHOICES)
    parser.add_argument("--cache", required=True, type=Path)
    return parser


def _configure_logging(label: JobLabel) -> None:
    handler = logging.StreamHandler()  # stderr, which the dispatcher has sent to the log file
    handler.addFilter(label)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s %(name)s [%(job)s] %(message)s")
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _end_with_torchrun() -> None:
    """Have this rank killed when torchrun ends, by whatever death."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(os.environ[TORCHRUN_PID]):  # it has ended before it was asked for
        os._exit(1)


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    if os.getpgrp() == os.getpid():  # our own group: take along what the runtime has started
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
