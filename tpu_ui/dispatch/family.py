"""A process and all that it has started, as the kernel lists them. Linux only; reads /proc.

Processes that end while they are looked at are left out.
"""

import os
from dataclasses import dataclass
from pathlib import Path

STOPPED = "T"  # proc_pid_stat(5): stopped by a signal; "t" is a debugger's
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Member:
    """One process. `used_s`: processor time, its ended children's included. `moved_bytes`: read
    from and written to files and pipes."""

    pid: int
    parent: int
    state: str
    used_s: float
    moved_bytes: int


def family(pid: int) -> list[Member]:
    """`pid` and those below it, parents before children; empty once `pid` is gone."""
    known = {member.pid: member for path in Path("/proc").glob("[0-9]*") if (member := _read(path))}
    found = [known[pid]] if pid in known else []
    for member in found:  # grows while it is read
        found += [one for one in known.values() if one.parent == member.pid]
    return found


def effort_s(pid: int) -> float:
    """What the whole family has done so far: its processor time, and a second for each MB that it
    has read or written: a download waits most of the time, and is at work all the same."""
    return sum(member.used_s + member.moved_bytes / 1e6 for member in family(pid))


def stopped(pid: int) -> str:
    """Who of the family is stopped by a signal, in words; empty if nobody is.

    Of a group the ranks alone are named: what has started them is stopped together with them.
    """
    pids = [member.pid for member in family(pid) if member.state == STOPPED]
    ranks = [rank for one in pids if (rank := _rank(one))]
    if ranks:
        return f"rank {', '.join(ranks)}"
    return "the process" if pids else ""


def _read(path: Path) -> Member | None:
    try:
        _, _, fields = (path / "stat").read_text().rpartition(")")
    except OSError:
        return None
    state, parent, *others = fields.split()
    ticks = sum(map(int, others[9:13]))  # utime, stime, cutime, cstime
    return Member(int(path.name), int(parent), state, ticks / TICKS_A_SECOND, _moved_bytes(path))


def _moved_bytes(path: Path) -> int:
    try:
        lines = (path / "io").read_text().splitlines()
    except OSError:  # gone, or another user's
        return 0
    counts = dict(line.split(": ") for line in lines)
    return int(counts["rchar"]) + int(counts["wchar"])


def _rank(pid: int) -> str:
    """Which one of a group; empty if it is of none."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    ranks = [one.removeprefix(b"RANK=").decode() for one in variables if one.startswith(b"RANK=")]
    return ranks[0] if ranks else ""
