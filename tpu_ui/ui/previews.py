"""How a picture looks on its way, as HTML that lies where the picture will be. No Gradio.

Of a job's first picture it covers the place; later ones are small in a corner, since the pictures
before them are there to be looked at.
"""

import base64

from tpu_ui.ui.words import Words

NOTHING = ""


def preview_html(words: Words, jpeg: bytes, image: int, done: bool = False) -> str:
    """A preview of image number `image` (from 1). `done`: it gives way to the picture itself."""
    if not jpeg:
        return NOTHING
    place = "whole" if image == 1 else "corner"
    data = base64.b64encode(jpeg).decode()
    # `sync`: the one before stays until this one can be painted.
    return (
        f'<div class="tpu-preview" data-place="{place}" data-done="{"yes" if done else "no"}">'
        f'<img src="data:image/jpeg;base64,{data}" alt="{words("Preview")}" decoding="sync"></div>'
    )
