"""Claims about LoRA: pictures are those of a fresh load, and choosing compiles nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import DiffusionPipeline
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict

from tests.dispatch.driving import ending_of, saved_by
from tests.runtime import twins
from tests.runtime.conftest import READY_S, Start, pixels, starting, warm_all
from tests.runtime.twins import plain
from tests.runtime.twins.plain import Values
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.presets import LoraTable, Preset, load_all
from tpu_ui.protocol import Failed, Finished
from tpu_ui.request import validate
from tpu_ui.shapes import Mode, Strategy

# One is wider than the other, in rank and in layers, and counts double.
SOFT = {"r": 2, "lora_alpha": 2, "target_modules": ["to_q", "to_v"]}
BOLD = {"r": 4, "lora_alpha": 8, "target_modules": ["to_q", "to_k", "to_v"]}
WISH: dict[str, Any] = {"prompt": "a hill", "seed": 3, "steps": 3}
CHOICES: list[tuple[str | None, float]] = [
    (None, 1.0),
    ("bold", 1.0),
    ("soft", 1.0),
    ("bold", 0.5),
    ("bold", -1.0),
    (None, 1.0),
]
TOLERANCE = 1


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path) as make:
        yield make


def with_loras(name: str, folder: Path) -> Preset:
    """A twin with two made-up LoRA files."""
    twin = twins.of(load_all()[name], folder)
    pipeline = DiffusionPipeline.from_pretrained(twin.source)
    denoiser = getattr(pipeline, twin.components.denoiser)
    torch.manual_seed(1)
    for lora, options in (("soft", SOFT), ("bold", BOLD)):
        config = LoraConfig(**options, init_lora_weights=False)
        denoiser.add_adapter(config, adapter_name=lora)
        layers = {
            f"{twin.components.denoiser}_lora_layers": get_peft_model_state_dict(
                denoiser, adapter_name=lora
            )
        }
        metadata = {f"{twin.components.denoiser}_lora_adapter_metadata": config.to_dict()}
        pipeline.save_lora_weights(folder / lora, **layers, **metadata)
        denoiser.delete_adapters(lora)
    tables = tuple(LoraTable(name=one, file=f"./{one}", folder=folder) for one in ("soft", "bold"))
    strategies = tuple(one for one in twin.strategies if one is not Strategy.SHARDED)
    return twin.model_copy(
        update={"loras": tables, "sizes": twin.sizes[:1], "strategies": strategies}
    )


def each_fresh(twin: Preset) -> dict[tuple[str | None, float], Values]:
    """The pictures of diffusers alone, each by a pipeline that was loaded for it."""
    return {choice: fresh(twin, *choice) for choice in dict.fromkeys(CHOICES)}


def fresh(twin: Preset, lora: str | None, weight: float) -> Values:
    pipeline = plain.pipeline_of(twin)
    if lora is not None:
        pipeline.load_lora_weights(str(twin.folder / lora), adapter_name=lora)
        pipeline.set_adapters(lora, weight)
    return plain.picture(pipeline, twin, WISH)


def picture(dispatcher: LocalDispatcher, twin: Preset, mode: Mode, **wishes: Any) -> Any:
    job = dispatcher.submit(validate(dispatcher.limits(twin.name), mode=mode, **WISH, **wishes))
    ending = ending_of(dispatcher, job, READY_S)
    assert isinstance(ending, Finished), ending
    (saved,) = saved_by(dispatcher, job)
    assert (saved.info.lora, saved.info.lora_weight) == (wishes["lora"], wishes["lora_weight"])
    size = twin.image_sizes[0]
    values = np.frombuffer(pixels(saved.path), np.uint8)
    return values.reshape(size.height_px, size.width_px, 3).astype(float)


# Stable Diffusion XL's scheduler (diffusers 0.42.1) and NumPy 2.
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")
@pytest.mark.parametrize(
    "name",
    ["flux2-klein-4b", "sd35-medium", "sdxl", "z-image-turbo"],
)
def test_pictures_are_those_of_a_fresh_load(name: str, begin: Start, tmp_path: Path) -> None:
    twin = with_loras(name, tmp_path)
    dispatcher = begin(twin, device="cpu")
    made = [
        picture(dispatcher, twin, Mode.EAGER, lora=lora, lora_weight=weight)
        for lora, weight in CHOICES
    ]
    right = each_fresh(twin)
    for choice, one in zip(CHOICES, made, strict=True):
        assert np.abs(one - right[choice]).max() <= TOLERANCE, choice
    assert (made[0] == made[-1]).all()
    assert all(np.abs(made[0] - other).max() > TOLERANCE for other in made[1:-1])


@pytest.mark.parametrize(
    ("strategy", "modes"),
    [(Strategy.RESIDENT, tuple(Mode)), (Strategy.OFFLOAD, (Mode.COMPILED,))],
)
def test_choosing_compiles_nothing(
    strategy: Strategy, modes: tuple[Mode, ...], begin: Start, tmp_path: Path
) -> None:
    twin = with_loras("flux1-schnell", tmp_path)
    dispatcher = begin(twin, strategy=strategy)
    right = each_fresh(twin)
    warm_all(dispatcher, twin.name, modes)
    for mode in modes:
        for choice in CHOICES:
            made = picture(dispatcher, twin, mode, lora=choice[0], lora_weight=choice[1])
            assert np.abs(made - right[choice]).max() <= TOLERANCE, (mode, choice)
    assert dispatcher.status().programs_compiled_since_ready == 0


def test_file_that_does_not_fit_is_named(begin: Start, tmp_path: Path) -> None:
    other = with_loras("sd35-medium", tmp_path)
    (tmp_path / "flux").mkdir()
    twin = with_loras("flux1-schnell", tmp_path / "flux")
    tables = (*twin.loras, LoraTable(name="wrong", file="./soft", folder=tmp_path))
    assert other.loras[0].file == "./soft"
    dispatcher = begin(twin.model_copy(update={"loras": tables}), device="cpu")
    job = dispatcher.warm_up(twin.name, Mode.EAGER, twin.image_sizes[0])
    ending = ending_of(dispatcher, job, READY_S)
    assert isinstance(ending, Failed)
    assert "LoRA wrong (./soft)" in ending.message
