"""Captions of one length for a transformer that takes a list of them (Z-Image's).

Its pipeline gives each caption as long as it is, and the transformer fills it up to a multiple of
32 with a learned token, so that every length is other programs. Here captions come filled up to one
length, with one value more for each token that says whether it is real; the transformer attends to
what it would have attended to, at the positions it would have had. The picture is the same.
"""

from typing import Any

import torch
from torch.nn.functional import pad

MULTIPLE = 32  # diffusers' SEQ_MULTI_OF for these transformers


def flagged(captions: list[torch.Tensor], tokens: int) -> list[torch.Tensor]:
    """Captions (tokens x features) of `tokens` tokens, with a last feature: 1 where one is real."""

    def filled(caption: torch.Tensor) -> torch.Tensor:
        return pad(pad(caption, (0, 1), value=1.0), (0, 0, 0, tokens - len(caption)))

    return [filled(caption) for caption in captions]


def take_flagged(transformer: Any, device: torch.device) -> None:
    """Have the transformer take `flagged` captions. Their length is a multiple of MULTIPLE.

    Its table of positions is made here: made at the first call, on the host, it cannot be traced.
    """
    rope = transformer.rope_embedder
    tables = rope.precompute_freqs_cis(rope.axes_dims, rope.axes_lens, theta=rope.theta)
    rope.freqs_cis = [table.to(device) for table in tables]
    kind = type(transformer)
    methods = {name: method for name, method in vars(_Flagged).items() if not name.startswith("__")}
    transformer.__class__ = type(kind.__name__, (kind,), {**methods, "_kind": kind})


class _Flagged:
    """Methods that stand before the transformer's own (diffusers 0.42.1), in its basic mode."""

    _kind: Any
    cap_pad_token: torch.Tensor
    _attended: list[torch.Tensor]

    def patchify_and_embed(self, images: Any, captions: Any, *sizes: Any) -> Any:
        """Positions of images begin after what of the caption is attended to."""
        bare = [caption[:, :-1] for caption in captions]
        images, bare, image_sizes, image_ids, caption_ids, image_pads, _ = (
            self._kind.patchify_and_embed(self, images, bare, *sizes)
        )
        real = [caption[:, -1] > 0.5 for caption in captions]
        self._attended, ids_now = [], []
        for flags, ids, pads in zip(real, image_ids, image_pads, strict=True):
            length = (flags.sum() + MULTIPLE - 1) // MULTIPLE * MULTIPLE
            numbers = torch.arange(flags.shape[0], device=flags.device)
            self._attended.append(numbers < length)
            zero = torch.zeros_like(length)
            back = torch.stack([flags.shape[0] - length, zero, zero]).to(ids.dtype)
            ids_now.append(torch.where(pads[:, None], ids, ids - back))
        pads = [~flags for flags in real]
        return images, bare, image_sizes, ids_now, caption_ids, image_pads, pads

    def _prepare_sequence(self, feats: Any, ids: Any, pads: Any, pad_token: Any, *rest: Any) -> Any:
        prepared = self._kind._prepare_sequence(self, feats, ids, pads, pad_token, *rest)
        if pad_token is not self.cap_pad_token:
            return prepared
        return (*prepared[:2], torch.stack(self._attended), *prepared[3:])

    def _build_unified_sequence(
        self, images: torch.Tensor, freqs: Any, lengths: list[int], *rest: Any
    ) -> Any:
        unified, freqs, _, noise = self._kind._build_unified_sequence(
            self, images, freqs, lengths, *rest
        )
        mask = [
            torch.cat([torch.ones(length, dtype=torch.bool, device=unified.device), attended])
            for length, attended in zip(lengths, self._attended, strict=True)
        ]
        return unified, freqs, torch.stack(mask), noise
