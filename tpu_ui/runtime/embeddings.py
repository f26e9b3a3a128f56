"""The embeddings of recent prompts, so that another seed of a prompt runs no text encoder.

Exact: every input of `encode_prompt` is in the key. An input that cannot be compared by value (a
tensor, say) is encoded anew each time.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import torch

# FLUX.1's text is 4 MiB a prompt (512 tokens of 4096 values in bfloat16), and twice with guidance.
KEPT = 32


class RecentEmbeddings:
    """What `encode_prompt` gave for the last `limit` different inputs. For one thread."""

    def __init__(self, limit: int = KEPT) -> None:
        self._limit = limit
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def encode(self, scope: Hashable, encode: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """`encode(*args, **kwargs)`, or what it gave before in the same `scope`."""
        try:
            key = (scope, _frozen(args), _frozen(kwargs))
        except _NotComparable:
            return encode(*args, **kwargs)
        if key not in self._kept:
            self._kept[key] = encode(*args, **kwargs)
            if len(self._kept) > self._limit:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


class _NotComparable(Exception):
    """A value with no form that could stand in a key."""


def _frozen(value: Any) -> Hashable:
    """A form of `value` that is equal only for equal values of the same type."""
    if value is None or isinstance(value, str | int | float | bool | torch.device | torch.dtype):
        return type(value).__name__, value
    if isinstance(value, list | tuple):
        return type(value).__name__, tuple(_frozen(one) for one in value)
    if isinstance(value, dict):
        return "dict", tuple((name, _frozen(value[name])) for name in sorted(value))
    raise _NotComparable
