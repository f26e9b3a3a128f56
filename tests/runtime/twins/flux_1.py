"""Twins of FLUX.1: a CLIP and a T5 encoder."""

from pathlib import Path

from diffusers import FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel

from tests.runtime.twins.autoencoders import autoencoder
from tests.runtime.twins.encoders import clip, t5
from tests.runtime.twins.tokenizers import clip_tokenizer, t5_tokenizer


def schnell(vocabulary: Path) -> FluxPipeline:
    """FLUX.1 [schnell]: no guidance."""
    return _flux1(vocabulary, FlowMatchEulerDiscreteScheduler(shift=1.0))


def dev(vocabulary: Path) -> FluxPipeline:
    """FLUX.1 [dev]: the guidance scale is an input, and the schedule shifts with the size."""
    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True)
    return _flux1(vocabulary, scheduler, guidance_embeds=True)


def _flux1(
    vocabulary: Path,
    scheduler: FlowMatchEulerDiscreteScheduler,
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
            num_attention_heads=4,
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
