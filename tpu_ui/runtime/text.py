"""What a prompt is to the text encoders: how many tokens, and what they cut off."""

from collections.abc import Iterator
from typing import Any

from tpu_ui.presets import Preset
from tpu_ui.tokens import Reader, measured, together


def readers(pipeline: Any, preset: Preset) -> tuple[Reader, ...]:
    """The pipeline's tokenizers and limits, for the page to count with."""
    return tuple(
        Reader(encoder, limit, around, tokenizer.to_str())
        for encoder, tokenizer, limit, around in _tokenizers(pipeline, preset)
    )


def cut_notices(pipeline: Any, preset: Preset, prompt: str, what: str) -> list[str]:
    """A sentence for each limit that `prompt` goes beyond, with the encoders that have it.

    `what` names the text for people ("The prompt").
    """
    counts = together(
        (encoder, measured(tokenizer, limit, around, prompt))
        for encoder, tokenizer, limit, around in _tokenizers(pipeline, preset)
    )
    return [
        f"{what} is {count.used} tokens long; {' and '.join(count.encoders)} read only"
        f" {count.limit}. Not read: {_shortened(count.cut)!r}."
        for count in counts
        if count.used > count.limit
    ]


def _tokenizers(pipeline: Any, preset: Preset) -> Iterator[tuple[str, Any, int, int]]:
    """Each encoder, its tokenizer (of the library), its limit, and how much of that a text's frame
    takes.

    An encoder's tokenizer is found by diffusers' naming: `text_encoder_2` reads what `tokenizer_2`
    makes. Its limit is the preset's, or the tokenizer's own where that is smaller.
    """
    for encoder in preset.components.text_encoders:
        tokenizer = getattr(pipeline, encoder.replace("text_encoder", "tokenizer"), None)
        if tokenizer is None:
            continue
        tokenizer = getattr(tokenizer, "tokenizer", tokenizer)  # a processor has one
        limit = min(preset.text_tokens, tokenizer.model_max_length)
        around = tokenizer.num_special_tokens_to_add() + preset.template_tokens
        yield encoder, tokenizer.backend_tokenizer, limit, around


def _shortened(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:100]} ... {text[-16:]}"
