"""A mode is what ran, not what was asked for."""

import contextlib

import pytest
import torch

from tpu_ui.runtime import modes
from tpu_ui.shapes import Device, Mode


def test_denoiser_whose_compiled_form_did_not_run_is_not_called_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(modes, "_eager_mode", lambda mode: contextlib.nullcontext())
    denoiser = modes.Modes(torch.nn.Identity(), Device.SOFTWARE_TPU, 4)
    with denoiser.running(Mode.COMPILED) as what_ran:
        assert what_ran() is modes.AROUND_COMPILED
    with denoiser.running(Mode.EAGER) as what_ran:
        assert what_ran() is Mode.EAGER
