"""How failures are said, and who hears the details."""

import logging

import gradio as gr
import pytest

from tpu_ui.errors import LockedError
from tpu_ui.ui.failures import MAX_MESSAGE_CHARACTERS, UNEXPECTED, said_plainly


def test_our_own_errors_are_passed_on_and_escaped_for_the_page_only() -> None:
    with pytest.raises(gr.Error) as page, said_plainly(escape=True):
        raise LockedError("<b> is not ready")
    with pytest.raises(gr.Error) as api, said_plainly(escape=False):
        raise LockedError("<b> is not ready")
    assert page.value.message == "&lt;b&gt; is not ready"
    assert api.value.message == "<b> is not ready"


def test_an_unexpected_error_is_logged_in_full_and_told_without_details(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR)
    with pytest.raises(gr.Error) as caught, said_plainly(escape=True):
        raise RuntimeError("a secret path")
    assert caught.value.message == UNEXPECTED
    assert "a secret path" in caplog.text


def test_a_long_message_is_cut() -> None:
    with pytest.raises(gr.Error) as caught, said_plainly(escape=False):
        raise LockedError("x" * 10_000)
    assert len(caught.value.message) == MAX_MESSAGE_CHARACTERS


def test_a_closed_generator_is_not_an_error() -> None:
    with pytest.raises(GeneratorExit), said_plainly(escape=True):
        raise GeneratorExit
