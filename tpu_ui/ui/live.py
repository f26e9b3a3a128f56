"""What in the page follows the app's state by itself, and what of it has changed. No Gradio.

The page asks once a second. `Live` is all that could change, as plain comparable values: what
equals the last one shown is not sent again, so nothing flickers and no open list closes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tpu_ui.dispatch.interface import Dispatcher, SizeStatus, Status
from tpu_ui.request import Limits
from tpu_ui.shapes import ImageSize, Mode, ProgramState
from tpu_ui.ui import picker, strip, view
from tpu_ui.ui.words import Words


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the visitor has chosen, as the page reports it; None before the first choice."""

    model: object = None
    mode: object = None
    size: object = None
    cold_size: object = None


@dataclass(frozen=True, slots=True)
class Picker:
    """A choice on the page: (label, value) pairs, the one that is chosen, and a line about it."""

    choices: tuple[tuple[str, str], ...]
    value: str | None
    note: str


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size picker: its cards as HTML, a line about the choice among them, and the choice."""

    cards: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Live:
    """Everything that follows the status, for one visitor's choice of model and mode."""

    now: str
    strip: str
    table: str
    mode: Picker
    size: Sizes
    cold_size: Picker
    strategy: Picker


def live(words: Words, dispatcher: Dispatcher, chosen: Chosen) -> Live:
    """The page's living parts at this moment. What cannot be chosen is replaced."""
    status = dispatcher.status()
    named = chosen.model if isinstance(chosen.model, str) else ""
    limits = dispatcher.limits(named if named in dispatcher.presets else status.model)
    mode = _mode(status, limits, chosen.mode)
    modes = [mode for mode in view.MODE_TITLES if mode in limits.modes]
    programs = {one: view.sizes_of(status, limits, one) for one in modes}
    sizes = programs[mode]
    size = view.chosen_size(view.open_sizes(status, sizes), chosen.size, limits.default_size)
    note = view.size_note(words, status, sizes, size)
    cold = tuple(
        (_cold_title(words, name, one), str(name))
        for name, one in sizes.items()
        if one.state in (ProgramState.COLD, ProgramState.FAILED) and not one.unfit
    )
    cold_size = view.chosen_size([name for _, name in cold], chosen.cold_size, limits.default_size)
    title = dispatcher.presets[limits.model].title
    return Live(
        now=strip.now_html(words, status),
        strip=strip.strip_html(words, status, title, mode),
        table=strip.table_html(words, status, programs),
        mode=Picker(
            view.mode_choices(words, limits), mode.value, view.mode_note(words, limits, mode)
        ),
        size=Sizes(picker.cards_html(words, sizes, status.locked, note), size),
        cold_size=Picker(cold, cold_size, _cold_note(words, sizes, cold_size)),
        strategy=Picker(
            view.strategy_choices(words, status),
            view.chosen_strategy(status),
            view.strategy_note(words, status),
        ),
    )


def _mode(status: Status, limits: Limits, wanted: object) -> Mode:
    for mode in (wanted, status.mode):
        if mode in limits.modes:
            return Mode(str(mode))
    return limits.default_mode


def _cold_title(words: Words, size: ImageSize, programs: SizeStatus) -> str:
    failed = programs.state is ProgramState.FAILED
    return words("{size} (failed)", size=size) if failed else str(size)


def _cold_note(words: Words, sizes: Mapping[ImageSize, SizeStatus], cold_size: str | None) -> str:
    if cold_size is None:
        return words("Every size of this mode is ready or being compiled.")
    text = strip.size_text(words, sizes[ImageSize.parse(cold_size)])
    return words("{size}: {text}.", size=cold_size, text=text)
