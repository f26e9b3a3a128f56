"""Attention of text encoders on a TPU: rows that may attend to nothing.

A prompt that is padded on its left (FLUX.2's) has such rows. PyTorch's kernels give zeros there;
torch_tpu 0.2.0 gives NaN, which the next layers spread. Source of the extension point:
https://huggingface.co/docs/transformers/attention_interface
"""

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "sdpa_rows_in_full"


def rows_in_full(encoder: torch.nn.Module) -> None:
    """Have the encoder's attention give zeros for rows that may attend to nothing."""
    if not isinstance(encoder, PreTrainedModel) or encoder.config._attn_implementation != "sdpa":
        return
    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    encoder.set_attn_implementation(NAME)


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Scaled dot product attention; `attention_mask` is batch x 1 x rows x columns, or None."""
    if attention_mask is None or attention_mask.dtype != torch.bool:
        given, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
        return given, None
    sees = attention_mask.any(dim=-1, keepdim=True)
    given, _ = sdpa_attention_forward(module, query, key, value, attention_mask | ~sees, **kwargs)
    return given * sees.transpose(1, 2), None  # batch x rows x heads x features
