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
from tpu_ui.ui.words import Words

MODE_TITLES = {
    Mode.COMPILED: "Compiled",
    Mode.FUSED: "Fused eager",
    Mode.EAGER: "Strict eager",
}
AGAIN_TITLES = {
    Mode.COMPILED: "Again in Compiled",
    Mode.FUSED: "Again in Fused eager",
    Mode.EAGER: "Again in Strict eager",
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
AUTOMATIC, AUTOMATIC_TITLE = "auto", "Automatic: what moves least and fits"


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a job is: one sentence, and how far (0 to 1; None where nobody knows)."""

    text: str
    done: float | None = None
    running: bool = True


def progress(words: Words, update: Update) -> Progress:
    """What an update of a job says to the person who waits for it."""
    match update:
        case Queued():
            return Progress(_waiting(words, update))
        case Loading():
            return Progress(words.sentence(loading_message(update)), _loaded(update))
        case Warming():
            return Progress(compiling(words, update), _part(update.elapsed_s, update.expected_s))
        case Warmed(size=size, programs_compiled=programs, elapsed_s=elapsed_s):
            text = words(
                "{size} is ready: {programs} in {time}.",
                size=size,
                programs=words.counted(programs, "program"),
                time=words.duration(elapsed_s),
            )
            return Progress(text, 1.0)
        case Stepped():
            return Progress(_step(words, update), update.step / update.steps)
        case ImageSaved() | ImageMade():
            return Progress(words("Image {image} is done.", image=update.image), 1.0)
        case Finished():
            return Progress(words("Done."), 1.0, running=False)
        case Cancelled():
            return Progress(words("Cancelled."), 0.0, running=False)
        case Failed(message=message):
            text = words("Failed: {reason}", reason=words.sentence(message))
            return Progress(text, 0.0, running=False)
        case _:
            assert_never(update)


def compiling(words: Words, update: Warming) -> str:
    """ "Compiling 320x192: 41 programs, 12 s of about 30 s (step 1 of 2)"."""
    told = {
        "size": update.size,
        "programs": words.counted(update.programs_compiled, "program"),
        "time": words.gone(update.elapsed_s, update.expected_s),
    }
    if not update.stage:
        return words("Compiling {size}: {programs}, {time}", **told)
    stage = words.sentence(update.stage)
    return words("Compiling {size}: {programs}, {time} ({stage})", stage=stage, **told)


def _waiting(words: Words, update: Queued) -> str:
    """ "Waiting: 2 jobs are before yours, about 40 s." """
    jobs = words.counted(update.position, "job")
    if update.position == 0:
        what = words("Waiting: yours is next")
    elif update.position == 1:
        what = words("Waiting: {jobs} is before yours", jobs=jobs)
    else:
        what = words("Waiting: {jobs} are before yours", jobs=jobs)
    if update.expected_s is None or update.expected_s < 1:
        return words("{what}.", what=what)
    return words("{what}, {time}.", what=what, time=words.about(update.expected_s))


def _step(words: Words, update: Stepped) -> str:
    at = {"image": update.image, "count": update.count, "step": update.step, "steps": update.steps}
    if update.count == 1 and update.step == 0:
        step = words("Text is encoded")
    elif update.count == 1:
        step = words("Step {step} of {steps}", **at)
    elif update.step == 0:
        step = words("Image {image} of {count}: text is encoded", **at)
    else:
        step = words("Image {image} of {count}: step {step} of {steps}", **at)
    if update.left_s is None:
        return step
    return words("{step}, {time} left", step=step, time=words.whole(update.left_s))


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


def result_html(words: Words, infos: list[ImageInfo]) -> str:
    """The line under the pictures: seed, size, time, and what the caller should know."""
    if not infos:
        return '<div class="tpu-result"></div>'
    first, last = infos[0], infos[-1]
    seeds = words("Seed {seed}", seed=first.seed)
    if len(infos) > 1:
        seeds = words("Seeds {first} to {last}", first=first.seed, last=last.seed)
    seconds = sum(i.timings_s.encode + i.timings_s.denoise + i.timings_s.decode for i in infos)
    made = words("made in {time}", time=words.duration(seconds))
    facts = [seeds, first.size, words.counted(first.steps, "step"), made]
    if compiled := sum(info.programs_compiled for info in infos):
        programs = words.counted(compiled, "program")
        facts.append(words("{programs} compiled on the way", programs=programs))
    notices = dict.fromkeys(notice for info in infos for notice in info.notices)
    lines = "".join(f"<p>{html.escape(words.sentence(notice))}</p>" for notice in notices)
    spans = "".join(f"<span>{html.escape(fact)}</span>" for fact in facts)
    return (
        f'<div class="tpu-result"><p class="tpu-facts-line">{spans}</p>'
        f"{_prompt_html(first.prompt)}{lines}</div>"
    )


def past_html(words: Words, info: Mapping[str, Any]) -> str:
    """The line under a kept picture. `info` came out of a file: nothing in it is trusted."""
    seed = words("Seed {seed}", seed=info.get("seed"))
    facts = [seed, info.get("size"), words.counted(info.get("steps"), "step")]
    facts += [info.get("model"), words.sentence(str(info.get("mode")))]
    spans = "".join(f"<span>{html.escape(str(fact)[:80])}</span>" for fact in facts if fact)
    prompt = _prompt_html(str(info.get("prompt", ""))[:4000])
    return f'<div class="tpu-result"><p class="tpu-facts-line">{spans}</p>{prompt}</div>'


def _prompt_html(prompt: str) -> str:
    """One line, and all of it on a press: a long one moves what is below only if asked to."""
    return f'<details class="tpu-prompt"><summary>{html.escape(prompt)}</summary></details>'


INFO_ROWS = {
    "prompt": "Prompt",
    "negative_prompt": "Negative prompt",
    "model": "Model",
    "mode": "Mode",
    "size": "Size",
    "steps": "Steps",
    "guidance": "Guidance scale",
    "seed": "Seed",
    "lora": "LoRA",
    "styles": "Styles",
    "scheduler": "Scheduler",
    "dtype": "Number type",
    "strategy": "Strategy",
    "device": "Device",
    "chip": "Chip",
    "version": "TPU UI version",
}


def info_html(words: Words, info: Mapping[str, Any]) -> str:
    """What made a picture, as rows. `info` came out of a file: nothing in it is trusted."""
    rows = "".join(
        f"<div><dt>{words(INFO_ROWS[key])}</dt><dd>{_value(words, key, info[key])}</dd></div>"
        for key in INFO_ROWS
        if info.get(key) not in (None, "", [])
    )
    return f'<dl class="tpu-info">{rows}</dl>'


def _value(words: Words, key: str, value: object) -> str:
    text = (", ".join(map(str, value)) if isinstance(value, list) else str(value))[:4000]
    return html.escape(words.sentence(text) if key in ("mode", "strategy") else text)


def note_html(text: str, kind: str = "note") -> str:
    """One plain sentence."""
    return f'<p class="tpu-note" data-kind="{kind}">{html.escape(text)}</p>'


def mode_choices(words: Words, limits: Limits) -> tuple[tuple[str, str], ...]:
    """The modes that run here, fastest first."""
    return tuple(
        (words(MODE_TITLES[mode]), mode.value) for mode in MODE_TITLES if mode in limits.modes
    )


def mode_note(words: Words, limits: Limits, mode: Mode) -> str:
    """What the mode does, and which modes cannot run here and why."""
    missing = [
        words(
            "{mode} is not available here: {reason}.",
            mode=words(MODE_TITLES[absent]),
            reason=words.sentence(reason),
        )
        for absent, reason in limits.unavailable_modes
    ]
    return " ".join([words(MODE_NOTES[mode]), *missing])


def strategy_choices(words: Words, status: Status) -> tuple[tuple[str, str], ...]:
    """The strategies of the loaded model that run on this machine."""
    able = [one for one, why_not in status.strategies.items() if why_not is None]
    labels = [
        words(
            "{strategy}: {note}",
            strategy=words(STRATEGY_TITLES[one]),
            note=words(STRATEGY_NOTES[one]),
        )
        for one in able
    ]
    return (
        (words(AUTOMATIC_TITLE), AUTOMATIC),
        *((label, one.value) for label, one in zip(labels, able, strict=True)),
    )


def chosen_strategy(status: Status) -> str:
    """The owner's choice, as a value of `strategy_choices`."""
    return status.strategy.value if status.strategy else AUTOMATIC


def strategy_note(words: Words, status: Status) -> str:
    """What runs and why, which strategies cannot run here and why, and what a change takes."""
    runs, reason = words(STRATEGY_TITLES[status.placement.strategy]), status.placement.reason
    said = [words("{what}.", what=runs)]
    if reason:
        said = [words("{strategy}: {reason}.", strategy=runs, reason=words.sentences(reason))]
    said += [
        words(
            "{strategy} is not available: {reason}.",
            strategy=words(STRATEGY_TITLES[absent]),
            reason=words.sentence(why_not),
        )
        for absent, why_not in status.strategies.items()
        if why_not is not None
    ]
    change = words("The owner can change it; the model is then loaded again.")
    return " ".join([*said, change])


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


def size_note(
    words: Words, status: Status, sizes: Mapping[ImageSize, SizeStatus], size: str | None
) -> str:
    """What choosing this size costs, said before Generate is pressed."""
    if size is None:
        return words("No size is ready in this mode yet.")
    programs = sizes[ImageSize.parse(size)]
    match programs.state:
        case ProgramState.READY:
            hidden = sum(other.state is not ProgramState.READY for other in sizes.values())
            if status.locked and hidden:
                more = words.counted(hidden, "more size")
                return words("{size} is ready. {more} not ready yet.", size=size, more=more)
            return words("{size} is ready: nothing left to compile.", size=size)
        case ProgramState.COLD:
            expected = words.about(programs.expected_s, programs.elsewhere)
            return words(
                "{size} is cold and has to be compiled first: {time}.", size=size, time=expected
            )
        case ProgramState.COMPILING:
            return words("{size} is compiling now; a picture waits for it.", size=size)
        case ProgramState.FAILED:
            reason = words.sentence(programs.reason) or words("no reason given")
            return words("{size} failed to compile: {reason}", size=size, reason=reason)
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


def steps_note(words: Words, limits: Limits) -> str:
    if limits.steps.minimum == limits.steps.maximum:
        steps = words.counted(limits.steps.minimum, "step")
        return words("This model always takes {steps}.", steps=steps)
    return words("More steps take longer and change the picture less and less.")


def guidance_note(words: Words, limits: Limits) -> str:
    if limits.guidance.minimum == limits.guidance.maximum:
        return words("This model has no use for a guidance scale.")
    return words("How closely the picture follows the prompt.")


def negative_prompt_note(words: Words, limits: Limits) -> str:
    if not limits.takes_negative_prompt:
        return words("This model takes no negative prompt.")
    if limits.guidance_off is not None:
        scale = f"{limits.guidance_off:g}"
        return words("What to keep out. Works at a guidance scale above {scale}.", scale=scale)
    return words("What to keep out.")


def count_note(words: Words, limits: Limits) -> str:
    if limits.max_count == 1:
        return words("This model makes one image at a time.")
    return words("One after another, with seeds counting up.")
