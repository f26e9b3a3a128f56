"""The line under the prompt: how many tokens it is to each text encoder, and what is not read.

Counts in this process, so that it works while the worker compiles. Says nothing of a model that has
not been loaded yet: its tokenizers are not here.
"""

import html

import gradio as gr

from tpu_ui.dispatch.interface import Dispatcher
from tpu_ui.errors import InvalidRequestError
from tpu_ui.request import validate
from tpu_ui.tokens import Count, count
from tpu_ui.ui.form import limits_of
from tpu_ui.ui.language import words_of
from tpu_ui.ui.words import Words
from tpu_ui.wildcards import longest

NOTHING = '<p class="tpu-tokens"></p>'

# What the browser does before it asks: a pause, in which only the last of many changes is kept.
PAUSE = "(...values) => new Promise((go) => setTimeout(() => go(values), 250))"


class Counter:
    """The handler, bound to a dispatcher and to nothing else."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def tokens(
        self, visit: gr.Request | None, prompt: object, styles: object, model: object
    ) -> str:
        """The line for a prompt with its styles; of choices in it the longest ones count."""
        try:
            limits = limits_of(self._dispatcher, model)
            request = validate(limits, prompt=prompt, styles=styles)
            written = longest(request.written[0])
            request = validate(limits, prompt=written, styles=styles)
        except InvalidRequestError:  # said when the picture is asked for
            return NOTHING
        counts = count(self._dispatcher.readers(limits.model), request.prompt)
        return tokens_html(words_of(visit), counts, at_most=written != prompt)


def tokens_html(words: Words, counts: tuple[Count, ...], at_most: bool = False) -> str:
    """ "12 of 77 tokens", and what is beyond."""
    if not counts:
        return NOTHING
    named = len(counts) > 1
    text = " · ".join(_told(words, one, named) for one in counts)
    if at_most:
        text = words("At most {tokens}", tokens=text)
    cut = [one for one in counts if one.used > one.limit]
    if not cut:
        return f'<p class="tpu-tokens">{html.escape(text)}</p>'
    missing = " · ".join(dict.fromkeys(one.cut for one in cut))
    said = html.escape(words("{tokens}. Not read: {cut}", tokens=text, cut=missing))
    return f'<p class="tpu-tokens" data-kind="cut" title="{said}">{said}</p>'


def _told(words: Words, one: Count, named: bool) -> str:
    if not named:
        return words("{used} of {limit} tokens", used=one.used, limit=one.limit)
    return words(
        "{used} of {limit} tokens ({encoders})",
        used=one.used,
        limit=one.limit,
        encoders=", ".join(one.encoders),
    )
