"""How a failure reaches the person who asked. Knows Gradio's error, and nothing of what failed.

Gradio shows an error's text as HTML in the page and passes it on as it is to API callers, so the
two doors escape differently.
"""

import html
import logging
from contextlib import AbstractContextManager
from types import TracebackType

import gradio as gr

from tpu_ui.errors import TpuUiError
from tpu_ui.ui.words import ENGLISH, Words

MAX_MESSAGE_CHARACTERS = 600
UNEXPECTED = "Something went wrong in the app itself. Its log says what; please try again."

_log = logging.getLogger(__name__)


class said_plainly(AbstractContextManager[None]):
    """Turns every exception of its block into a gr.Error with one sentence and no traceback.

    A TpuUiError is a sentence for people already. Anything else is a fault of ours: it is logged
    in full and reported without its details, which may hold paths or other people's input.
    """

    def __init__(self, words: Words = ENGLISH, *, escape: bool) -> None:
        self._words = words
        self._escape = escape

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, gr.Error):
            return
        if not isinstance(error, TpuUiError):
            _log.error("A handler failed.", exc_info=error)
        raise as_gradio_error(error, self._words, escape=self._escape) from None


def as_gradio_error(error: Exception, words: Words = ENGLISH, *, escape: bool) -> gr.Error:
    """The gr.Error that says what `error` says."""
    known = isinstance(error, TpuUiError)
    text = words.sentence(str(error)) if known else words(UNEXPECTED)
    if len(text) > MAX_MESSAGE_CHARACTERS:
        text = text[: MAX_MESSAGE_CHARACTERS - 3] + "..."
    if escape:
        return gr.Error(html.escape(text), title=words("Error"), print_exception=False)
    # For programs, which can tell by it what to do.
    title = type(error).__name__ if known else "Error"
    return gr.Error(text, title=title, print_exception=False)
