"""Twins of Stable Diffusion 3 and 3.5: two CLIP encoders, and T5 in 3.5."""

from pathlib import Path

import torch
from diffusers import (
    FlowMatchEulerDiscreteScheduler,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
)

from tests.runtime.twins.autoencoders import autoencoder
from tests.runtime.twins.encoders import clip_with_projection, t5
from tests.runtime.twins.saving import saved
from tests.runtime.twins.tokenizers import clip_tokenizer, t5_tokenizer
from tpu_ui.presets import Preset

SD3_TOML = """
name = "{name}"
title = "Tiny Stable Diffusion 3"
description = "A twin of Stable Diffusion 3 for the tests."
repository = "./{name}"
licence = "Apache-2.0"
pipeline = "StableDiffusion3Pipeline"
dtype = "float32"
sizes = ["32x32", "64x32"]
negative_prompt = true
text_tokens = 24

[steps]
minimum = 1
maximum = 30
default = 4

[guidance]
minimum = 1.0
maximum = 8.0
default = 4.0
off = 1.0

[components]
denoiser = "transformer"
text_encoders = ["text_encoder", "text_encoder_2"]
vae = "vae"
omitted = ["text_encoder_3", "tokenizer_3"]

[call]
max_sequence_length = 4

[preview]
rgb = [[0.3, 0.2, 0.1], [0.1, 0.3, 0.2], [0.2, 0.1, 0.3], [0.3, 0.3, 0.3]]
"""


def sd3(folder: Path, name: str = "tiny-sd3", seed: int = 0, broken: bool = False) -> Preset:
    """Make a tiny Stable Diffusion 3 in `folder`. A broken one has NaN in its transformer."""
    torch.manual_seed(seed)
    tokenizer, first, last = clip_tokenizer(folder / f"{name}-vocabulary")
    transformer = _transformer()
    if broken:
        with torch.no_grad():
            transformer.proj_out.weight.fill_(float("nan"))
    pipeline = StableDiffusion3Pipeline(
        transformer=transformer,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=autoencoder(),
        text_encoder=clip_with_projection(first, last),
        text_encoder_2=clip_with_projection(first, last),
        text_encoder_3=None,
        tokenizer=tokenizer,
        tokenizer_2=tokenizer,
        tokenizer_3=None,
    )
    return saved(pipeline, folder, name, SD3_TOML)


def medium(vocabulary: Path) -> StableDiffusion3Pipeline:
    """SD3.5 Medium: a second attention, over the picture alone, in the first layers."""
    return _sd35(vocabulary, dual_attention_layers=(0,))


def large(vocabulary: Path) -> StableDiffusion3Pipeline:
    """SD3.5 Large, and Large Turbo."""
    return _sd35(vocabulary, dual_attention_layers=())


def _sd35(vocabulary: Path, dual_attention_layers: tuple[int, ...]) -> StableDiffusion3Pipeline:
    tokenizer, first, last = clip_tokenizer(vocabulary)
    characters = t5_tokenizer()
    return StableDiffusion3Pipeline(
        transformer=_transformer(dual_attention_layers),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=autoencoder(),
        text_encoder=clip_with_projection(first, last),
        text_encoder_2=clip_with_projection(first, last),
        text_encoder_3=t5(characters, width=64),
        tokenizer=tokenizer,
        tokenizer_2=tokenizer,
        tokenizer_3=characters,
    )


def _transformer(dual_attention_layers: tuple[int, ...] = ()) -> SD3Transformer2DModel:
    return SD3Transformer2DModel(
        sample_size=16,
        patch_size=2,
        in_channels=4,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=4,
        joint_attention_dim=64,
        caption_projection_dim=32,
        pooled_projection_dim=64,
        out_channels=4,
        pos_embed_max_size=32,
        qk_norm="rms_norm",
        dual_attention_layers=dual_attention_layers,
    )
