"""Twins of FLUX.2: [dev] reads with Mistral, [klein] with Qwen3, both in several layers' states."""

from pathlib import Path
from typing import Any

from diffusers import (
    AutoencoderKLFlux2,
    FlowMatchEulerDiscreteScheduler,
    Flux2KleinPipeline,
    Flux2Pipeline,
    Flux2Transformer2DModel,
)
from transformers import (
    Mistral3Config,
    Mistral3ForConditionalGeneration,
    PreTrainedTokenizerFast,
    Qwen3ForCausalLM,
)

from tests.runtime.twins.autoencoders import LAYERS
from tests.runtime.twins.language_models import TEXT, WIDTH, qwen3_config
from tests.runtime.twins.tokenizers import mistral_tokenizer, qwen_tokenizer

# The pipelines read the states of three layers, the last of which are these.
DEV_LAYERS, KLEIN_LAYERS = 30, 27


def dev(_: Path) -> Flux2Pipeline:
    """FLUX.2 [dev]: the guidance scale is an input.

    The tokenizer alone is in the place of Mistral's processor, which needs torchvision; the
    pipeline calls the same method of either.
    """
    tokenizer = mistral_tokenizer()
    return Flux2Pipeline(
        **_drawing(guidance_embeds=True),
        text_encoder=_mistral(tokenizer),
        tokenizer=tokenizer,
    )


def klein(_: Path) -> Flux2KleinPipeline:
    """FLUX.2 [klein]: distilled, no guidance."""
    tokenizer = qwen_tokenizer()
    return Flux2KleinPipeline(
        **_drawing(guidance_embeds=False),
        text_encoder=Qwen3ForCausalLM(qwen3_config(tokenizer, layers=KLEIN_LAYERS)),
        tokenizer=tokenizer,
        is_distilled=True,
    )


def _drawing(guidance_embeds: bool) -> dict[str, Any]:
    """The components that do not read."""
    return {
        "transformer": Flux2Transformer2DModel(
            patch_size=1,
            in_channels=16,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=4,
            joint_attention_dim=3 * WIDTH,
            axes_dims_rope=(4, 4, 4, 4),
            guidance_embeds=guidance_embeds,
        ),
        "scheduler": FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True),
        "vae": AutoencoderKLFlux2(**LAYERS, latent_channels=4),
    }


def _mistral(tokenizer: PreTrainedTokenizerFast) -> Mistral3ForConditionalGeneration:
    return Mistral3ForConditionalGeneration(
        Mistral3Config(
            text_config={
                **TEXT,
                "model_type": "mistral",
                "vocab_size": len(tokenizer),
                "num_hidden_layers": DEV_LAYERS,
                "bos_token_id": tokenizer.bos_token_id,
                "eos_token_id": tokenizer.eos_token_id,
                "pad_token_id": tokenizer.pad_token_id,
                "sliding_window": None,
            },
            vision_config={
                "model_type": "pixtral",
                "hidden_size": 16,
                "intermediate_size": 32,
                "num_hidden_layers": 1,
                "num_attention_heads": 4,
                "image_size": 28,
                "patch_size": 14,
            },
            image_token_index=tokenizer.unk_token_id,
        )
    )
