"""Claims about the big models: what presets say of weights and classes is what diffusers makes.

Nothing is downloaded and no memory taken: components are made on the meta device.
"""

import inspect
import re
from itertools import chain
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
import transformers

from tests.runtime.families.claims import FAMILIES
from tpu_ui.plan.components import configuration, made, size_bytes, tensors
from tpu_ui.presets import Preset, load_all
from tpu_ui.runtime.parallel import check_heads
from tpu_ui.shapes import Strategy

BIG = [preset for preset in load_all().values() if not preset.is_local]
by_name = pytest.mark.parametrize("preset", BIG, ids=lambda preset: preset.name)


def test_every_preset_runs_as_one_of_a_family() -> None:
    names = [name for names in FAMILIES.values() for name in names]
    assert sorted(names) == sorted(preset.name for preset in BIG)
    folder = Path(__file__).parent / "families"
    assert {path.stem for path in folder.glob("test_*.py")} == {f"test_{one}" for one in FAMILIES}


def weight_gib(model: torch.nn.Module, dtype: torch.dtype) -> float:
    """What the model takes on a device, in GiB. Buffers count, such as SD3's table of positions."""
    assert all(tensor.is_meta for tensor in model.parameters())
    return size_bytes(tensors(model), dtype) / 2**30


def whole_gib(model: torch.nn.Module, dtype: torch.dtype) -> float:
    """What of the model is on each device when it is sharded: what no line of its plan names."""
    plan: dict[str, Any] = getattr(model, "tp_plan", None) or model._tp_plan
    shared = [
        re.escape(module).replace(r"\*", r"\d+") + r"\.(weight|bias)"
        for module, how in plan.items()
        if "replicated" not in str(how)
    ]
    return (
        size_bytes(
            (
                tensor
                for name, tensor in chain(model.named_parameters(), model.named_buffers())
                if not any(re.fullmatch(module, name) for module in shared)
            ),
            dtype,
        )
        / 2**30
    )


@by_name
def test_weights_are_those_of_the_model_at_full_size(preset: Preset) -> None:
    dtype = getattr(torch, preset.dtype)
    measured = {name: weight_gib(made(preset, name), dtype) for name in preset.components.weighted}
    assert preset.weights_gib == pytest.approx(measured, rel=0.01)


@by_name
def test_each_device_holds_whole_what_plans_leave_alone(preset: Preset) -> None:
    dtype = getattr(torch, preset.dtype)
    measured = {name: whole_gib(made(preset, name), dtype) for name in preset.components.sharded}
    assert preset.whole_gib == pytest.approx(measured, rel=0.01, abs=0.001)


@by_name
@pytest.mark.parametrize("devices", [2, 4, 8])
def test_heads_of_what_is_sharded_are_shared_out_on_every_machine(
    preset: Preset, devices: int
) -> None:
    for name in preset.components.sharded:
        config = configuration(preset, name)
        if "_class_name" not in config:
            kind = getattr(transformers, config["architectures"][0])
            config = kind.config_class.from_dict(config)
        check_heads(name, config, devices)


@by_name
def test_components_are_of_the_classes_that_the_pipeline_takes(preset: Preset) -> None:
    pipeline = getattr(diffusers, preset.pipeline)
    wanted = inspect.signature(pipeline.__init__).parameters
    for name in preset.components.weighted:
        assert isinstance(made(preset, name), wanted[name].annotation), name


@by_name
def test_pipeline_takes_what_the_preset_passes(preset: Preset) -> None:
    takes = inspect.signature(getattr(diffusers, preset.pipeline).__call__).parameters
    assert {preset.guidance.argument, *preset.call} <= set(takes)
    assert not preset.negative_prompt or "negative_prompt" in takes


@by_name
def test_sharded_is_on_offer_where_diffusers_has_a_plan(preset: Preset) -> None:
    denoiser = made(preset, preset.components.denoiser)
    plan = getattr(denoiser, "_tp_plan", None)
    assert (Strategy.SHARDED in preset.strategies) == bool(plan)


@by_name
def test_sides_are_multiples_of_what_the_model_needs(preset: Preset) -> None:
    assert [str(s) for s in preset.image_sizes if s.width_px % 16 or s.height_px % 16] == []


@by_name
def test_big_model_is_pinned_and_weighed(preset: Preset) -> None:
    assert preset.revision is not None
    assert len(preset.revision) == 40
    assert preset.weights_gib
    assert preset.working_gib > 0
