"""Which language a page is in, by what Gradio tells of the browser that asks."""

import gradio as gr

from tpu_ui.ui.words import ENGLISH, Words, words_for


def words_of(visit: gr.Request | None) -> Words:
    """The visitor's words; English where nobody is known to ask."""
    return ENGLISH if visit is None else words_for(visit.headers.get("accept-language"))
