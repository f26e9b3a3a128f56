"""Claims about each model's examples: they are there, and nothing of them is cut or refused."""

from types import SimpleNamespace

import pytest
from transformers import AutoTokenizer

from demo_model.captions import parse
from tpu_ui.presets import PRESETS_FOLDER, load_all
from tpu_ui.request import validate
from tpu_ui.runtime.text import cut_notices
from tpu_ui.shapes import Device

MODELS = load_all()
# CLIP's 77 tokens are the least that any model with weights elsewhere reads; a word is rarely two.
MAX_WORDS = 35


@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_three_different_examples_within_its_limits(model: str) -> None:
    examples = MODELS[model].examples
    assert len(set(examples)) == len(examples) >= 3
    for example in examples:
        request = validate(MODELS[model].limits(Device.TPU), prompt=example)
        assert request.written == (example, "")
        assert len(example.split()) <= MAX_WORDS


def test_demo_model_reads_and_knows_the_whole_of_its_examples() -> None:
    made = SimpleNamespace(
        tokenizer=AutoTokenizer.from_pretrained(PRESETS_FOLDER / "demo" / "tokenizer"),
        tokenizer_2=AutoTokenizer.from_pretrained(PRESETS_FOLDER / "demo" / "tokenizer_2"),
    )
    for example in MODELS["demo"].examples:
        assert cut_notices(made, MODELS["demo"], example, "The prompt") == []
        wanted = parse(example)
        assert wanted.groups, f"nothing in {example!r} is a thing that it draws"
        assert wanted.sky or wanted.ground
