"""Tokenizers that know no words: a character is a token, with the special tokens of each kind."""

import json
import string
from pathlib import Path

from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from tokenizers.processors import TemplateProcessing
from transformers import CLIPTokenizer, PreTrainedTokenizerFast

CLIP_TOKENS = 24
T5_TOKENS = 48


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
