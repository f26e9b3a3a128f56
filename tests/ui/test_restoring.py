"""Claims about a picture's settings on their way back into the form."""

from typing import Any

from tests.conftest import Served
from tpu_ui.request import validate
from tpu_ui.ui.restoring import restored
from tpu_ui.ui.words import ENGLISH


def info_of(server: Served, **wishes: Any) -> dict[str, Any]:
    request = validate(server.dispatcher.limits("demo"), **{"prompt": "a boat", **wishes})
    return {
        "model": "demo",
        "prompt": request.prompt,
        "negative_prompt": request.negative_prompt,
        "seed": request.seed,
        "styles": list(request.styles),
        "unstyled_prompt": request.unstyled_prompt,
        "unstyled_negative_prompt": request.unstyled_negative_prompt,
    }


def test_styles_and_the_prompt_as_written_come_back(server: Served) -> None:
    info = info_of(server, negative_prompt="fog", styles=["night"])
    request, lost = restored(ENGLISH, server.dispatcher, info, "demo")
    assert (request.written, request.styles, lost) == (("a boat", "fog"), ("night",), [])
    assert (request.prompt, request.negative_prompt) == (info["prompt"], "fog, noon")


def test_style_that_is_gone_or_says_something_else_leaves_its_words_in_the_prompt(
    server: Served,
) -> None:
    info = info_of(server, styles=["night"])
    for change in (
        {"styles": ["gone"]},
        {"styles": "night"},
        {"styles": 3},
        {"unstyled_prompt": "a house"},
        {"unstyled_prompt": None},
    ):
        request, lost = restored(ENGLISH, server.dispatcher, {**info, **change}, "demo")
        assert (request.prompt, request.styles) == ("a boat under a starry sky", ())
        assert lost == ["styles (their words are in the prompt)"]


def test_what_differs_in_a_grid_is_told(server: Served) -> None:
    info = {**info_of(server), "axes": {"steps": [4, 8]}, "cells": []}
    assert restored(ENGLISH, server.dispatcher, info, "demo")[1] == [
        "steps (the picture has several)"
    ]
