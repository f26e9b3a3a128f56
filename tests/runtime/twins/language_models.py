"""Configurations of the language models that newer families read with."""

from typing import Any

from transformers import Qwen2Tokenizer, Qwen3Config

WIDTH = 32

# Common to Mistral, Qwen2.5-VL and Qwen3. Weights large enough for a word to change every state.
TEXT: dict[str, Any] = {
    "hidden_size": WIDTH,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
}


def qwen3_config(tokenizer: Qwen2Tokenizer, layers: int) -> Qwen3Config:
    return Qwen3Config(
        **TEXT,
        vocab_size=len(tokenizer),
        num_hidden_layers=layers,
        bos_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=True,
    )
