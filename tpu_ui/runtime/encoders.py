"""Text encoding: the encoders run on the device, everything around them on the host.

A pipeline's `encode_prompt` tokenizes, runs its encoders, and cuts, pads and joins what they give.
Done on the device, that last part is many small programs, and for some families a new one for each
prompt's length. On the host it compiles nothing; what crosses over is a few megabytes a prompt.
The pipelines' code stays as it is: an encoder's hooks bring its inputs over, and its outputs back.
"""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from accelerate.utils import send_to_device
from torch.nn.functional import pad

from tpu_ui.presets import PaddingTable
from tpu_ui.runtime import attention, captions

HOST = torch.device("cpu")
TOKEN_INPUTS = ("input_ids", "attention_mask")
NO_PADDING = PaddingTable()


class TextEncoders:
    """The text encoders of one pipeline. `visiting`: they live on the host, come to the device one
    at a time to run, and are gone from it before denoising. Otherwise they stay where they are.
    """

    def __init__(
        self,
        encoders: Sequence[torch.nn.Module],
        device: torch.device,
        *,
        visiting: bool = False,
        padding: PaddingTable = NO_PADDING,
    ) -> None:
        self._device = device
        self._visiting = visiting
        self._padding = padding
        self._visitor: torch.nn.Module | None = None
        self._asked_tokens = 0
        for encoder in encoders:
            attention.rows_in_full(encoder)
            encoder.register_forward_pre_hook(self._enter, with_kwargs=True)
            encoder.register_forward_hook(self._leave_with)

    def encode(self, encode: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What `encode`, a pipeline's `encode_prompt`, gives for these inputs, on the device."""
        inputs = inspect.signature(encode).bind(*args, **kwargs)
        inputs.arguments["device"] = HOST
        with self._visits():
            embeddings = encode(*inputs.args, **inputs.kwargs)
        return send_to_device(_padded(embeddings, self._padding), self._device)

    def _enter(
        self, encoder: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, Any]:
        if self._visiting and self._visitor is not encoder:
            self._dismiss()
            self._visitor = encoder.to(self._device)
        there = next(encoder.parameters()).device
        tokens = self._padding.encoder_tokens
        if tokens is not None:
            self._asked_tokens = kwargs["input_ids"].shape[1]
            kwargs |= {name: _fitted(kwargs[name], tokens) for name in TOKEN_INPUTS}
        return send_to_device(args, there), send_to_device(kwargs, there)

    def _leave_with(self, _: torch.nn.Module, args: Any, output: Any) -> Any:
        padded = self._padding.encoder_tokens is not None
        return _on_host(output, self._asked_tokens if padded else None)

    @contextlib.contextmanager
    def _visits(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._dismiss()

    def _dismiss(self) -> None:
        if self._visitor is not None:
            self._visitor.to(HOST)
            self._visitor = None


def _fitted(tensor: torch.Tensor, length: int) -> torch.Tensor:
    """A tensor of batch x tokens (x features) with `length` tokens: cut, or filled up with 0."""
    missing = length - tensor.shape[1]
    return pad(tensor, (0, 0) * (tensor.dim() - 2) + (0, missing))


def _padded(embeddings: Any, padding: PaddingTable) -> Any:
    """What `encode_prompt` gave, in the one length that the preset wants."""
    if padding.masked_tokens is not None:
        states, mask = embeddings
        if mask is None:
            mask = torch.ones(states.shape[:2], dtype=torch.long)
        return tuple(_fitted(one, padding.masked_tokens) for one in (states, mask))
    if padding.flagged_tokens is not None:
        return tuple(captions.flagged(one, padding.flagged_tokens) for one in embeddings)
    return embeddings


def _on_host(value: Any, tokens: int | None) -> Any:
    if isinstance(value, torch.Tensor):
        there = value.to(HOST)
        return there if tokens is None or there.dim() != 3 else _fitted(there, tokens)
    return _OnHost(value, tokens) if isinstance(value, tuple | list | dict) else value


class _OnHost:
    """What an encoder gave, brought to the host where it is asked for: a language model gives every
    layer's states and a value for each word of its vocabulary, and a pipeline takes little of it.

    `tokens` is the length that was asked for, before padding.
    """

    def __init__(self, given: Any, tokens: int | None) -> None:
        self._given = given
        self._tokens = tokens

    def __getattr__(self, name: str) -> Any:
        return _on_host(getattr(self._given, name), self._tokens)

    def __getitem__(self, key: Any) -> Any:
        return _on_host(self._given[key], self._tokens)

    def __len__(self) -> int:
        return len(self._given)
