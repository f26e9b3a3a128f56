"""What the owner's corner tells, as HTML. Pure functions, no Gradio; escapes what it shows."""

import html
from collections.abc import Iterable, Sequence
from importlib.metadata import version

from tpu_ui import __version__
from tpu_ui.dispatch.interface import Report, Status, Tally, WorkerReport
from tpu_ui.protocol import Memory
from tpu_ui.ui.strip import STATE_TITLES
from tpu_ui.ui.words import Words

GIB = 2**30


def facts_html(words: Words, status: Status, report: Report, tally: Tally) -> str:
    """The machine and what it has done, as rows."""
    ended = words(
        "{finished} finished, {failed} failed, {cancelled} cancelled",
        finished=tally.finished,
        failed=tally.failed,
        cancelled=tally.cancelled,
    )
    compiled = words(
        "{programs}, {since} of them after ready",
        programs=words.counted(status.programs_compiled, "program"),
        since=status.programs_compiled_since_ready,
    )
    device = words(
        "{device}: {reason}",
        device=status.device or words("not known yet"),
        reason=words.sentence(status.device_reason),
    )
    versions = ", ".join(f"{name} {number}" for name, number in _versions(report.workers))
    rows = [
        (words("Device"), device),
        *(row for worker in report.workers for row in _worker(words, worker, len(report.workers))),
        (words("Up for"), _whole_minutes(words, report.uptime_s)),
        (words("Queue"), words.counted(status.queue_length, "job")),
        (words("Images made"), str(tally.images)),
        (words("Jobs"), ended),
        (words("Compiled"), compiled),
        (words("Versions"), versions),
    ]
    cells = "".join(
        f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd></div>"
        for name, value in rows
    )
    return f'<dl class="tpu-info">{cells}</dl>'


def log_html(words: Words, logs: Sequence[Sequence[str]]) -> str:
    """The last lines of each worker's log."""
    parts = [
        _log(
            words("Log of worker {number}", number=index) if len(logs) > 1 else words("Log"),
            lines or [words("Nothing yet.")],
        )
        for index, lines in enumerate(logs)
    ]
    return "".join(parts)


def memory_text(words: Words, memory: Memory) -> str:
    """ "5.0 of 16.0 GiB of the chip in use, 11.0 free"."""
    used_gib, free_gib = memory.in_use_bytes / GIB, memory.free_bytes / GIB
    used, free, total = (f"{one:.1f}" for one in (used_gib, free_gib, used_gib + free_gib))
    if memory.of_chip:
        return words(
            "{used} of {total} GiB of the chip in use, {free} free",
            used=used,
            total=total,
            free=free,
        )
    return words(
        "{used} GiB of the host by the worker's process, {free} free (no chip tells)",
        used=used,
        free=free,
    )


def _worker(words: Words, worker: WorkerReport, count: int) -> list[tuple[str, str]]:
    unknown, number = words("not known yet"), worker.index
    memory = unknown if worker.memory is None else memory_text(words, worker.memory)
    process = words(STATE_TITLES.get(worker.state, worker.state))
    if worker.pid is not None:
        process = words("{state}, process {number}", state=process, number=worker.pid)
    if count == 1:
        names = words("Chip"), words("Memory"), words("Worker")
    else:
        names = (
            words("Chip of worker {number}", number=number),
            words("Memory of worker {number}", number=number),
            words("Worker {number}", number=number),
        )
    return list(zip(names, (worker.chip or unknown, memory, process), strict=True))


def _versions(workers: Iterable[WorkerReport]) -> list[tuple[str, str]]:
    of_worker = next((worker.versions for worker in workers if worker.versions), ())
    known = dict(of_worker) | {"gradio": version("gradio"), "TPU UI": __version__}
    known.pop("tpu_ui", None)
    return sorted(known.items(), key=lambda one: (one[0] != "TPU UI", one[0]))


def _whole_minutes(words: Words, seconds: float) -> str:
    """Does not change every second."""
    return words("less than a minute") if seconds < 60 else words.duration(seconds // 60 * 60)


def _log(title: str, lines: Sequence[str]) -> str:
    text = html.escape("\n".join(lines))
    return (
        f'<section class="tpu-log"><h2>{title}</h2>'
        f'<pre tabindex="0" aria-label="{title}">{text}</pre></section>'
    )
