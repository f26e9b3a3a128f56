"""What a caller may ask for. The one place where limits are enforced, whoever calls.

Knows the limits of a model as data (`Limits`); does not know where they come from, and nothing of
torch or Gradio. Nothing is rounded, clamped or replaced: what does not fit is refused.
"""

import math
import secrets
from dataclasses import dataclass, replace

from tpu_ui.errors import InvalidRequestError, ModeUnavailableError
from tpu_ui.shapes import ImageSize, Mode, shown

MAX_SEED = 2**32 - 1  # torch's CPU generator uses 32 bits of a seed; beyond them noise repeats
MAX_PROMPT_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True)
class IntegerRange:
    """Whole numbers from `minimum` to `maximum`, both included."""

    minimum: int
    maximum: int
    default: int


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Numbers from `minimum` to `maximum`, both included."""

    minimum: float
    maximum: float
    default: float


LORA_WEIGHT = NumberRange(-2.0, 2.0, 1.0)


@dataclass(frozen=True, slots=True)
class Style:
    """Words to put around a prompt: `prompt` holds "{prompt}" once, where it goes. `negative` is
    added to the negative prompt of a model that takes one."""

    name: str
    title: str
    prompt: str
    negative: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one model takes.

    `guidance_off` is the guidance scale at and below which the model runs without classifier-free
    guidance, and None for a model whose batch never depends on it. `unavailable_modes` holds the
    reason for each mode that cannot run here, `unavailable_sizes` for each size that cannot fit,
    `loras` the names of the LoRA files to choose from, `styles` what suits the model.
    """

    model: str
    sizes: tuple[ImageSize, ...]
    default_size: ImageSize
    steps: IntegerRange
    guidance: NumberRange
    guidance_off: float | None
    takes_negative_prompt: bool
    max_count: int
    default_mode: Mode
    modes: tuple[Mode, ...]
    unavailable_modes: tuple[tuple[Mode, str], ...] = ()
    loras: tuple[str, ...] = ()
    unavailable_sizes: tuple[tuple[ImageSize, str], ...] = ()
    styles: tuple[Style, ...] = ()

    @property
    def available_sizes(self) -> tuple[ImageSize, ...]:
        unavailable = dict(self.unavailable_sizes)
        return tuple(size for size in self.sizes if size not in unavailable)


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A valid request. Made by `validate` only. Images get the seeds seed, seed + 1, ...

    `prompt` and `negative_prompt` go to the model as they are. With `styles` they hold what those
    made of the texts that the caller wrote, which are in `unstyled_prompt` and
    `unstyled_negative_prompt`; without, these are None.
    """

    prompt: str
    negative_prompt: str
    model: str
    mode: Mode
    size: ImageSize
    steps: int
    guidance: float
    seed: int
    count: int
    lora: str | None = None
    lora_weight: float = 1.0
    styles: tuple[str, ...] = ()
    unstyled_prompt: str | None = None
    unstyled_negative_prompt: str | None = None

    @property
    def written(self) -> tuple[str, str]:
        """Prompt and negative prompt as the caller wrote them."""
        if not self.styles:
            return self.prompt, self.negative_prompt
        return self.unstyled_prompt or "", self.unstyled_negative_prompt or ""

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(range(self.seed, self.seed + self.count))


def validate(
    limits: Limits,
    *,
    prompt: object,
    negative_prompt: object = None,
    mode: object = None,
    size: object = None,
    steps: object = None,
    guidance: object = None,
    seed: object = None,
    count: object = None,
    lora: object = None,
    lora_weight: object = None,
    styles: object = None,
) -> GenerationRequest:
    """Check one request against a model's limits. None means "the model's default".

    `styles` are names of the model's styles, laid over the prompt one after another.

    A seed of None or -1 is drawn here, so that what is recorded is what ran.
    Raises InvalidRequestError with a message that says what would be right.
    """
    image_count = _integer("Number of images", count, 1, limits.max_count, 1)
    request = GenerationRequest(
        prompt=_prompt(prompt),
        negative_prompt=_negative_prompt(limits, negative_prompt),
        model=limits.model,
        mode=_mode(limits, mode),
        size=_size(limits, size),
        steps=_integer(
            "Steps", steps, limits.steps.minimum, limits.steps.maximum, limits.steps.default
        ),
        guidance=_number("Guidance scale", guidance, limits.guidance),
        seed=_seed(seed, image_count),
        count=image_count,
        lora=_lora(limits, lora),
        lora_weight=_number("LoRA weight", lora_weight, LORA_WEIGHT),
    )
    return _styled(limits, request, _styles(limits, styles))


def check_mode(limits: Limits, mode: object) -> Mode:
    """The mode meant by `mode`; None means the model's default. Raises InvalidRequestError."""
    return _mode(limits, mode)


def check_size(limits: Limits, size: object) -> ImageSize:
    """The size meant by `size`; None means the model's default. Raises InvalidRequestError."""
    return _size(limits, size)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidRequestError(f"{name} must be text, not {shown(value)}.")
    if len(value) > MAX_PROMPT_CHARACTERS:
        raise InvalidRequestError(
            f"{name} has {len(value):,} characters; at most {MAX_PROMPT_CHARACTERS:,} are taken."
        )
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidRequestError(f"{name} holds half a character (a lone surrogate); remove it.")
    return value


def _prompt(value: object) -> str:
    text = _text("The prompt", "" if value is None else value)
    if not text.strip():
        raise InvalidRequestError("The prompt is empty; say what the picture should show.")
    return text


def _negative_prompt(limits: Limits, value: object) -> str:
    text = _text("The negative prompt", "" if value is None else value)
    if text.strip() and not limits.takes_negative_prompt:
        raise InvalidRequestError(f"Model {limits.model} takes no negative prompt; leave it empty.")
    return text


def _mode(limits: Limits, value: object) -> Mode:
    if value is None or value == "":
        return limits.default_mode
    names = ", ".join(limits.modes)
    if not isinstance(value, str) or value not in list(Mode):
        raise InvalidRequestError(f"There is no mode {shown(value)}; the modes are {names}.")
    mode = Mode(value)
    for unavailable, reason in limits.unavailable_modes:
        if mode is unavailable:
            raise ModeUnavailableError(f"Mode {mode} cannot run here: {reason}. Use {names}.")
    if mode not in limits.modes:
        raise ModeUnavailableError(
            f"Model {limits.model} does not run in mode {mode}; use {names}."
        )
    return mode


def _size(limits: Limits, value: object) -> ImageSize:
    if value is None or value == "":
        return limits.default_size
    size = value if isinstance(value, ImageSize) else ImageSize.parse(value)
    names = ", ".join(map(str, limits.available_sizes)) or "none"
    if why := dict(limits.unavailable_sizes).get(size):
        raise InvalidRequestError(f"{size} does not fit on this chip: {why}. Use {names}.")
    if size not in limits.sizes:
        raise InvalidRequestError(f"Model {limits.model} has no size {size}; choose from {names}.")
    return size


def _integer(name: str, value: object, minimum: int, maximum: int, default: int) -> int:
    if value is None:
        return default
    whole = _whole(value)
    if whole is None or not minimum <= whole <= maximum:
        raise InvalidRequestError(
            f"{name} must be a whole number from {minimum} to {maximum}, not {shown(value)}."
        )
    return whole


def _whole(value: object) -> int | None:
    """The integer that `value` is; None if it is none. JSON callers send 20.0 for 20."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():  # NaN and infinity are not either
        return None
    return int(value)


def _number(name: str, value: object, limits: NumberRange) -> float:
    if value is None:
        return limits.default
    valid = isinstance(value, int | float) and not isinstance(value, bool)
    # An int beyond float's range compares correctly, so the range is checked before conversion.
    if not valid or not limits.minimum <= value <= limits.maximum:  # type: ignore[operator]
        raise InvalidRequestError(
            f"{name} must be a number from {limits.minimum:g} to {limits.maximum:g},"
            f" not {shown(value)}."
        )
    number = float(value)  # type: ignore[arg-type]
    assert math.isfinite(number)
    return number


def _lora(limits: Limits, value: object) -> str | None:
    if value is None or value == "":
        return None
    if not limits.loras:
        raise InvalidRequestError(f"Model {limits.model} has no LoRA; leave it empty.")
    if value not in limits.loras:
        names = ", ".join(limits.loras)
        raise InvalidRequestError(f"There is no LoRA {shown(value)}; choose from {names}.")
    return str(value)


def _styles(limits: Limits, value: object) -> tuple[Style, ...]:
    if value is None or value == "":
        return ()
    if not isinstance(value, list | tuple):
        raise InvalidRequestError(f"Styles must be a list of names, not {shown(value)}.")
    if value and not limits.styles:
        raise InvalidRequestError(f"No style suits model {limits.model}; leave them out.")
    known = {style.name: style for style in limits.styles}
    for name in value:
        if not isinstance(name, str) or name not in known:
            raise InvalidRequestError(
                f"Model {limits.model} has no style {shown(name)}; choose from {', '.join(known)}."
            )
        if value.count(name) > 1:
            raise InvalidRequestError(f"Style {name} is named twice.")
    return tuple(known[name] for name in value)


def _styled(
    limits: Limits, request: GenerationRequest, styles: tuple[Style, ...]
) -> GenerationRequest:
    if not styles:
        return request
    prompt, negatives = request.prompt, [request.negative_prompt]
    for style in styles:
        prompt = style.prompt.replace("{prompt}", prompt)
        negatives.append(style.negative if limits.takes_negative_prompt else "")
    negative = ", ".join(text for text in negatives if text.strip())
    return replace(
        request,
        prompt=_text("The prompt with its styles", prompt),
        negative_prompt=_text("The negative prompt with its styles", negative),
        styles=tuple(style.name for style in styles),
        unstyled_prompt=request.prompt,
        unstyled_negative_prompt=request.negative_prompt,
    )


def _seed(value: object, count: int) -> int:
    last = MAX_SEED - (count - 1)
    if value is None or _whole(value) == -1:
        return secrets.randbelow(last + 1)
    whole = _whole(value)
    if whole is None or not 0 <= whole <= last:
        raise InvalidRequestError(
            f"Seed must be a whole number from 0 to {last} for {count} image(s),"
            f" or -1 for a random one, not {shown(value)}."
        )
    return whole
