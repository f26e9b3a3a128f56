"""The embeddings of recent prompts, so that another seed of a prompt runs no text encoder.

Exact: every input of `encode_prompt` is in the key. An input that cannot be compared by value (a
tensor, say) is encoded anew each time.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tpu_ui.runtime.inputs import NotComparableError, frozen

# FLUX.1's text is 4 MiB a prompt (512 tokens of 4096 values in bfloat16), and twice with guidance.
KEPT = 32


class RecentEmbeddings:
    """What `encode_prompt` gave for the last `limit` different inputs. For one thread."""

    def __init__(self, limit: int = KEPT) -> None:
        self._limit = limit
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def size_bytes(self) -> int:
        """What the tensors among it take."""
        kept = pytree.tree_leaves(list(self._kept.values()))
        return sum(one.numel() * one.itemsize for one in kept if isinstance(one, torch.Tensor))

    def encode(self, scope: Hashable, encode: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """`encode(*args, **kwargs)`, or what it gave before in the same `scope`."""
        try:
            key = (scope, frozen(args), frozen(kwargs))
        except NotComparableError:
            return encode(*args, **kwargs)
        if key not in self._kept:
            self._kept[key] = encode(*args, **kwargs)
            if len(self._kept) > self._limit:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]
