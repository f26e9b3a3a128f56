"""The model's parts, untrained: tokenizer, text encoders, transformer, autoencoder, pipeline.

Only shapes and settings live here; training is elsewhere. All sizes are in this one place because
the weights have to stay under 16 MB in float16 together.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
)
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import nn
from transformers import (
    CLIPTextConfig,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    PreTrainedTokenizerFast,
    T5Config,
    T5EncoderModel,
)

from demo_model.captions import vocabulary
from demo_model.latents import CHANNELS

MAX_TOKENS = 32
WIDTH = 192
LAYERS = 5
HEADS = 6
TEXT_WIDTH = 64
TEXT_LAYERS = 3
POS_EMBED_MAX_SIZE = 10
VAE_CHANNELS = (16, 32, 64, 64)


def build_tokenizer() -> CLIPTokenizer:
    """Each word of the caption language is one token; any other word falls back to its bytes."""
    letters = sorted(set(_bytes_to_unicode().values()))
    vocab: dict[str, int] = {}
    for symbol in (*letters, *(letter + "</w>" for letter in letters)):
        vocab[symbol] = len(vocab)
    merges: list[tuple[str, str]] = []
    known: set[tuple[str, str]] = set()
    for word in vocabulary():
        parts = [*word[:-1], word[-1] + "</w>"]
        if not word.isalpha():
            continue
        # Right to left, so that every merge makes a suffix that belongs to this word's end only.
        while len(parts) > 1:
            pair = (parts[-2], parts[-1])
            if pair not in known:
                known.add(pair)
                merges.append(pair)
                vocab.setdefault("".join(pair), len(vocab))
            parts[-2:] = ["".join(pair)]
    for special in ("<|startoftext|>", "<|endoftext|>"):
        vocab[special] = len(vocab)
    return CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=MAX_TOKENS)


def _bytes_to_unicode() -> dict[int, str]:
    """The printable stand-ins that byte-level BPE uses, as in GPT-2's encoder."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {byte: chr(byte) for byte in plain}
    spare = 0
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(256 + spare)
            spare += 1
    return table


def build_text_encoder(tokenizer: CLIPTokenizer) -> CLIPTextModelWithProjection:
    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=TEXT_WIDTH,
        intermediate_size=4 * TEXT_WIDTH,
        projection_dim=TEXT_WIDTH,
        num_hidden_layers=TEXT_LAYERS,
        num_attention_heads=2,
        max_position_embeddings=MAX_TOKENS,
        hidden_act="quick_gelu",
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    encoder = CLIPTextModelWithProjection(config)
    nn.init.normal_(encoder.text_projection.weight, std=TEXT_WIDTH**-0.5)
    return encoder


def build_silent_encoder(tokenizer: PreTrainedTokenizerFast) -> T5EncoderModel:
    """A third text encoder that says nothing: its output is zero, whatever it reads.

    diffusers puts zeros in the place of a missing T5 encoder, but loads a Stable Diffusion 3
    without one only when told so. With this one, `from_pretrained(folder)` alone is enough, and the
    pictures are those of the pipeline that was told to go without.
    """
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=2 * TEXT_WIDTH,
        d_kv=8,
        d_ff=8,
        num_layers=1,
        num_heads=1,
    )
    encoder = T5EncoderModel(config)
    nn.init.zeros_(encoder.encoder.final_layer_norm.weight)
    return encoder


def build_silent_tokenizer() -> PreTrainedTokenizerFast:
    """Every word is unknown to it."""
    vocab = {"<pad>": 0, "</s>": 1, "<unk>": 2}
    words = Tokenizer(WordLevel(vocab, unk_token="<unk>"))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def build_transformer() -> SD3Transformer2DModel:
    transformer = SD3Transformer2DModel(
        sample_size=32,
        patch_size=4,
        in_channels=CHANNELS,
        out_channels=CHANNELS,
        num_layers=LAYERS,
        attention_head_dim=WIDTH // HEADS,
        num_attention_heads=HEADS,
        joint_attention_dim=2 * TEXT_WIDTH,
        caption_projection_dim=WIDTH,
        pooled_projection_dim=2 * TEXT_WIDTH,
        pos_embed_max_size=POS_EMBED_MAX_SIZE,
        qk_norm="rms_norm",
    )
    for name, parameter in transformer.named_parameters():
        # Blocks start as the identity and the output as zero.
        if (".linear." in name and "norm" in name) or name.startswith("proj_out"):
            nn.init.zeros_(parameter)
    return transformer


def build_autoencoder() -> AutoencoderKL:
    vae = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=VAE_CHANNELS,
        layers_per_block=1,
        latent_channels=CHANNELS,
        norm_num_groups=8,
        sample_size=256,
        scaling_factor=1.0,
        shift_factor=0.0,
        use_quant_conv=False,
        use_post_quant_conv=False,
        mid_block_add_attention=False,
    )
    for name, parameter in vae.named_parameters():
        if name.endswith(("conv2.weight", "conv2.bias")):
            nn.init.zeros_(parameter)
    with torch.no_grad():
        # The second half of what the encoder puts out is a log variance: next to none.
        vae.encoder.conv_out.weight[CHANNELS:] = 0
        vae.encoder.conv_out.bias[CHANNELS:] = -30
    return vae


def build_scheduler(shift: float) -> FlowMatchEulerDiscreteScheduler:
    return FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, shift=shift)


def build_pipeline(
    transformer: SD3Transformer2DModel,
    text_encoders: tuple[CLIPTextModelWithProjection, CLIPTextModelWithProjection],
    vae: AutoencoderKL,
    shift: float,
) -> StableDiffusion3Pipeline:
    tokenizer, silent = build_tokenizer(), build_silent_tokenizer()
    return StableDiffusion3Pipeline(
        transformer=transformer,
        scheduler=build_scheduler(shift),
        vae=vae,
        text_encoder=text_encoders[0],
        tokenizer=tokenizer,
        text_encoder_2=text_encoders[1],
        tokenizer_2=build_tokenizer(),
        text_encoder_3=build_silent_encoder(silent),
        tokenizer_3=silent,
    )


def save_pipeline(pipeline: StableDiffusion3Pipeline, folder: Path, dtype: torch.dtype) -> None:
    """Write the pipeline in a stored precision; the pipeline itself ends up in that precision."""
    pipeline.to(dtype)
    pipeline.save_pretrained(folder, safe_serialization=True)
    for path in folder.rglob("*.json"):
        content = json.loads(path.read_text())
        if not isinstance(content, dict):
            continue
        # Saved configs name the folder they came from; a shipped file must not.
        content.pop("_name_or_path", None)
        # Left to themselves, transformers' models load in this precision, and diffusers' in
        # float32: the pipeline has to be of one precision to run.
        if "dtype" in content:
            content["dtype"] = "float32"
        path.write_text(json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
