"""Twins of FLUX.1: a CLIP and a T5 encoder."""

from pathlib import Path

import torch
from diffusers import FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel

from tests.runtime.twins.autoencoders import autoencoder
from tests.runtime.twins.encoders import clip, t5
from tests.runtime.twins.saving import saved
from tests.runtime.twins.tokenizers import clip_tokenizer, t5_tokenizer
from tpu_ui.presets import Preset

FLUX1_TOML = """
name = "{name}"
title = "Tiny FLUX.1"
description = "A twin of FLUX.1 [schnell] for the tests."
repository = "./{name}"
licence = "Apache-2.0"
pipeline = "FluxPipeline"
dtype = "float32"
sizes = ["32x32", "64x32"]
negative_prompt = false
text_tokens = 48

[steps]
minimum = 1
maximum = 12
default = 4

[guidance]
minimum = 0.0
maximum = 0.0
default = 0.0

[components]
denoiser = "transformer"
text_encoders = ["text_encoder", "text_encoder_2"]
vae = "vae"

[call]
max_sequence_length = 48
"""


def flux1(folder: Path, name: str = "tiny-flux1") -> Preset:
    """Make a tiny FLUX.1 [schnell] in `folder`: no guidance, a CLIP and a T5 encoder."""
    torch.manual_seed(0)
    pipeline = _flux1(folder / f"{name}-vocabulary", FlowMatchEulerDiscreteScheduler(shift=1.0))
    return saved(pipeline, folder, name, FLUX1_TOML)


def schnell(vocabulary: Path) -> FluxPipeline:
    """FLUX.1 [schnell], with heads for four ranks."""
    return _flux1(vocabulary, FlowMatchEulerDiscreteScheduler(shift=1.0), heads=4)


def dev(vocabulary: Path) -> FluxPipeline:
    """FLUX.1 [dev]: the guidance scale is an input, and the schedule shifts with the size."""
    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True)
    return _flux1(vocabulary, scheduler, heads=4, guidance_embeds=True)


def _flux1(
    vocabulary: Path,
    scheduler: FlowMatchEulerDiscreteScheduler,
    heads: int = 2,
    guidance_embeds: bool = False,
) -> FluxPipeline:
    tokenizer, first, last = clip_tokenizer(vocabulary)
    characters = t5_tokenizer()
    return FluxPipeline(
        transformer=FluxTransformer2DModel(
            patch_size=1,
            in_channels=16,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=heads,
            joint_attention_dim=32,
            pooled_projection_dim=32,
            guidance_embeds=guidance_embeds,
            axes_dims_rope=(4, 4, 8),
        ),
        scheduler=scheduler,
        vae=autoencoder(),
        text_encoder=clip(first, last),
        tokenizer=tokenizer,
        text_encoder_2=t5(characters),
        tokenizer_2=characters,
    )
