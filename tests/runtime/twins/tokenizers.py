"""Tokenizers that know no words: a character is a token, with the special tokens of each kind."""

import json
import string
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE, WordLevel
from tokenizers.pre_tokenizers import ByteLevel, Split
from tokenizers.processors import TemplateProcessing
from transformers import CLIPTokenizer, PreTrainedTokenizerFast, Qwen2Tokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

CLIP_TOKENS = 24
T5_TOKENS = 48
CHAT_TOKENS = 64

# What `QwenImagePipeline.prompt_template_encode` is made of; 34 tokens come before the prompt.
QWEN_WORDS = (
    *("system", "user", "assistant", "Describe", " the", " image", " by", " detailing", " color"),
    *(" shape", " size", " texture", " quantity", " text", " spatial", " relationships", " of"),
    *(" objects", " and", " background"),
)

# The parts of Qwen3's and Mistral's chat templates that the pipelines come upon.
QWEN_TEMPLATE = """\
{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% endif %}{% endif %}"""
MISTRAL_TEMPLATE = """\
<s>{% for message in messages %}{% if message.role == "system" %}[SYSTEM]{% else %}[INST]\
{% for part in message.content %}{{ part.text }}{% endfor %}[/INST]{% endif %}{% endfor %}"""


def clip_tokenizer(folder: Path) -> tuple[CLIPTokenizer, int, int]:
    """A tokenizer of single characters, with the ids of its first and last special token."""
    folder.mkdir()
    letters = [letter for letter in string.printable if letter.strip()]
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    tokenizer = CLIPTokenizer(
        str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=CLIP_TOKENS
    )
    return tokenizer, len(words) - 2, len(words) - 1


def t5_tokenizer() -> PreTrainedTokenizerFast:
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
        model_max_length=T5_TOKENS,
    )


def qwen_tokenizer() -> Qwen2Tokenizer:
    """Qwen's byte-level tokenizer with its chat template; a token is a byte, or a whole word of
    the frame that Qwen-Image puts around a prompt, whose tokens the pipeline counts on.
    """
    pairs = list(dict.fromkeys(pair for word in QWEN_WORDS for pair in _growing(word)))
    words = [*bytes_to_unicode().values(), *("".join(pair) for pair in pairs), "<|endoftext|>"]
    return Qwen2Tokenizer(
        vocab={word: i for i, word in enumerate(words)},
        merges=pairs,
        extra_special_tokens=["<|im_start|>", "<|im_end|>"],
        chat_template=QWEN_TEMPLATE,
        model_max_length=CHAT_TOKENS,
    )


def mistral_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer with the chat template of FLUX.2 [dev]'s processor, whose system
    message is one token here: nearly 200 bytes of it would leave no room for a prompt.
    """
    specials = ["<unk>", "<s>", "</s>", "[SYSTEM]", "[INST]", "[/INST]", "<pad>"]
    words = [*specials, *bytes_to_unicode().values()]
    backend = Tokenizer(BPE({word: i for i, word in enumerate(words)}, []))
    backend.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = ByteLevelDecoder()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        extra_special_tokens=["[SYSTEM]", "[INST]", "[/INST]"],
        chat_template=MISTRAL_TEMPLATE,
        padding_side="left",
        model_max_length=CHAT_TOKENS,
    )


def _growing(word: str) -> Iterator[tuple[str, str]]:
    """The pairs that make one token of a word, letter by letter."""
    word = word.replace(" ", "Ġ")  # as byte-level tokenizers write it
    return ((word[:end], word[end]) for end in range(1, len(word)))
