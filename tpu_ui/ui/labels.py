"""Labels of components, which the visitor's browser puts in place through Gradio's I18n.

What Gradio finds in a component's label, info, placeholder, title or value it translates before it
is ever shown. What changes while the page is open is translated on the server, by `words.py`.
"""

import gradio as gr
from gradio.i18n import I18nData

from tpu_ui.ui.words import LANGUAGES, catalogue

EMPTY = "The picture appears here."


def label(english: str) -> I18nData:
    """A mark for the browser, in place of which it puts the words of its language."""
    return I18nData(_key(english))


def i18n() -> gr.I18n:
    """For `launch`: every label in every language but English, in which a label is its own key."""
    english = {_key(one): one for one in catalogue(LANGUAGES[0]).labels if _key(one) != one}
    others = {
        language: {_key(one): text for one, text in catalogue(language).labels.items()}
        for language in LANGUAGES
    }
    return gr.I18n(en=english, **others)


def style() -> str:
    """What the style sheet says, in every language. The page's is in its `lang`, set by Gradio."""
    texts = {"": EMPTY} | {f":lang({one})": catalogue(one).labels[EMPTY] for one in LANGUAGES}
    return "\n".join(
        f'.gradio-container{where} #pictures .empty::after {{ content: "{text}"; }}'
        for where, text in texts.items()
    )


def _key(english: str) -> str:
    """Gradio's mark ends at the first brace that closes, so a key has none."""
    return english.replace("{", "(").replace("}", ")")
