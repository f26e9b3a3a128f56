"""How many tokens a text is to each text encoder, and what of it is beyond what they read.

Worker and page count with this: the worker with the tokenizers of the pipeline, the page with
copies that the worker has sent. Knows the `tokenizers` library, and neither torch nor any model.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from tokenizers import Tokenizer

KEPT_TOKENIZERS = 6  # those of two models; a large one takes some 100 MB


@dataclass(frozen=True, slots=True)
class Reader:
    """One text encoder: reads at most `limit` tokens, `around` of which stand around any text.

    `tokenizer` is the tokenizer in JSON, as the `tokenizers` library writes it.
    """

    encoder: str
    limit: int
    around: int
    tokenizer: str


@dataclass(frozen=True, slots=True)
class Count:
    """A text of `used` tokens to these encoders, who read `limit`; `cut` is the rest of it."""

    encoders: tuple[str, ...]
    used: int
    limit: int
    cut: str


def count(readers: Iterable[Reader], text: str) -> tuple[Count, ...]:
    """What `text` is to each of the encoders; those to whom it is the same are told together."""
    return together(
        (one.encoder, measured(_parsed(one.tokenizer), one.limit, one.around, text))
        for one in readers
    )


def measured(tokenizer: Tokenizer, limit: int, around: int, text: str) -> tuple[int, int, str]:
    """Tokens used, the limit, and the part of `text` that is not read."""
    # Settings of the last call, which stay with the tokenizer.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    encoded = tokenizer.encode(text, add_special_tokens=False)
    used, room = len(encoded.ids) + around, max(limit - around, 0)
    if used <= limit:
        return used, limit, ""
    return used, limit, text[encoded.offsets[room][0] :].strip()


def together(measures: Iterable[tuple[str, tuple[int, int, str]]]) -> tuple[Count, ...]:
    """Encoders with equal measures in one."""
    encoders: dict[tuple[int, int, str], list[str]] = {}
    for encoder, measure in measures:
        encoders.setdefault(measure, []).append(encoder)
    return tuple(Count(tuple(names), *measure) for measure, names in encoders.items())


@lru_cache(maxsize=KEPT_TOKENIZERS)
def _parsed(tokenizer: str) -> Tokenizer:
    return Tokenizer.from_str(tokenizer)
