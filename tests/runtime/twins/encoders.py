"""Text encoders of the families that read with CLIP and T5: a few narrow layers."""

from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    PreTrainedTokenizerFast,
    T5Config,
    T5EncoderModel,
)

from tests.runtime.twins.tokenizers import CLIP_TOKENS


def clip(first: int, last: int) -> CLIPTextModel:
    """`first` and `last` are the ids of the tokens at the ends of a prompt."""
    return CLIPTextModel(_clip_config(first, last))


def clip_with_projection(first: int, last: int) -> CLIPTextModelWithProjection:
    """`first` and `last` are the ids of the tokens at the ends of a prompt."""
    return CLIPTextModelWithProjection(_clip_config(first, last))


def t5(tokenizer: PreTrainedTokenizerFast, width: int = 32) -> T5EncoderModel:
    """An encoder for what `tokenizer` makes; its states have `width` values."""
    return T5EncoderModel(
        T5Config(
            vocab_size=len(tokenizer), d_model=width, d_kv=8, d_ff=64, num_layers=2, num_heads=4
        )
    )


def _clip_config(first: int, last: int) -> CLIPTextConfig:
    return CLIPTextConfig(
        vocab_size=last + 1,
        hidden_size=32,
        intermediate_size=64,
        projection_dim=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=CLIP_TOKENS,
        bos_token_id=first,
        eos_token_id=last,
        pad_token_id=last,
    )
