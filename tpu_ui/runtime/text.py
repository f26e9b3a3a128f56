"""What a prompt is to the text encoders: how many tokens, and what they cut off."""

from typing import Any

from tpu_ui.presets import Preset


def cut_notices(pipeline: Any, preset: Preset, prompt: str, what: str) -> list[str]:
    """A sentence for each limit that `prompt` goes beyond, with the encoders that have it.

    `what` names the text for people ("The prompt"). An encoder's tokenizer is found by diffusers'
    naming: `text_encoder_2` reads what `tokenizer_2` makes. Its limit is the preset's, or the
    tokenizer's own where that is smaller.
    """
    encoders: dict[tuple[int, int, str], list[str]] = {}
    for encoder in preset.components.text_encoders:
        tokenizer = getattr(pipeline, encoder.replace("text_encoder", "tokenizer"), None)
        if tokenizer is None:
            continue
        limit = min(preset.text_tokens, tokenizer.model_max_length)
        plain = {"add_special_tokens": False, "truncation": False, "verbose": False}
        tokens = tokenizer(prompt, **plain)["input_ids"]
        around = tokenizer.num_special_tokens_to_add() + preset.template_tokens
        length = len(tokens) + around
        if length <= limit:
            continue
        cut = tokenizer.decode(tokens[limit - around :]).strip()
        encoders.setdefault((length, limit, cut), []).append(encoder)
    return [
        f"{what} is {length} tokens long; {' and '.join(names)} read only {limit}."
        f" Not read: {_shortened(cut)!r}."
        for (length, limit, cut), names in encoders.items()
    ]


def _shortened(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:100]} ... {text[-16:]}"
