"""A mode is what ran, not what was asked for."""

import contextlib

import pytest
import torch

from tpu_ui.errors import CompilationError
from tpu_ui.runtime import modes
from tpu_ui.runtime.compiled import CompiledPart
from tpu_ui.runtime.device import open_device
from tpu_ui.shapes import Device, Mode


class Untraceable(torch.nn.Module):
    """Does what depends on its numbers."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values if values.sum() > 0 else -values


def test_model_that_cannot_be_traced_is_an_error_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(modes, "_eager_mode", lambda mode: contextlib.nullcontext())
    module = Untraceable()
    part = CompiledPart([module], open_device("cpu"), "", None)
    one = modes.Modes([part], Device.SOFTWARE_TPU)
    with (
        pytest.raises(CompilationError, match="Use fused or eager mode instead"),
        one.running(Mode.COMPILED),
    ):
        module(torch.ones(2))
    with one.running(Mode.EAGER) as what_ran:
        assert module(torch.ones(2)).tolist() == [1, 1]
        assert what_ran() is Mode.EAGER


def test_denoiser_whose_compiled_form_did_not_run_is_not_called_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(modes, "_eager_mode", lambda mode: contextlib.nullcontext())
    denoiser = modes.Modes(
        [CompiledPart([torch.nn.Identity()], open_device("cpu"), "", None)], Device.SOFTWARE_TPU
    )
    with denoiser.running(Mode.COMPILED) as what_ran:
        assert what_ran() is modes.AROUND_COMPILED
    with denoiser.running(Mode.EAGER) as what_ran:
        assert what_ran() is Mode.EAGER
