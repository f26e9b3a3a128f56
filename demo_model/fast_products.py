"""Linear and convolution layers whose products run in bfloat16, in a float32 model.

On CPUs with bfloat16 instructions a product takes half the time; autocast would take other, slow
paths for what lies between. For training only: weights, gradients and activations are float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class _HalfProduct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        flat, narrow = rows.reshape(-1, rows.shape[-1]).bfloat16(), weight.bfloat16()
        ctx.save_for_backward(flat, narrow)
        ctx.has_bias = bias is not None
        out = (flat @ narrow.t()).float()
        if bias is not None:
            out += bias
        return out.view(*rows.shape[:-1], weight.shape[0])

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        flat, narrow = ctx.saved_tensors
        grad = grads[0].reshape(-1, grads[0].shape[-1])
        half = grad.bfloat16()
        rows = (half @ narrow).float().view(*grads[0].shape[:-1], narrow.shape[1])
        weight = (half.t() @ flat).float()
        return rows, weight, grad.sum(0) if ctx.has_bias else None


class _FastForward:
    """Stands in for a linear layer's `forward`."""

    def __init__(self, layer: nn.Linear) -> None:
        self.layer = layer

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = _HalfProduct.apply(  # type: ignore[no-untyped-call]
            rows, self.layer.weight, self.layer.bias
        )
        return out


class _FastConvolution:
    """Stands in for a convolution's `forward`; autograd does the rest in bfloat16 too."""

    def __init__(self, layer: nn.Conv2d) -> None:
        self.layer = layer

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        layer = self.layer
        narrow = layer.weight.bfloat16()
        assert not isinstance(layer.padding, str)
        out = functional.conv2d(pixels.bfloat16(), narrow, None, layer.stride, layer.padding)
        out = out.float()
        return out if layer.bias is None else out + layer.bias[:, None, None]


def use_fast_products(module: nn.Module) -> None:
    """Speed up each linear layer that sees tokens (not modulations) and each wide convolution."""
    for name, layer in module.named_modules():
        if isinstance(layer, nn.Linear) and "norm" not in name:
            layer.forward = _FastForward(layer)  # type: ignore[method-assign, assignment]
        if isinstance(layer, nn.Conv2d) and layer.in_channels >= 16:
            layer.forward = _FastConvolution(layer)  # type: ignore[method-assign, assignment]
