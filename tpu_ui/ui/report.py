"""What the owner's corner tells, as HTML. Pure functions, no Gradio; escapes what it shows."""

import html
from collections.abc import Iterable, Sequence
from importlib.metadata import version

from tpu_ui import __version__
from tpu_ui.dispatch.interface import Report, Status, Tally, WorkerReport
from tpu_ui.protocol import Memory
from tpu_ui.ui.view import counted, duration

GIB = 2**30


def facts_html(status: Status, report: Report, tally: Tally) -> str:
    """The machine and what it has done, as rows."""
    ended = f"{tally.finished} finished, {tally.failed} failed, {tally.cancelled} cancelled"
    since = status.programs_compiled_since_ready
    rows = [
        ("Device", f"{status.device or 'not known yet'}: {status.device_reason}"),
        *(row for worker in report.workers for row in _worker(worker, len(report.workers))),
        ("Up for", _whole_minutes(report.uptime_s)),
        ("Queue", counted(status.queue_length, "job")),
        ("Images made", str(tally.images)),
        ("Jobs", ended),
        ("Compiled", f"{status.programs_compiled} programs, {since} of them after ready"),
        ("Versions", ", ".join(f"{name} {number}" for name, number in _versions(report.workers))),
    ]
    cells = "".join(
        f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd></div>"
        for name, value in rows
    )
    return f'<dl class="tpu-info">{cells}</dl>'


def log_html(logs: Sequence[Sequence[str]]) -> str:
    """The last lines of each worker's log."""
    parts = [
        _log(f"Log of worker {index}" if len(logs) > 1 else "Log", lines)
        for index, lines in enumerate(logs)
    ]
    return "".join(parts)


def memory_text(memory: Memory) -> str:
    """ "5.0 of 16.0 GiB of the chip in use, 11.0 free"."""
    used, free = memory.in_use_bytes / GIB, memory.free_bytes / GIB
    if memory.of_chip:
        return f"{used:.1f} of {used + free:.1f} GiB of the chip in use, {free:.1f} free"
    return f"{used:.1f} GiB of the host by the worker's process, {free:.1f} free (no chip tells)"


def _worker(worker: WorkerReport, count: int) -> list[tuple[str, str]]:
    of = f" of worker {worker.index}" if count > 1 else ""
    memory = "not known yet" if worker.memory is None else memory_text(worker.memory)
    process = worker.state if worker.pid is None else f"{worker.state}, process {worker.pid}"
    return [
        (f"Chip{of}", worker.chip or "not known yet"),
        (f"Memory{of}", memory),
        (f"Worker {worker.index}" if count > 1 else "Worker", process),
    ]


def _versions(workers: Iterable[WorkerReport]) -> list[tuple[str, str]]:
    of_worker = next((worker.versions for worker in workers if worker.versions), ())
    known = dict(of_worker) | {"gradio": version("gradio"), "TPU UI": __version__}
    known.pop("tpu_ui", None)
    return sorted(known.items(), key=lambda one: (one[0] != "TPU UI", one[0]))


def _whole_minutes(seconds: float) -> str:
    """Does not change every second."""
    return "less than a minute" if seconds < 60 else duration(seconds // 60 * 60)


def _log(title: str, lines: Sequence[str]) -> str:
    text = html.escape("\n".join(lines)) or "Nothing yet."
    return (
        f'<section class="tpu-log"><h4>{title}</h4>'
        f'<pre tabindex="0" aria-label="{title}">{text}</pre></section>'
    )
