"""From status and updates to what the page shows: texts and HTML. Pure functions, no Gradio.

Everything that came from outside is escaped here, and only here. What is shown of the whole app is
`strip.py`'s; this is what is shown of one form and one job.
"""

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from tpu_ui.dispatch.interface import ImageSaved, Queued, SizeStatus, Status, Update
from tpu_ui.dispatch.state import loading_message
from tpu_ui.metadata import ImageInfo
from tpu_ui.protocol import (
    Cancelled,
    Failed,
    Finished,
    ImageMade,
    Loading,
    Stepped,
    Warmed,
    Warming,
)
from tpu_ui.request import Limits
from tpu_ui.shapes import ImageSize, Mode, ProgramState, Strategy

MODE_TITLES = {
    Mode.COMPILED: "Compiled",
    Mode.FUSED: "Fused eager",
    Mode.EAGER: "Strict eager",
}
MODE_NOTES = {
    Mode.COMPILED: "One program for the denoiser: slow to compile, fastest to run.",
    Mode.FUSED: "Operations wait and become larger programs.",
    Mode.EAGER: "One program for each operation.",
}

STRATEGY_TITLES = {
    Strategy.RESIDENT: "Resident",
    Strategy.STAGED: "Staged",
    Strategy.OFFLOAD: "Offload",
    Strategy.SHARDED: "Sharded",
}
STRATEGY_NOTES = {
    Strategy.RESIDENT: "all on the chip",
    Strategy.STAGED: "text encoders come and go",
    Strategy.OFFLOAD: "one part at a time",
    Strategy.SHARDED: "chips share the weights",
}
NO_LORA = ("None", "")
AUTOMATIC = ("Automatic: what moves least and fits", "auto")


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a job is: one sentence, and how far (0 to 1; None where nobody knows)."""

    text: str
    done: float | None = None
    running: bool = True


def duration(seconds: float) -> str:
    """Seconds for people: "0.8 s", "34 s", "3 min 20 s", "2 h 5 min"."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes, rest_s = divmod(whole, 60)
    if minutes < 120:
        return f"{minutes} min {rest_s} s" if rest_s else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def whole(seconds: float) -> str:
    """Seconds without a fraction, for what changes every second."""
    return f"{round(seconds)} s" if seconds < 119 else duration(seconds)


def about(expected_s: float | None, elsewhere: bool = False) -> str:
    """An expected duration, whole seconds. `elsewhere`: it was measured on another machine."""
    if expected_s is None:
        return "time not known yet"
    return f"about {whole(expected_s)}{' (measured on another machine)' if elsewhere else ''}"


def gone(elapsed_s: float, expected_s: float | None) -> str:
    """ "12 s of about 30 s", "12 s so far"."""
    ending = "so far" if expected_s is None else f"of {about(expected_s)}"
    return f"{whole(elapsed_s)} {ending}"


def counted(number: int, noun: str) -> str:
    """ "1 job", "2 jobs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def progress(update: Update) -> Progress:
    """What an update of a job says to the person who waits for it."""
    match update:
        case Queued():
            return Progress(_waiting(update))
        case Loading():
            return Progress(loading_message(update), _loaded(update))
        case Warming():
            return Progress(compiling(update), _part(update.elapsed_s, update.expected_s))
        case Warmed(size=size, programs_compiled=programs, elapsed_s=elapsed_s):
            text = f"{size} is ready: {counted(programs, 'program')} in {duration(elapsed_s)}."
            return Progress(text, 1.0)
        case Stepped():
            return Progress(_step(update), update.step / update.steps)
        case ImageSaved() | ImageMade():
            return Progress(f"Image {update.image} is done.", 1.0)
        case Finished():
            return Progress("Done.", 1.0, running=False)
        case Cancelled():
            return Progress("Cancelled.", 0.0, running=False)
        case Failed(message=message):
            return Progress(f"Failed: {message}", 0.0, running=False)
        case _:
            assert_never(update)


def compiling(update: Warming) -> str:
    """ "Compiling 320x192: 41 programs, 12 s of about 30 s (step 1 of 2)"."""
    return (
        f"Compiling {update.size}: {counted(update.programs_compiled, 'program')}, "
        f"{gone(update.elapsed_s, update.expected_s)}"
        + (f" ({update.stage})" if update.stage else "")
    )


def _waiting(update: Queued) -> str:
    """ "Waiting: 2 jobs are before yours, about 40 s." """
    known = update.expected_s is not None and update.expected_s >= 1
    ending = f", {about(update.expected_s)}." if known else "."
    if update.position == 0:
        return f"Waiting: yours is next{ending}"
    verb = "is" if update.position == 1 else "are"
    return f"Waiting: {counted(update.position, 'job')} {verb} before yours{ending}"


def _step(update: Stepped) -> str:
    image = f"Image {update.image} of {update.count}: " if update.count > 1 else ""
    left = "" if update.left_s is None else f", {whole(update.left_s)} left"
    if update.step == 0:
        return f"{image}{'text' if image else 'Text'} is encoded{left}"
    return f"{image}{'step' if image else 'Step'} {update.step} of {update.steps}{left}"


def progress_html(now: Progress | None) -> str:
    """The progress line. It has the same height at all times."""
    if now is None:
        return '<div class="tpu-progress" role="status"><p></p><div class="tpu-bar"></div></div>'
    kind = "idle"
    if now.running:
        kind = "unknown" if now.done is None else "known"
    width = 0.0 if now.done is None else now.done * 100
    return (
        f'<div class="tpu-progress" role="status" data-kind="{kind}"><p>{html.escape(now.text)}</p>'
        f'<div class="tpu-bar"><i style="width:{width:.0f}%"></i></div></div>'
    )


def result_html(infos: list[ImageInfo]) -> str:
    """The line under the pictures: seed, size, time, and what the caller should know."""
    if not infos:
        return '<div class="tpu-result"></div>'
    first, last = infos[0], infos[-1]
    seeds = f"Seed {first.seed}" if len(infos) == 1 else f"Seeds {first.seed} to {last.seed}"
    seconds = sum(i.timings_s.encode + i.timings_s.denoise + i.timings_s.decode for i in infos)
    facts = [seeds, first.size, counted(first.steps, "step"), f"made in {duration(seconds)}"]
    if compiled := sum(info.programs_compiled for info in infos):
        facts.append(f"{counted(compiled, 'program')} compiled on the way")
    notices = dict.fromkeys(notice for info in infos for notice in info.notices)
    lines = "".join(f"<p>{html.escape(notice)}</p>" for notice in notices)
    spans = "".join(f"<span>{html.escape(fact)}</span>" for fact in facts)
    return (
        f'<div class="tpu-result"><p class="tpu-facts-line">{spans}</p>'
        f'<p class="tpu-prompt">{html.escape(first.prompt)}</p>{lines}</div>'
    )


def past_html(info: Mapping[str, Any]) -> str:
    """The line under a kept picture. `info` came out of a file: nothing in it is trusted."""
    facts = [f"Seed {info.get('seed')}", info.get("size"), f"{info.get('steps')} steps"]
    facts += [info.get("model"), info.get("mode")]
    spans = "".join(f"<span>{html.escape(str(fact)[:80])}</span>" for fact in facts if fact)
    prompt = html.escape(str(info.get("prompt", ""))[:4000])
    return (
        f'<div class="tpu-result"><p class="tpu-facts-line">{spans}</p>'
        f'<p class="tpu-prompt">{prompt}</p></div>'
    )


INFO_ROWS = (
    ("prompt", "Prompt"),
    ("negative_prompt", "Negative prompt"),
    ("model", "Model"),
    ("mode", "Mode"),
    ("size", "Size"),
    ("steps", "Steps"),
    ("guidance", "Guidance scale"),
    ("seed", "Seed"),
    ("lora", "LoRA"),
    ("scheduler", "Scheduler"),
    ("dtype", "Number type"),
    ("strategy", "Strategy"),
    ("device", "Device"),
    ("chip", "Chip"),
    ("version", "TPU UI version"),
)


def info_html(info: Mapping[str, Any]) -> str:
    """What made a picture, as rows. `info` came out of a file: nothing in it is trusted."""
    rows = "".join(
        f"<div><dt>{title}</dt><dd>{html.escape(str(info[key])[:4000])}</dd></div>"
        for key, title in INFO_ROWS
        if info.get(key) not in (None, "")
    )
    return f'<dl class="tpu-info">{rows}</dl>'


def note_html(text: str, kind: str = "note") -> str:
    """One plain sentence."""
    return f'<p class="tpu-note" data-kind="{kind}">{html.escape(text)}</p>'


def mode_choices(limits: Limits) -> tuple[tuple[str, str], ...]:
    """The modes that run here, fastest first."""
    return tuple((title, mode.value) for mode, title in MODE_TITLES.items() if mode in limits.modes)


def mode_note(limits: Limits, mode: Mode) -> str:
    """What the mode does, and which modes cannot run here and why."""
    missing = [
        f"{MODE_TITLES[absent]} is not available here: {reason}."
        for absent, reason in limits.unavailable_modes
    ]
    return " ".join([MODE_NOTES[mode], *missing])


def strategy_choices(status: Status) -> tuple[tuple[str, str], ...]:
    """The strategies of the loaded model that run on this machine."""
    able = [one for one, why_not in status.strategies.items() if why_not is None]
    labels = [f"{STRATEGY_TITLES[one]}: {STRATEGY_NOTES[one]}" for one in able]
    return (AUTOMATIC, *((label, one.value) for label, one in zip(labels, able, strict=True)))


def chosen_strategy(status: Status) -> str:
    """The owner's choice, as a value of `strategy_choices`."""
    return status.strategy.value if status.strategy else AUTOMATIC[1]


def strategy_note(status: Status) -> str:
    """What runs and why, which strategies cannot run here and why, and what a change takes."""
    runs = STRATEGY_TITLES[status.placement.strategy]
    reason = f": {status.placement.reason}" if status.placement.reason else ""
    missing = [
        f"{STRATEGY_TITLES[absent]} is not available: {why_not}."
        for absent, why_not in status.strategies.items()
        if why_not is not None
    ]
    change = "The owner can change it; the model is then loaded again."
    return " ".join([f"{runs}{reason}.", *missing, change])


def sizes_of(status: Status, limits: Limits, mode: Mode) -> dict[ImageSize, SizeStatus]:
    """Every size the model has, in order. A model that is not loaded has only cold ones."""
    known = status.sizes.get(mode, {}) if limits.model == status.model else {}
    unfit = dict(limits.unavailable_sizes)
    return {
        size: known.get(size, SizeStatus(ProgramState.COLD, unfit=unfit.get(size, "")))
        for size in limits.sizes
    }


def open_sizes(status: Status, sizes: Mapping[ImageSize, SizeStatus]) -> list[str]:
    """What can be chosen: the ready sizes, and unlocked the others too; of those that cannot fit
    none."""
    return [
        str(size)
        for size, programs in sizes.items()
        if not programs.unfit and (programs.state is ProgramState.READY or not status.locked)
    ]


def chosen_size(offered: list[str], wanted: object, default: ImageSize) -> str | None:
    """`wanted` while it is on offer, else the default, else the first; None if there is none."""
    for size in (wanted, str(default)):
        if isinstance(size, str) and size in offered:
            return size
    return offered[0] if offered else None


def size_note(status: Status, sizes: Mapping[ImageSize, SizeStatus], size: str | None) -> str:
    """What choosing this size costs, said before Generate is pressed."""
    if size is None:
        return "No size is ready in this mode yet."
    programs = sizes[ImageSize.parse(size)]
    match programs.state:
        case ProgramState.READY:
            hidden = sum(other.state is not ProgramState.READY for other in sizes.values())
            if status.locked and hidden:
                return f"{size} is ready. {counted(hidden, 'more size')} not ready yet."
            return f"{size} is ready: nothing left to compile."
        case ProgramState.COLD:
            expected = about(programs.expected_s, programs.elsewhere)
            return f"{size} is cold and has to be compiled first: {expected}."
        case ProgramState.COMPILING:
            return f"{size} is compiling now; a picture waits for it."
        case ProgramState.FAILED:
            return f"{size} failed to compile: {programs.reason or 'no reason given'}"
        case _:
            assert_never(programs.state)


def _loaded(update: Loading) -> float | None:
    """By bytes where their number is known, else by components."""
    if update.total_bytes:
        return min(update.loaded_bytes / update.total_bytes, 1.0)
    return update.index / update.count if update.count else None


def _part(elapsed_s: float, expected_s: float | None) -> float | None:
    """A bar that never claims to be done before the job says so."""
    if expected_s is None or expected_s <= 0:
        return None
    return min(elapsed_s / expected_s, 0.98)


def slider_end(minimum: float, maximum: float) -> float:
    """Gradio has no slider of a single value; one that cannot be moved needs some length too."""
    return maximum if minimum < maximum else minimum + 1


def steps_note(limits: Limits) -> str:
    if limits.steps.minimum == limits.steps.maximum:
        return f"This model always takes {counted(limits.steps.minimum, 'step')}."
    return "More steps take longer and change the picture less and less."


def guidance_note(limits: Limits) -> str:
    if limits.guidance.minimum == limits.guidance.maximum:
        return "This model has no use for a guidance scale."
    return "How closely the picture follows the prompt."


def negative_prompt_note(limits: Limits) -> str:
    if not limits.takes_negative_prompt:
        return "This model takes no negative prompt."
    if limits.guidance_off is not None:
        return f"What to keep out. Works at a guidance scale above {limits.guidance_off:g}."
    return "What to keep out."


def count_note(limits: Limits) -> str:
    if limits.max_count == 1:
        return "This model makes one image at a time."
    return "One after another, with seeds counting up."
