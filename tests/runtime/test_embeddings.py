"""The embeddings of recent prompts: exact, bounded."""

from typing import Any

import pytest
import torch

from tpu_ui.runtime.embeddings import RecentEmbeddings


class Encoder:
    """Gives a new object each time it runs."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, *args: Any, **kwargs: Any) -> object:
        self.runs += 1
        return object()


def test_same_inputs_run_the_encoder_once() -> None:
    encoder, recent = Encoder(), RecentEmbeddings()
    first = recent.encode(
        "fused", encoder, "a hill", negative_prompt="", device=torch.device("cpu")
    )
    again = recent.encode(
        "fused", encoder, "a hill", device=torch.device("cpu"), negative_prompt=""
    )
    assert first is again
    assert encoder.runs == 1


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("a  hill",), {"guided": True}),
        (("a hill",), {"guided": False}),
        (("a hill",), {"guided": 1}),
        (("a hill",), {}),
        ((["a hill"],), {"guided": True}),
        (("a hill",), {"guided": True, "device": torch.device("cpu")}),
    ],
)
def test_any_other_input_runs_it_again(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    encoder, recent = Encoder(), RecentEmbeddings()
    recent.encode("fused", encoder, "a hill", guided=True)
    recent.encode("fused", encoder, *args, **kwargs)
    assert encoder.runs == 2


def test_another_mode_has_its_own() -> None:
    encoder, recent = Encoder(), RecentEmbeddings()
    recent.encode("fused", encoder, "a hill")
    recent.encode("eager", encoder, "a hill")
    assert encoder.runs == 2


def test_tensor_is_never_taken_for_another() -> None:
    encoder, recent = Encoder(), RecentEmbeddings()
    for _ in range(2):
        recent.encode("fused", encoder, prompt_embeds=torch.zeros(1))
    assert encoder.runs == 2
    assert len(recent) == 0


def test_oldest_is_forgotten_first() -> None:
    encoder, recent = Encoder(), RecentEmbeddings(limit=2)
    for prompt in ("a", "b", "a", "c"):
        recent.encode("fused", encoder, prompt)
    assert (len(recent), encoder.runs) == (2, 3)
    recent.encode("fused", encoder, "a")
    assert encoder.runs == 3
    recent.encode("fused", encoder, "b")
    assert encoder.runs == 4
