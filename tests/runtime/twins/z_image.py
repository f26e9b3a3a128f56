"""A twin of Z-Image: text and picture in one sequence, each padded to a multiple of 32 tokens."""

from pathlib import Path

import torch
from diffusers import FlowMatchEulerDiscreteScheduler, ZImagePipeline, ZImageTransformer2DModel
from transformers import Qwen3Model

from tests.runtime.twins.autoencoders import autoencoder
from tests.runtime.twins.language_models import WIDTH, qwen3_config
from tests.runtime.twins.tokenizers import qwen_tokenizer


def turbo(_: Path) -> ZImagePipeline:
    """Z-Image-Turbo: distilled, no guidance."""
    tokenizer = qwen_tokenizer()
    return ZImagePipeline(
        transformer=_transformer(),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=autoencoder(),
        text_encoder=Qwen3Model(qwen3_config(tokenizer, layers=3)),
        tokenizer=tokenizer,
    )


def _transformer() -> ZImageTransformer2DModel:
    transformer = ZImageTransformer2DModel(
        in_channels=4,
        dim=64,
        n_layers=2,
        n_refiner_layers=1,
        n_heads=4,
        n_kv_heads=4,
        cap_feat_dim=WIDTH,
        axes_dims=[8, 4, 4],
        axes_lens=[1536, 64, 64],
    )
    with torch.no_grad():  # learned in the real model, and zero in a new one
        transformer.cap_pad_token.normal_()
        transformer.x_pad_token.normal_()
    return transformer
