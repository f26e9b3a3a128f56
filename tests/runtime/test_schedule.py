"""The schedule made on the host is diffusers' own."""

import inspect

import pytest
import torch
from diffusers import FlowMatchEulerDiscreteScheduler

from tpu_ui.runtime.schedule import on_host


@pytest.mark.parametrize("steps", [1, 2, 7, 30])
def test_numbers_are_those_of_diffusers(steps: int) -> None:
    theirs = FlowMatchEulerDiscreteScheduler(shift=3.0)
    ours = on_host(FlowMatchEulerDiscreteScheduler(shift=3.0))
    theirs.set_timesteps(steps, device="cpu")
    ours.set_timesteps(steps, device="cpu")
    assert torch.equal(torch.stack(ours.timesteps), theirs.timesteps)
    assert torch.equal(ours.sigmas, theirs.sigmas)
    sample = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    for timestep, their_timestep in zip(ours.timesteps, theirs.timesteps, strict=True):
        ours_next = ours.step(sample, timestep, sample, return_dict=False)[0]
        theirs_next = theirs.step(sample, their_timestep, sample, return_dict=False)[0]
        assert torch.equal(ours_next, theirs_next)


def test_configuration_and_signature_stay() -> None:
    """diffusers reads the signature to learn whether a scheduler takes `sigmas`."""
    ours = on_host(FlowMatchEulerDiscreteScheduler(shift=3.0))
    assert ours.config.shift == 3.0
    assert type(ours).__name__ == "FlowMatchEulerDiscreteScheduler"
    assert "sigmas" in inspect.signature(ours.set_timesteps).parameters
