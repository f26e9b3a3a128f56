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

HOST = torch.device("cpu")


class TextEncoders:
    """The text encoders of one pipeline. `visiting`: they live on the host, come to the device one
    at a time to run, and are gone from it before denoising. Otherwise they stay where they are.
    """

    def __init__(
        self, encoders: Sequence[torch.nn.Module], device: torch.device, *, visiting: bool = False
    ) -> None:
        self._encoders = list(encoders)
        self._device = device
        self._visiting = visiting
        self._visitor: torch.nn.Module | None = None
        for encoder in self._encoders:
            encoder.register_forward_pre_hook(self._enter, with_kwargs=True)
            encoder.register_forward_hook(_back_to_host)

    def encode(self, encode: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What `encode`, a pipeline's `encode_prompt`, gives for these inputs, on the device."""
        inputs = inspect.signature(encode).bind(*args, **kwargs)
        inputs.arguments["device"] = HOST
        with self._visits():
            embeddings = encode(*inputs.args, **inputs.kwargs)
        return send_to_device(embeddings, self._device)

    def _enter(
        self, encoder: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, Any]:
        if self._visiting and self._visitor is not encoder:
            self._leave()
            self._visitor = encoder.to(self._device)
        there = next(encoder.parameters()).device
        return send_to_device(args, there), send_to_device(kwargs, there)

    @contextlib.contextmanager
    def _visits(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._visitor is not None:
            self._visitor.to(HOST)
            self._visitor = None


def _back_to_host(_: torch.nn.Module, args: Any, output: Any) -> Any:
    return _on_host(output)


def _on_host(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(HOST)
    return _OnHost(value) if isinstance(value, tuple | list | dict) else value


class _OnHost:
    """What an encoder gave, brought to the host where it is asked for: a language model gives every
    layer's states and a value for each word of its vocabulary, and a pipeline takes little of it.
    """

    def __init__(self, given: Any) -> None:
        self._given = given

    def __getattr__(self, name: str) -> Any:
        return _on_host(getattr(self._given, name))

    def __getitem__(self, key: Any) -> Any:
        return _on_host(self._given[key])

    def __len__(self) -> int:
        return len(self._given)
