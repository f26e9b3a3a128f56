"""Claims about the counter of tokens: it agrees with what the runtime says was cut."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from tests.runtime.twins.tokenizers import clip_tokenizer, mistral_tokenizer, t5_tokenizer
from tpu_ui.presets import PRESETS_FOLDER, Preset, load_all
from tpu_ui.runtime.text import cut_notices, readers
from tpu_ui.tokens import count

TEXTS = (
    "a red house",
    "a small red house left of two green trees under a night sky " * 3,
    "Ünïcode and 漢字 and 🏔️, twice:   Ünïcode and 漢字 and 🏔️ at the end of a long, long line",
    "x" * 300,
    "<|endoftext|> </s> is text like any other, isn't it? " * 2,
    " ",
)


def demo_model(folder: Path) -> Any:
    return SimpleNamespace(
        **{
            name: AutoTokenizer.from_pretrained(PRESETS_FOLDER / "demo" / name)
            for name in ("tokenizer", "tokenizer_2")
        }
    )


def clip_and_t5(folder: Path) -> Any:
    return SimpleNamespace(tokenizer=clip_tokenizer(folder / "clip")[0], tokenizer_2=t5_tokenizer())


def a_processor(folder: Path) -> Any:
    return SimpleNamespace(tokenizer=SimpleNamespace(tokenizer=mistral_tokenizer()))


def by_the_tokenizer_itself(tokenizer: Any, preset: Preset, text: str) -> tuple[int, int]:
    """Tokens and limit, as transformers counts them when it cuts."""
    bare = getattr(tokenizer, "tokenizer", tokenizer)
    assert isinstance(bare, PreTrainedTokenizerBase)
    length = len(bare(text, verbose=False)["input_ids"]) + preset.template_tokens
    return length, min(preset.text_tokens, bare.model_max_length)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:12])
@pytest.mark.parametrize("pipeline", [demo_model, clip_and_t5, a_processor])
def test_counter_agrees_with_the_tokenizers_and_with_the_runtimes_notices(
    pipeline: Any, text: str, tmp_path: Path
) -> None:
    preset = load_all()["demo"].model_copy(update={"template_tokens": 3})
    made = pipeline(tmp_path)
    counts = count(readers(made, preset), text)
    told = {encoder: (one.used, one.limit) for one in counts for encoder in one.encoders}
    names = ("tokenizer", "tokenizer_2")
    assert told == {
        name.replace("tokenizer", "text_encoder"): by_the_tokenizer_itself(
            getattr(made, name), preset, text
        )
        for name in names
        if hasattr(made, name)
    }
    notices = cut_notices(made, preset, text, "The prompt")
    cut = [one for one in counts if one.used > one.limit]
    assert len(notices) == len(cut)
    for notice, one in zip(notices, cut, strict=True):
        assert f"is {one.used} tokens long; {' and '.join(one.encoders)} read" in notice
        assert f"only {one.limit}." in notice
        assert text.rstrip().endswith(one.cut)
        assert repr(one.cut[-10:])[1:-1] in notice


def test_what_is_read_and_what_is_cut_make_the_whole_text(tmp_path: Path) -> None:
    preset = load_all()["demo"]
    made = demo_model(tmp_path)
    words = [f"house {number}" for number in range(40)]
    (one,) = count(readers(made, preset), " ".join(words))
    kept = " ".join(words).removesuffix(one.cut).rstrip()
    (again,) = count(readers(made, preset), kept)
    assert (again.used, again.cut) == (one.limit, "")


def test_counting_leaves_the_pipelines_tokenizers_as_they_were(tmp_path: Path) -> None:
    preset = load_all()["demo"]
    made = demo_model(tmp_path)
    wishes = {"padding": "max_length", "max_length": 32, "truncation": True, "verbose": False}
    before = made.tokenizer("a house " * 40, **wishes)["input_ids"]
    cut_notices(made, preset, "a house " * 40, "The prompt")
    assert made.tokenizer("a house " * 40, **wishes)["input_ids"] == before
    assert len(made.tokenizer("a house", **wishes)["input_ids"]) == 32


def test_a_tokenizer_used_before_counts_as_a_fresh_one(tmp_path: Path) -> None:
    preset = load_all()["demo"]
    made = demo_model(tmp_path)
    fresh = count(readers(made, preset), TEXTS[1])
    made.tokenizer("a house", padding="max_length", max_length=32, truncation=True)
    assert count(readers(made, preset), TEXTS[1]) == fresh
