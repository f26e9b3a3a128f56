"""A twin of Stable Diffusion XL: a UNet, and two CLIP encoders read from the layer before last."""

from pathlib import Path

from diffusers import (
    EulerDiscreteScheduler,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)

from tests.runtime.twins.autoencoders import autoencoder
from tests.runtime.twins.encoders import clip, clip_with_projection
from tests.runtime.twins.tokenizers import clip_tokenizer


def base(vocabulary: Path) -> StableDiffusionXLPipeline:
    """The base model alone, without a refiner."""
    tokenizer, first, last = clip_tokenizer(vocabulary)
    return StableDiffusionXLPipeline(
        unet=_unet(),
        scheduler=EulerDiscreteScheduler(
            beta_start=0.00085,
            beta_end=0.012,
            beta_schedule="scaled_linear",
            steps_offset=1,
            timestep_spacing="leading",
        ),
        vae=autoencoder(quantized=True),
        text_encoder=clip(first, last),
        text_encoder_2=clip_with_projection(first, last),
        tokenizer=tokenizer,
        tokenizer_2=tokenizer,
    )


def _unet() -> UNet2DConditionModel:
    return UNet2DConditionModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        block_out_channels=(16, 32),
        layers_per_block=1,
        norm_num_groups=8,
        attention_head_dim=(2, 4),  # heads, in spite of the name
        transformer_layers_per_block=(1, 1),
        cross_attention_dim=64,
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=6 * 8 + 32,
    )
