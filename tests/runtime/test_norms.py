"""Group norms by channels: the same numbers as torch's, and the module as it was afterwards."""

import pytest
import torch

from tpu_ui.runtime.norms import norms_by_channels

SHAPES = [(2, 8), (1, 8, 5), (2, 8, 5, 7), (1, 8, 3, 4, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(
    ("dtype", "limit"), [(torch.float32, 2e-6), (torch.bfloat16, 0.016)], ids=str
)
def test_norms_by_channels_are_torchs(
    shape: tuple[int, ...], affine: bool, dtype: torch.dtype, limit: float
) -> None:
    chance = torch.Generator().manual_seed(0)
    norm = torch.nn.GroupNorm(4, 8, affine=affine)
    if affine:
        torch.nn.init.uniform_(norm.weight, -1, 1, generator=chance)
        torch.nn.init.uniform_(norm.bias, -1, 1, generator=chance)
    norm.to(dtype)
    x = (3 * torch.randn(shape, generator=chance) + 5).to(dtype)
    with torch.no_grad():
        theirs = norm(x)
        with norms_by_channels(norm):
            ours = norm(x)
    assert ours.dtype is dtype
    assert (ours - theirs).abs().max() <= limit * theirs.abs().max()


def test_large_mean_does_not_drown_the_variance() -> None:
    """As the mean of squares less the square of the mean would let it."""
    norm = torch.nn.GroupNorm(1, 2)
    x = 1000 + 0.1 * torch.randn(1, 2, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), norms_by_channels(norm):
        assert abs(norm(x).std() - 1) < 1e-3


def test_module_is_as_it_was_afterwards() -> None:
    module = torch.nn.Sequential(torch.nn.GroupNorm(2, 4), torch.nn.SiLU())
    with norms_by_channels(module):
        assert "forward" in vars(module[0])
        with norms_by_channels(module):
            pass
        assert "forward" in vars(module[0])
    assert "forward" not in vars(module[0])
