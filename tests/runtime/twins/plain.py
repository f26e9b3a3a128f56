"""What diffusers alone makes of a twin, on the CPU, in the test's own process."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from diffusers import DiffusionPipeline

from tpu_ui.presets import Preset

Values = npt.NDArray[np.int16]  # height x width x 3, from 0 to 255


def pipeline_of(twin: Preset) -> Any:
    pipeline = DiffusionPipeline.from_pretrained(twin.source)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def picture(pipeline: Any, twin: Preset, wish: dict[str, Any], **more: Any) -> Values:
    """The picture of a request's wishes: prompt, steps and seed, and what else the twin takes.
    `more`: the pipeline's own arguments."""
    size = twin.image_sizes[0]
    negative = {"negative_prompt": wish.get("negative_prompt", "")} if twin.negative_prompt else {}
    made = pipeline(
        prompt=wish["prompt"],
        num_inference_steps=wish["steps"],
        height=size.height_px,
        width=size.width_px,
        generator=torch.Generator("cpu").manual_seed(wish["seed"]),
        output_type="np",
        **{twin.guidance.argument: wish.get("guidance", twin.guidance.default)},
        **negative,
        **twin.call,
        **more,
    )
    values: Values = (made.images[0] * 255).round().astype(np.int16)
    return values
