"""The status strip and the table of programs: the whole app's state as HTML.

Pure functions of a Status. The same state gives the same text, so that the page is only touched
when something has changed.
"""

import html
from collections.abc import Mapping

from tpu_ui.dispatch.interface import SizeStatus, Status
from tpu_ui.shapes import ImageSize, Mode, ProgramState
from tpu_ui.ui.view import MODE_TITLES, STRATEGY_TITLES
from tpu_ui.ui.words import Words

STATE_TITLES = {
    "loading": "Loading",
    "warming": "Warming up",
    "ready": "Ready",
    "busy": "Busy",
    "failed": "Failed",
    "away": "Out of reach",
}

LOCKED = "Locked: nobody can start a compilation by asking for a picture."


def now_html(words: Words, status: Status) -> str:
    """What is going on, in one line beside the title."""
    state = words(STATE_TITLES.get(status.state, status.state))
    told = status.detail == f"{STATE_TITLES.get(status.state)}."
    detail = "" if told else words.sentence(status.detail)
    return (
        f'<p class="tpu-now" data-state="{html.escape(status.state)}"><i></i>'
        f"<strong>{html.escape(state)}</strong><span>{html.escape(detail)}</span></p>"
    )


def strip_html(words: Words, status: Status, title: str, mode: Mode) -> str:
    """Device, model and counts. `title` is the model's, `mode` the one that is chosen."""
    since = status.programs_compiled_since_ready
    placement, locked = status.placement, words(LOCKED) if status.locked else ""
    device = str(status.device) if status.device else words("not known yet")
    runs, why = words(STRATEGY_TITLES[placement.strategy]), words.sentences(placement.reason)
    needs = [(words("Memory"), words.sentence(placement.needs), words.sentence(status.plan))]
    facts = [
        (words("Device"), device, words.sentence(status.device_reason)),
        (words("Chip"), status.chip or words("not known yet"), ""),
        (words("Model"), title, ""),
        (words("Mode"), words(MODE_TITLES[mode]), ""),
        (words("Strategy"), runs, why),
        *(needs if placement.needs else []),
        (words("Sizes"), words("ready ones only") if status.locked else words("any"), locked),
        (words("Queue"), words.counted(status.queue_length, "job"), ""),
        (
            words("Compiled since ready"),
            words.counted(since, "program"),
            words("More than 0 is a bug.") if since else "",
        ),
    ]
    cells = "".join(
        f"<div{_title(hint)}><dt>{name}</dt><dd>{html.escape(value)}</dd></div>"
        for name, value, hint in facts
    )
    return (
        f'<section class="tpu-strip" aria-label="{words("Status")}">'
        f'<dl class="tpu-facts">{cells}</dl></section>'
    )


def size_text(words: Words, programs: SizeStatus) -> str:
    """The state of one size in a few words."""
    if programs.unfit:
        return words("does not fit: {reason}", reason=words.sentence(programs.unfit))
    if programs.state is ProgramState.COLD and programs.stage:
        return words.sentence(programs.stage)
    match programs.state:
        case ProgramState.READY:
            if programs.seconds is None:
                return words("ready")
            return words("ready, took {time}", time=words.duration(programs.seconds))
        case ProgramState.COMPILING:
            done = words.counted(programs.programs_compiled, "program")
            time = words.gone(programs.seconds or 0, programs.expected_s)
            return words("compiling: {programs}, {time}", programs=done, time=time)
        case ProgramState.COLD:
            time = words.about(_expected_s(programs), programs.elsewhere)
            return words("cold, {time}", time=time)
        case ProgramState.FAILED:
            reason = words.sentence(programs.reason) or words("no reason given")
            return words("failed: {reason}", reason=reason)


def table_html(
    words: Words, status: Status, programs: Mapping[Mode, Mapping[ImageSize, SizeStatus]]
) -> str:
    """Every mode and size of the chosen model."""
    sizes = list(next(iter(programs.values()), {}))
    head = "".join(f'<th scope="col">{size}</th>' for size in sizes)
    rows = "".join(
        f'<tr><th scope="row">{words(MODE_TITLES[mode])}</th>'
        + "".join(
            f'<td data-state="{one.state.value}">{html.escape(size_text(words, one))}</td>'
            for one in by_size.values()
        )
        + "</tr>"
        for mode, by_size in programs.items()
    )
    total = words(
        "{programs} compiled since the worker started; {workers}.",
        programs=words.counted(status.programs_compiled, "program"),
        workers=words.counted(status.workers, "worker"),
    )
    return (
        '<div class="tpu-table"><table><thead><tr>'
        f'<th scope="col">{words("Mode")}</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table><p>{total}</p></div>"
    )


def _expected_s(programs: SizeStatus) -> float | None:
    """A cold size may carry its expected time in either field."""
    return programs.seconds if programs.expected_s is None else programs.expected_s


def _title(hint: str) -> str:
    return f' title="{html.escape(hint)}"' if hint else ""
