"""Claims about what a caller may ask for: whatever does not fit is refused, nothing is mended."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpu_ui.errors import InvalidRequestError, ModeUnavailableError
from tpu_ui.request import (
    MAX_PROMPT_CHARACTERS,
    MAX_SEED,
    GenerationRequest,
    IntegerRange,
    Limits,
    NumberRange,
    check_mode,
    check_size,
    validate,
)
from tpu_ui.shapes import ImageSize, Mode

SQUARE = ImageSize(256, 256)
WIDE = ImageSize(320, 192)
LIMITS = Limits(
    model="demo",
    sizes=(SQUARE, WIDE),
    default_size=SQUARE,
    steps=IntegerRange(1, 30, 16),
    guidance=NumberRange(1.0, 8.0, 4.0),
    guidance_off=1.0,
    takes_negative_prompt=True,
    max_count=4,
    default_mode=Mode.COMPILED,
    modes=(Mode.EAGER, Mode.COMPILED),
    unavailable_modes=((Mode.FUSED, "it is a test"),),
)
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.sampled_from(["256x256", "compiled", 1, 4.0, 20.0, -1]),
)


def ask(**wishes: Any) -> GenerationRequest:
    return validate(LIMITS, **{"prompt": "a hill", "seed": 1, **wishes})


def refused(**wishes: Any) -> str:
    """The message that a request is refused with."""
    with pytest.raises(InvalidRequestError) as caught:
        ask(**wishes)
    return str(caught.value)


def test_prompt_alone_gets_the_model_s_defaults() -> None:
    request = validate(LIMITS, prompt="a hill")
    assert request == GenerationRequest(
        prompt="a hill",
        negative_prompt="",
        model="demo",
        mode=Mode.COMPILED,
        size=SQUARE,
        steps=16,
        guidance=4.0,
        seed=request.seed,
        count=1,
    )


def test_every_wish_is_kept() -> None:
    request = ask(
        negative_prompt="fog", mode="eager", size="320x192", steps=30, guidance=8, seed=5, count=4
    )
    assert request == GenerationRequest("a hill", "fog", "demo", Mode.EAGER, WIDE, 30, 8.0, 5, 4)
    assert request.seeds == (5, 6, 7, 8)
    assert type(request.guidance) is float


@pytest.mark.parametrize("steps", [1, 30, 20.0])
def test_whole_steps_in_range_are_taken(steps: object) -> None:
    request = ask(steps=steps)
    assert request.steps == steps
    assert type(request.steps) is int


@pytest.mark.parametrize(
    "steps", [0, 31, -1, 1.5, math.nan, math.inf, -math.inf, True, False, "20", "", [20], 10**400]
)
def test_any_other_steps_are_refused_with_the_range(steps: object) -> None:
    assert "Steps must be a whole number from 1 to 30" in refused(steps=steps)


@pytest.mark.parametrize(
    "guidance", [0.99, 8.01, math.nan, math.inf, True, "4", "", [4.0], 10**400, -(10**400), 1j]
)
def test_any_other_guidance_is_refused_with_the_range(guidance: object) -> None:
    assert "Guidance scale must be a number from 1 to 8" in refused(guidance=guidance)


@pytest.mark.parametrize("guidance", [1, 1.0, 8, 4.25])
def test_guidance_in_range_is_kept_to_the_digit(guidance: float) -> None:
    assert ask(guidance=guidance).guidance == guidance


@pytest.mark.parametrize("seed", [2**64, 2**32, -2, 1.5, math.nan, math.inf, True, "7", "", [7]])
def test_any_other_seed_is_refused_with_the_range(seed: object) -> None:
    assert f"Seed must be a whole number from 0 to {MAX_SEED}" in refused(seed=seed)


def test_seeds_of_all_images_stay_in_range() -> None:
    assert ask(seed=MAX_SEED).seeds == (MAX_SEED,)
    assert ask(seed=MAX_SEED - 3, count=4).seeds[-1] == MAX_SEED
    assert f"from 0 to {MAX_SEED - 3} for 4 image(s)" in refused(seed=MAX_SEED - 2, count=4)


@pytest.mark.parametrize("seed", [None, -1, -1.0])
def test_random_seed_is_drawn_here(seed: object) -> None:
    seeds = {ask(seed=seed).seed for _ in range(20)}
    assert len(seeds) > 15
    assert all(0 <= one <= MAX_SEED for one in seeds)


@pytest.mark.parametrize("count", [0, 5, -1, 1.5, True, "2", math.nan])
def test_any_other_count_is_refused_with_the_range(count: object) -> None:
    assert "Number of images must be a whole number from 1 to 4" in refused(count=count)


@pytest.mark.parametrize("size", ["1080x1080", "192x320", ImageSize(8, 8)])
def test_size_the_model_lacks_is_refused_with_those_it_has(size: object) -> None:
    assert refused(size=size) == f"Model demo has no size {size}; choose from 256x256, 320x192."


@pytest.mark.parametrize("size", ["big", 256, (256, 256), "256X256"])
def test_what_is_no_size_is_refused(size: object) -> None:
    assert "is not a size" in refused(size=size)


@pytest.mark.parametrize("mode", ["fast", "Compiled", "COMPILED", 1, True, ["eager"]])
def test_mode_that_does_not_exist_is_refused_with_those_that_do(mode: object) -> None:
    assert "the modes are eager, compiled" in refused(mode=mode)


def test_mode_that_cannot_run_here_is_refused_with_its_reason() -> None:
    with pytest.raises(ModeUnavailableError, match=r"cannot run here: it is a test\. Use eager"):
        ask(mode="fused")
    with pytest.raises(ModeUnavailableError, match="does not run in mode fused"):
        check_mode(replace(LIMITS, unavailable_modes=()), "fused")


@pytest.mark.parametrize("prompt", ["", " ", "\n\t", None, "\u2003"])
def test_empty_prompt_is_refused(prompt: object) -> None:
    assert "The prompt is empty" in refused(prompt=prompt)


@pytest.mark.parametrize("prompt", [7, True, ["a"], b"a", {"text": "a"}])
def test_prompt_that_is_no_text_is_refused(prompt: object) -> None:
    assert "The prompt must be text" in refused(prompt=prompt)


def test_prompt_is_kept_to_the_letter() -> None:
    assert ask(prompt="  a\thill \0 ").prompt == "  a\thill \0 "


def test_long_prompt_is_refused_with_its_length() -> None:
    assert ask(prompt="x" * MAX_PROMPT_CHARACTERS)
    message = refused(prompt="x" * 10_000)
    assert message == "The prompt has 10,000 characters; at most 4,000 are taken."
    assert "The negative prompt has 10,000" in refused(negative_prompt="x" * 10_000)


def test_model_without_negative_prompts_refuses_one() -> None:
    limits = replace(LIMITS, takes_negative_prompt=False)
    with pytest.raises(InvalidRequestError, match="takes no negative prompt"):
        validate(limits, prompt="a", negative_prompt="fog")
    assert validate(limits, prompt="a", negative_prompt="").negative_prompt == ""


def test_messages_stay_short_whatever_comes() -> None:
    for name in ("mode", "size", "steps", "guidance", "seed", "count"):
        assert len(refused(**{name: "x" * 100_000})) < 200


@given(
    st.fixed_dictionaries(
        dict.fromkeys(
            ("prompt", "negative_prompt", "mode", "size", "steps", "guidance", "seed", "count"),
            ANYTHING,
        )
    )
)
def test_anything_at_all_is_refused_or_valid(wishes: dict[str, Any]) -> None:
    try:
        request = ask(**wishes)
    except InvalidRequestError:
        return
    assert request.size in LIMITS.sizes
    assert request.mode in LIMITS.modes
    assert 1 <= request.steps <= 30
    assert 1.0 <= request.guidance <= 8.0
    assert 1 <= request.count <= 4
    assert all(0 <= seed <= MAX_SEED for seed in request.seeds)
    again = validate(
        LIMITS,
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        mode=request.mode,
        size=request.size,
        steps=request.steps,
        guidance=request.guidance,
        seed=request.seed,
        count=request.count,
    )
    assert again == request


def test_default_size_and_mode_stand_for_nothing_given() -> None:
    assert check_size(LIMITS, None) == SQUARE
    assert check_mode(LIMITS, "") is Mode.COMPILED


def test_half_a_character_is_refused() -> None:
    assert "surrogate" in refused(prompt="\ud800 house")
    assert "surrogate" in refused(negative_prompt="fog \udfff")


def test_lora_is_one_of_the_models_own() -> None:
    assert "has no LoRA" in refused(lora="ink")
    limits = replace(LIMITS, loras=("ink", "oil"))
    asked = validate(limits, prompt="a hill", lora="oil", lora_weight=0.5)
    assert (asked.lora, asked.lora_weight) == ("oil", 0.5)
    assert validate(limits, prompt="a hill", lora="").lora is None
    with pytest.raises(InvalidRequestError, match="choose from ink, oil"):
        validate(limits, prompt="a hill", lora="tar")
    for weight in (2.1, math.nan, "1", True):
        with pytest.raises(InvalidRequestError, match="LoRA weight must be a number from -2 to 2"):
            validate(limits, prompt="a hill", lora="ink", lora_weight=weight)
