"""A twin of Qwen-Image: a language model that also sees reads, and a video's VAE draws."""

from pathlib import Path

from diffusers import (
    AutoencoderKLQwenImage,
    FlowMatchEulerDiscreteScheduler,
    QwenImagePipeline,
    QwenImageTransformer2DModel,
)
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Tokenizer,
)

from tests.runtime.twins.language_models import TEXT, WIDTH
from tests.runtime.twins.tokenizers import qwen_tokenizer


def qwen_image(_: Path) -> QwenImagePipeline:
    """Qwen-Image: real guidance, in two passes, with a prompt of any length."""
    tokenizer = qwen_tokenizer()
    return QwenImagePipeline(
        transformer=QwenImageTransformer2DModel(
            patch_size=2,
            in_channels=16,
            out_channels=4,
            num_layers=2,
            attention_head_dim=16,
            num_attention_heads=4,
            joint_attention_dim=WIDTH,
            axes_dims_rope=(8, 4, 4),
        ),
        scheduler=FlowMatchEulerDiscreteScheduler(
            use_dynamic_shifting=True, shift_terminal=0.02, max_shift=0.9, max_image_seq_len=8192
        ),
        vae=AutoencoderKLQwenImage(
            base_dim=8,
            z_dim=4,
            dim_mult=[1, 2, 2],
            num_res_blocks=1,
            temperal_downsample=[False, True],
            latents_mean=[0.0] * 4,
            latents_std=[3.0] * 4,
        ),
        text_encoder=_reader(tokenizer),
        tokenizer=tokenizer,
    )


def _reader(tokenizer: Qwen2Tokenizer) -> Qwen2_5_VLForConditionalGeneration:
    return Qwen2_5_VLForConditionalGeneration(
        Qwen2_5_VLConfig(
            text_config={
                **TEXT,
                "vocab_size": len(tokenizer),
                "num_hidden_layers": 2,
                "bos_token_id": tokenizer.pad_token_id,
                "eos_token_id": tokenizer.convert_tokens_to_ids("<|im_end|>"),
                "rope_scaling": {"type": "mrope", "mrope_section": [2, 1, 1]},
            },
            vision_config={
                "depth": 1,
                "hidden_size": 16,
                "intermediate_size": 32,
                "num_heads": 4,
                "out_hidden_size": WIDTH,
                "fullatt_block_indexes": [0],
            },
            # No picture is ever read: these stand beyond the words.
            image_token_id=len(tokenizer),
            video_token_id=len(tokenizer) + 1,
            vision_start_token_id=len(tokenizer) + 2,
            vision_end_token_id=len(tokenizer) + 3,
        )
    )
