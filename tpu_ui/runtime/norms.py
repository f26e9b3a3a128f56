"""Group norms in a form that is less work for the TPU's compiler.

torch_tpu 0.2.0 lowers a group norm to a reshape in which a group's channels, rows and columns are
one dimension. libtpu takes about a third of a VAE decoder's compilation for that, and the program
three times the bytes (benchmarks/README.md). Here sums are taken over rows and columns, and only
those, one number a channel, are put together by groups. Knows nothing of models and of compiling.
"""

import contextlib
from collections.abc import Iterator
from types import MethodType

import torch


def by_channels(norm: torch.nn.GroupNorm, x: torch.Tensor) -> torch.Tensor:
    """The forward of a group norm, with `x` of shape (batch, channels, ...) never reshaped.

    Computed in float32, like torch's own; the result has the dtype of `x`.
    """
    batch, channels, *sides = x.shape
    inner = tuple(range(2, x.dim()))
    ones = (1,) * len(sides)

    def of_groups(sums: torch.Tensor) -> torch.Tensor:
        """The mean over each group of what is given for each channel."""
        grouped = sums.reshape(batch, norm.num_groups, -1)
        means = grouped.mean(-1, keepdim=True).expand(grouped.shape)
        return means.reshape(batch, channels, *ones)

    wide = x.float()
    centred = wide - of_groups(wide.mean(inner) if inner else wide)
    squares = centred * centred
    variance = of_groups(squares.mean(inner) if inner else squares)
    factor = torch.rsqrt(variance + norm.eps)
    if norm.affine:
        factor = factor * norm.weight.float().reshape(1, channels, *ones)
    normed = centred * factor
    if norm.affine and norm.bias is not None:
        normed = normed + norm.bias.float().reshape(1, channels, *ones)
    return normed.to(x.dtype)


@contextlib.contextmanager
def norms_by_channels(module: torch.nn.Module) -> Iterator[None]:
    """A context in which the group norms in `module` are computed so."""
    norms = [
        part
        for part in module.modules()
        if type(part) is torch.nn.GroupNorm and "forward" not in vars(part)
    ]
    for norm in norms:
        norm.forward = MethodType(by_channels, norm)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for norm in norms:
            del norm.forward
