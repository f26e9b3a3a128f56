"""Processes as the kernel lists them: who started whom, who runs, who listens."""

import time
from collections.abc import Iterable
from pathlib import Path

from tests.dispatch.driving import alive

LISTENING = "0A"  # include/net/tcp_states.h


def family(pid: int) -> list[int]:
    """The processes that `pid` has started, and those that they have, oldest first."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        started = [int(one) for task in tasks for one in (task / "children").read_text().split()]
    except OSError:  # it has ended
        return []
    return [one for child in sorted(started) for one in (child, *family(child))]


def parent(pid: int) -> int:
    """Who has started it."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def still_alive(pids: Iterable[int], patience_s: float) -> list[int]:
    """Which of the processes have not ended by then."""
    deadline_s = time.monotonic() + patience_s
    while (left := [pid for pid in pids if alive(pid)]) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return left


def listening(pids: Iterable[int]) -> set[str]:
    """The TCP sockets, by inode, that these processes accept connections on."""
    return _open_sockets(pids) & listening_anywhere()


def listening_anywhere() -> set[str]:
    """The TCP sockets, by inode, that anybody accepts connections on."""
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return {fields[9] for fields in lines if fields[3] == LISTENING}


def _open_sockets(pids: Iterable[int]) -> set[str]:
    found = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = str(entry.readlink())
            except OSError:  # closed since
                continue
            if target.startswith("socket:["):
                found.add(target[len("socket:[") : -1])
    return found
