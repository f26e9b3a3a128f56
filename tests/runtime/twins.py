"""Tiny twins of the models: the same classes and components, narrow and shallow, random weights."""

import json
import string
from pathlib import Path

import torch
from diffusers import (
    AutoencoderKL,
    DiffusionPipeline,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
)
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from tokenizers.processors import TemplateProcessing
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    PreTrainedTokenizerFast,
    T5Config,
    T5EncoderModel,
)

from tpu_ui.presets import Preset, load

PROMPT_TOKENS = 24

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
"""

FLUX1_TOML = """
name = "{name}"
title = "Tiny FLUX.1"
description = "A twin of FLUX.1 [schnell] for the tests."
repository = "./{name}"
licence = "Apache-2.0"
pipeline = "FluxPipeline"
dtype = "float32"
sizes = ["32x32", "64x32"]
negative_prompt = false
text_tokens = 48

[steps]
minimum = 1
maximum = 12
default = 4

[guidance]
minimum = 0.0
maximum = 0.0
default = 0.0

[components]
denoiser = "transformer"
text_encoders = ["text_encoder", "text_encoder_2"]
vae = "vae"

[call]
max_sequence_length = 48
"""


def sd3(folder: Path, name: str = "tiny-sd3", seed: int = 0, broken: bool = False) -> Preset:
    """Make a tiny Stable Diffusion 3 in `folder`. A broken one has NaN in its transformer."""
    torch.manual_seed(seed)
    tokenizer, first, last = _tokenizer(folder / f"{name}-vocabulary")
    transformer = SD3Transformer2DModel(
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
    )
    if broken:
        with torch.no_grad():
            transformer.proj_out.weight.fill_(float("nan"))
    pipeline = StableDiffusion3Pipeline(
        transformer=transformer,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=_autoencoder(),
        text_encoder=_clip(first, last),
        text_encoder_2=_clip(first, last),
        text_encoder_3=None,
        tokenizer=tokenizer,
        tokenizer_2=tokenizer,
        tokenizer_3=None,
    )
    return _saved(pipeline, folder, name, SD3_TOML)


def flux1(folder: Path, name: str = "tiny-flux1") -> Preset:
    """Make a tiny FLUX.1 [schnell] in `folder`: no guidance, a CLIP and a T5 encoder."""
    torch.manual_seed(0)
    tokenizer, first, last = _tokenizer(folder / f"{name}-vocabulary")
    characters = _character_tokenizer()
    pipeline = FluxPipeline(
        transformer=FluxTransformer2DModel(
            patch_size=1,
            in_channels=16,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=32,
            pooled_projection_dim=32,
            guidance_embeds=False,
            axes_dims_rope=(4, 4, 8),
        ),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=1.0),
        vae=_autoencoder(),
        text_encoder=CLIPTextModel(_clip_config(first, last)),
        tokenizer=tokenizer,
        text_encoder_2=T5EncoderModel(
            T5Config(
                vocab_size=len(characters), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4
            )
        ),
        tokenizer_2=characters,
    )
    return _saved(pipeline, folder, name, FLUX1_TOML)


def _saved(pipeline: DiffusionPipeline, folder: Path, name: str, toml: str) -> Preset:
    pipeline.save_pretrained(folder / name)
    path = folder / f"{name}.toml"
    path.write_text(toml.format(name=name))
    return load(path)


def _character_tokenizer() -> PreTrainedTokenizerFast:
    """T5's padding and end, with single characters for words."""
    specials = ["<pad>", "</s>", "<unk>"]
    words = {word: i for i, word in enumerate([*specials, *string.printable])}
    backend = Tokenizer(WordLevel(words, unk_token="<unk>"))
    backend.pre_tokenizer = Split(Regex("."), "isolated")
    backend.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=48,
    )


def _autoencoder() -> AutoencoderKL:
    return AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(8, 16),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=4,
        scaling_factor=0.2,  # spreads the values, so that pictures differ in more than grey
        shift_factor=0.0,
        use_quant_conv=False,
        use_post_quant_conv=False,
    )


def _tokenizer(folder: Path) -> tuple[CLIPTokenizer, int, int]:
    """A tokenizer of single characters, with the ids of its first and last special token."""
    folder.mkdir()
    letters = [letter for letter in string.printable if letter.strip()]
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    tokenizer = CLIPTokenizer(
        str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=PROMPT_TOKENS
    )
    return tokenizer, len(words) - 2, len(words) - 1


def _clip(first: int, last: int) -> CLIPTextModelWithProjection:
    return CLIPTextModelWithProjection(_clip_config(first, last))


def _clip_config(first: int, last: int) -> CLIPTextConfig:
    return CLIPTextConfig(
        vocab_size=last + 1,
        hidden_size=32,
        intermediate_size=64,
        projection_dim=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=PROMPT_TOKENS,
        bos_token_id=first,
        eos_token_id=last,
        pad_token_id=last,
    )
