"""The size picker as HTML: a card for each size, with its shape, its state and what it costs.

Pure functions, no Gradio. `pickSize` in page.js tells the page which card is chosen.
"""

import html
from collections.abc import Mapping

from tpu_ui.dispatch.interface import SizeStatus
from tpu_ui.shapes import ImageSize, ProgramState
from tpu_ui.ui.strip import size_text
from tpu_ui.ui.words import Words

SHAPE_PX = 30  # the longer side of a size's shape
LOCKED = "Locked: only ready sizes can be chosen."


def cards_html(words: Words, sizes: Mapping[ImageSize, SizeStatus], locked: bool, note: str) -> str:
    """The same cards give the same text, and a card never moves: the browser keeps the focus."""
    longest_px = max((max(size.width_px, size.height_px) for size in sizes), default=1)
    cards = "".join(_card(words, size, one, locked, longest_px) for size, one in sizes.items())
    return (
        '<fieldset class="tpu-picker" aria-describedby="size-note">'
        f"<legend>{words('Size')}</legend>"
        f'<ul class="tpu-sizes">{cards}</ul>'
        f'<p class="tpu-note" id="size-note">{html.escape(note)}</p></fieldset>'
    )


def _card(
    words: Words, size: ImageSize, programs: SizeStatus, locked: bool, longest_px: int
) -> str:
    """Its size does not depend on what it says, so nothing jumps."""
    ready = programs.state is ProgramState.READY
    why_not = "" if ready or programs.unfit or not locked else words(LOCKED)
    shut = bool(programs.unfit or why_not)
    text = size_text(words, programs)
    lock = why_not and programs.state is not ProgramState.COMPILING
    said = words("{text}, locked", text=text) if lock else text
    hint = html.escape(
        " ".join(filter(None, [words("{size}: {text}.", size=size, text=text), why_not]))
    )
    done = 0.0
    if programs.state is ProgramState.COMPILING and programs.expected_s:
        done = min((programs.seconds or 0) / programs.expected_s, 0.98)
    known = "no" if programs.expected_s is None else "yes"
    width_px, height_px = (
        max(round(side_px * SHAPE_PX / longest_px), 4)
        for side_px in (size.width_px, size.height_px)
    )
    # A space before each part: it is read out as one sentence.
    return (
        f'<li data-state="{programs.state.value}" data-size="{size}" title="{hint}"'
        f"{' data-shut' if shut else ''}><label>"
        f'<input type="radio" name="tpu-size" value="{size}"{" disabled" if shut else ""}>'
        f'<span class="tpu-shape" aria-hidden="true"><i style="width:{width_px}px;'
        f'height:{height_px}px"></i></span>'
        f" <b>{size}</b> <span>{html.escape(said)}</span>"
        f'<i class="tpu-bar" data-known="{known}"><i style="width:{done * 100:.0f}%"></i></i>'
        "</label></li>"
    )
