"""The status strip and the table of programs: the whole app's state as HTML, and as JSON values.

Pure functions of a Status. The same state gives the same text, so that the page is only touched
when something has changed.
"""

import html
from collections.abc import Mapping
from typing import Any

from tpu_ui.dispatch.interface import SizeStatus, Status
from tpu_ui.shapes import ImageSize, Mode, ProgramState
from tpu_ui.ui.view import MODE_TITLES, STRATEGY_TITLES, about, counted, duration, gone

STATE_TITLES = {
    "loading": "Loading",
    "warming": "Warming up",
    "ready": "Ready",
    "busy": "Busy",
    "failed": "Failed",
}

LOCKED = "Locked: nobody can start a compilation by asking for a picture."


def now_html(status: Status) -> str:
    """What is going on, in one line beside the title."""
    state = STATE_TITLES.get(status.state, status.state)
    detail = "" if status.detail == f"{state}." else status.detail
    return (
        f'<p class="tpu-now" data-state="{html.escape(status.state)}"><i></i>'
        f"<strong>{html.escape(state)}</strong><span>{html.escape(detail)}</span></p>"
    )


def strip_html(status: Status, title: str, mode: Mode) -> str:
    """Device, model and counts. `title` is the model's, `mode` the one that is chosen."""
    since = status.programs_compiled_since_ready
    facts = [
        ("Device", str(status.device) if status.device else "not known yet", status.device_reason),
        ("Chip", status.chip or "not known yet", ""),
        ("Model", title, ""),
        ("Mode", MODE_TITLES[mode], ""),
        ("Strategy", STRATEGY_TITLES[status.placement.strategy], status.placement.reason),
        *([("Memory", status.placement.needs, status.plan)] if status.placement.needs else []),
        ("Sizes", "ready ones only" if status.locked else "any", LOCKED if status.locked else ""),
        ("Queue", counted(status.queue_length, "job"), ""),
        (
            "Compiled since ready",
            counted(since, "program"),
            "More than 0 is a bug." if since else "",
        ),
    ]
    cells = "".join(
        f"<div{_title(hint)}><dt>{name}</dt><dd>{html.escape(value)}</dd></div>"
        for name, value, hint in facts
    )
    return (
        '<section class="tpu-strip" aria-label="Status">'
        f'<dl class="tpu-facts">{cells}</dl></section>'
    )


def size_text(programs: SizeStatus) -> str:
    """The state of one size in a few words."""
    if programs.unfit:
        return f"does not fit: {programs.unfit}"
    if programs.state is ProgramState.COLD and programs.stage:
        return programs.stage
    match programs.state:
        case ProgramState.READY:
            took = "" if programs.seconds is None else f", took {duration(programs.seconds)}"
            return f"ready{took}"
        case ProgramState.COMPILING:
            done = counted(programs.programs_compiled, "program")
            return f"compiling: {done}, {gone(programs.seconds or 0, programs.expected_s)}"
        case ProgramState.COLD:
            return f"cold, {about(_expected_s(programs), programs.elsewhere)}"
        case ProgramState.FAILED:
            return f"failed: {programs.reason or 'no reason given'}"


def table_html(status: Status, programs: Mapping[Mode, Mapping[ImageSize, SizeStatus]]) -> str:
    """Every mode and size of the chosen model."""
    sizes = list(next(iter(programs.values()), {}))
    head = "".join(f'<th scope="col">{size}</th>' for size in sizes)
    rows = "".join(
        f'<tr><th scope="row">{MODE_TITLES[mode]}</th>'
        + "".join(
            f'<td data-state="{one.state.value}">{html.escape(size_text(one))}</td>'
            for one in by_size.values()
        )
        + "</tr>"
        for mode, by_size in programs.items()
    )
    total = counted(status.programs_compiled, "program")
    return (
        f'<div class="tpu-table"><table><thead><tr><th scope="col">Mode</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table><p>{total} compiled since the worker started; "
        f"{counted(status.workers, 'worker')}.</p></div>"
    )


def status_dict(status: Status) -> dict[str, Any]:
    """The `/status` endpoint's answer: plain JSON values."""
    programs = {
        mode.value: {str(size): _size_dict(one) for size, one in sizes.items()}
        for mode, sizes in status.sizes.items()
    }
    return {
        "device": status.device.value if status.device else None,
        "device_reason": status.device_reason,
        "chip": status.chip,
        "model": status.model,
        "mode": status.mode.value,
        "state": status.state,
        "detail": status.detail,
        "locked": status.locked,
        "sizes": programs.get(status.mode.value, {}),
        "programs": programs,
        "queue_length": status.queue_length,
        "programs_compiled": status.programs_compiled,
        "programs_compiled_since_ready": status.programs_compiled_since_ready,
        "workers": status.workers,
        "strategy": status.placement.strategy.value,
        "strategy_reason": status.placement.reason,
        "devices": status.placement.devices,
        "needs": status.placement.needs,
        "plan": status.plan,
    }


def _size_dict(programs: SizeStatus) -> dict[str, Any]:
    return {
        "state": programs.state.value,
        "seconds": programs.seconds,
        "expected_s": programs.expected_s,
        "programs_compiled": programs.programs_compiled,
        "stage": programs.stage,
        "expected_elsewhere": programs.elsewhere,
        "reason": programs.unfit or programs.reason,
        "fits": not programs.unfit,
    }


def _expected_s(programs: SizeStatus) -> float | None:
    """A cold size may carry its expected time in either field."""
    return programs.seconds if programs.expected_s is None else programs.expected_s


def _title(hint: str) -> str:
    return f' title="{html.escape(hint)}"' if hint else ""
