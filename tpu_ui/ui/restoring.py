"""Settings of a picture on their way back into the form: what can be had here, and what cannot."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tpu_ui.dispatch.interface import Dispatcher
from tpu_ui.errors import InvalidRequestError, MetadataError
from tpu_ui.metadata import read_png
from tpu_ui.outside import can_be_sent
from tpu_ui.request import GenerationRequest, Limits, validate
from tpu_ui.shapes import shown
from tpu_ui.ui.words import Words

TITLES = {
    "negative_prompt": "negative prompt",
    "mode": "mode",
    "size": "size",
    "steps": "steps",
    "guidance": "guidance scale",
    "seed": "seed",
    "lora": "LoRA",
    "lora_weight": "LoRA weight",
}
# Says where a picture is from, and changes nothing.
TELLS_NOTHING = ("Version", "Model hash", "VAE hash", "Lora hashes", "Hashes")


def settings_in(path: Path) -> dict[str, Any]:
    """What made the picture in a file that somebody brought. Raises MetadataError."""
    info = read_png(path)
    if not can_be_sent(info):
        raise MetadataError("The settings in the picture are damaged.")
    return info


def restored(
    words: Words, dispatcher: Dispatcher, info: Mapping[str, Any], model: str
) -> tuple[GenerationRequest, list[str]]:
    """The request that comes nearest to what made the picture, and what of that is not to be had.

    `info` came out of a file: nothing in it is trusted. Where its model is not here, `model` is
    asked. What cannot be had is the model's default. Raises InvalidRequestError for the prompt.
    """
    lost = []
    named = info.get("model")
    if isinstance(named, str) and named in dispatcher.presets:
        model = named
    elif named is not None:
        lost.append(words("{name} {value}", name=words("model"), value=_short(named)))
    limits = dispatcher.limits(model)
    right: dict[str, Any] = {}
    for name in TITLES:
        value = info.get(name)
        try:
            validate(limits, prompt="any", **{name: value})
            right[name] = value
        except InvalidRequestError:
            lost.append(words("{name} {value}", name=words(TITLES[name]), value=_short(value)))
    axes = info.get("axes")  # of a comparison's grid, in which these differ from cell to cell
    for axis in axes if isinstance(axes, Mapping) else ():
        name = words(TITLES[axis]) if axis in TITLES else _short(axis)
        lost.append(words("{name} (the picture has several)", name=name))
    others = info.get("others")
    if isinstance(others, Mapping):
        if info.get("scheduler"):
            value = _short(info["scheduler"])
            lost.append(words("{name} {value}", name=words("sampler"), value=value))
        lost += [_short(name) for name in others if name not in TELLS_NOTHING]
    request = validate(limits, prompt=info.get("prompt"), **right)
    if not info.get("styles"):
        return request, lost
    styled = _with_styles(limits, info, right)
    if styled is not None and (styled.prompt, styled.negative_prompt) == request.written:
        return styled, lost
    return request, [*lost, words("styles (their words are in the prompt)")]


def _with_styles(
    limits: Limits, info: Mapping[str, Any], right: Mapping[str, Any]
) -> GenerationRequest | None:
    """The request as it was written, with its styles; None where they are not to be had here."""
    texts = {
        "prompt": info.get("unstyled_prompt"),
        "negative_prompt": info.get("unstyled_negative_prompt"),
    }
    try:
        return validate(limits, **{**right, **texts, "styles": info["styles"]})
    except InvalidRequestError:
        return None


def _short(value: object) -> str:
    text = " ".join((value if isinstance(value, str) else shown(value)).split())
    return text if len(text) <= 40 else f"{text[:37]}..."
