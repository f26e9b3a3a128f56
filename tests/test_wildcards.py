"""Choices in a prompt."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpu_ui.wildcards import CHOICE, draw


def test_every_choice_comes_up_and_the_rest_stays() -> None:
    drawn = {draw("a {red|green|} house, {one}", seed) for seed in range(60)}
    assert drawn == {f"a {colour} house, {{one}}" for colour in ("red", "green", "")}


def test_choices_are_independent_and_may_hold_choices() -> None:
    drawn = {draw("{a|b} {c|{d|e}}", seed) for seed in range(200)}
    assert drawn == {f"{one} {two}" for one in "ab" for two in "cde"}


@pytest.mark.parametrize("text", ["", "{", "}{", "{}", "{a}", "a|b", "{a|b", "a|b}"])
def test_what_is_no_choice_stays(text: str) -> None:
    assert draw(text, 1) == text


@given(st.text(alphabet="ab{}|", max_size=200), st.integers(0, 2**32 - 1))
def test_any_text_is_drawn_to_its_end_and_the_same_each_time(text: str, seed: int) -> None:
    drawn = draw(text, seed)
    assert drawn == draw(text, seed)
    assert CHOICE.search(drawn) is None
    assert len(drawn) <= len(text)


def test_a_prompt_that_means_to_be_slow_is_not() -> None:
    text = "{" + "a|" * 1_000 + "{|}" * 600
    began_s = time.process_time()
    draw(text, 1)
    assert time.process_time() - began_s < 1.0  # at the square of its length it took ten
