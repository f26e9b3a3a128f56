"""Claims about styles: a wrong file stops the start, and what they make of a prompt is recorded."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_request import LIMITS
from tpu_ui.errors import InvalidRequestError, PresetError
from tpu_ui.presets import load_all
from tpu_ui.request import MAX_PROMPT_CHARACTERS, Style, validate
from tpu_ui.shapes import Device
from tpu_ui.styles import load

INK = Style("ink", "Ink", "ink drawing of {prompt}, black on white", "colour")
FOG = Style("fog", "Fog", "{prompt} in fog")
STYLED = replace(LIMITS, styles=(INK, FOG))
GOOD = """
[[styles]]
name = "ink"
title = "Ink"
prompt = "ink drawing of {prompt}"
negative = "colour"
"""
SHIPPED = load_all()


def test_words_go_around_the_prompt_in_the_order_asked_for() -> None:
    request = validate(STYLED, prompt="a hill", negative_prompt="sea", styles=["ink", "fog"])
    assert request.prompt == "ink drawing of a hill, black on white in fog"
    assert request.negative_prompt == "sea, colour"
    assert request.styles == ("ink", "fog")
    assert request.written == ("a hill", "sea")
    turned = validate(STYLED, prompt="a hill", styles=["fog", "ink"])
    assert turned.prompt == "ink drawing of a hill in fog, black on white"


def test_prompt_without_styles_is_what_was_written() -> None:
    request = validate(STYLED, prompt="a {prompt}", negative_prompt="sea", styles=[])
    assert (request.prompt, request.negative_prompt) == request.written == ("a {prompt}", "sea")
    assert (request.styles, request.unstyled_prompt) == ((), None)


@given(st.text(min_size=1, max_size=40).filter(lambda text: text.strip()))
def test_whatever_is_written_stands_in_the_prompt_once(text: str) -> None:
    request = validate(STYLED, prompt=text, styles=["fog", "ink"])
    assert request.prompt == f"ink drawing of {text} in fog, black on white"


def test_model_without_negative_prompts_gets_none_from_a_style() -> None:
    limits = replace(STYLED, takes_negative_prompt=False)
    assert validate(limits, prompt="a hill", styles=["ink"]).negative_prompt == ""


@pytest.mark.parametrize(
    ("styles", "words"),
    [
        (["noir"], "'noir'; choose from ink, fog"),
        ("ink", "must be a list"),
        ([3], "has no style 3"),
        ([["ink"]], "has no style"),
        (["ink", "ink"], "named twice"),
        ({"ink": 1}, "must be a list"),
    ],
)
def test_style_that_is_not_there_is_refused(styles: object, words: str) -> None:
    with pytest.raises(InvalidRequestError, match=re.escape(words)):
        validate(STYLED, prompt="a hill", styles=styles)


def test_styles_for_a_model_that_has_none_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="No style suits model demo"):
        validate(LIMITS, prompt="a hill", styles=["ink"])


def test_prompt_that_styles_make_too_long_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="with its styles"):
        validate(STYLED, prompt="x" * MAX_PROMPT_CHARACTERS, styles=["ink"])


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('title = "Ink"', "", "styles.0.title: "),
        ('title = "Ink"', 'title = "Ink"\ncolour = 3', "styles.0.colour: there is no such field"),
        ('name = "ink"', 'name = "Ink!"', "styles.0.name: "),
        ("of {prompt}", "of it", "styles.0.prompt: .*once"),
        ("of {prompt}", "of {prompt} {prompt}", "styles.0.prompt: .*once"),
        ("of {prompt}", "of {prompt} {red|blue}", "styles.0.prompt: .*no {"),
        ('negative = "colour"', 'negative = "{prompt}"', "styles.0.negative: "),
        ('negative = "colour"', "negative = 3", "styles.0.negative: "),
        ('negative = "colour"', 'suits = ["nobody"]', "styles.0.suits: .*'nobody'"),
        ('negative = "colour"', 'suits = ["demo"]\nunsuited = ["sdxl"]', "styles.0: .*both"),
        ('negative = "colour"', GOOD, "styles: .*twice"),
        ("[[styles]]", "[styles]", "styles: "),
        ("[[styles]]", "[[style", "not valid TOML"),
    ],
)
def test_wrong_field_is_named_with_its_file(tmp_path: Path, old: str, new: str, field: str) -> None:
    assert old in GOOD
    path = tmp_path / "styles.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(PresetError) as caught:
        load(("demo", "sdxl"), path)
    assert re.match(rf"styles\.toml: .*{field}", str(caught.value)), str(caught.value)


def test_each_style_is_offered_to_the_models_it_suits(tmp_path: Path) -> None:
    path = tmp_path / "styles.toml"
    other = GOOD.replace("ink", "night").replace('negative = "colour"', 'suits = ["demo"]')
    path.write_text(GOOD.replace('negative = "colour"', 'unsuited = ["demo"]') + other)
    offered = load(("demo", "sdxl"), path)
    assert {model: [one.name for one in styles] for model, styles in offered.items()} == {
        "demo": ["night"],
        "sdxl": ["ink"],
    }


@pytest.mark.parametrize("model", SHIPPED)
def test_every_model_has_styles_and_all_of_its_examples_go_with_each(model: str) -> None:
    limits = replace(SHIPPED[model].limits(Device.TPU), styles=load(SHIPPED)[model])
    assert limits.styles
    for style in limits.styles:
        for example in SHIPPED[model].examples:
            assert validate(limits, prompt=example, styles=[style.name]).styles == (style.name,)


def test_demo_model_knows_the_words_of_its_styles() -> None:
    from demo_model.captions import Wanted, parse

    for style in load(SHIPPED)["demo"]:
        plain, styled = parse("a red house"), parse(style.prompt.format(prompt="a red house"))
        assert styled.groups == plain.groups
        assert styled != plain, f"{style.name} says nothing to the model"
        assert parse(style.negative) != Wanted(), f"{style.name} keeps nothing out"
