"""A pipeline as a generator: what comes out, and what closing it leaves behind."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tpu_ui.errors import BrokenImageError
from tpu_ui.runtime.device import open_device
from tpu_ui.runtime.generate import Encoded, StepDone, make_image
from tpu_ui.runtime.pace import MOST_STEPS, Pace
from tpu_ui.shapes import ImageSize

SIZE = ImageSize(4, 2)


class Pipeline:
    """The calls that diffusers' pipelines make, without a model."""

    def __init__(self, picture: np.ndarray, latent: float = 0.0) -> None:
        self.picture = picture
        self.latent = latent
        self.freed = 0
        self.steps_run = 0

    def encode_prompt(self, prompt: str) -> str:
        return f"embeddings of {prompt}"

    def maybe_free_model_hooks(self) -> None:
        self.freed += 1

    def __call__(self, *, prompt: str, num_inference_steps: int, **call: Any) -> SimpleNamespace:
        assert self.encode_prompt(prompt) == f"embeddings of {prompt}"
        for step in range(num_inference_steps):
            self.steps_run += 1
            values = {"latents": torch.full((1,), self.latent)}
            assert call["callback_on_step_end"](self, step, None, values) is values
        return SimpleNamespace(images=[self.picture])


def run(pipeline: Pipeline, steps: int = 3, interval_s: float = 0.0, preview: Any = None) -> Any:
    arguments = {"prompt": "a hill", "num_inference_steps": steps}
    return make_image(
        pipeline,
        arguments,
        SIZE,
        1,
        device=open_device("cpu"),
        encoded=lambda encode, *args, **kwargs: encode(*args, **kwargs),
        pace=Pace(interval_s),
        preview=preview,
    )


def drain(generator: Any) -> tuple[list[object], np.ndarray]:
    moments = []
    while True:
        try:
            moments.append(next(generator))
        except StopIteration as end:
            return moments, end.value


def test_moments_come_in_order_and_the_picture_last() -> None:
    pipeline = Pipeline(np.full((2, 4, 3), 0.5, np.float32))
    moments, pixels = drain(run(pipeline))
    assert moments == [Encoded(), StepDone(1), StepDone(2), StepDone(3)]
    assert pixels.dtype == np.uint8
    assert pixels.shape == (2, 4, 3)
    assert (pixels == 128).all()


def test_quick_steps_are_told_of_in_groups_and_the_last_always() -> None:
    moments, _ = drain(run(Pipeline(np.zeros((2, 4, 3), np.float32)), 20, interval_s=1000.0))
    assert moments == [Encoded(), StepDone(1), StepDone(1 + MOST_STEPS), StepDone(20)]


def test_what_is_shown_of_a_step_is_that_steps() -> None:
    shown = []

    class Counting(Pipeline):
        latent = property(lambda self: float(self.steps_run), lambda self, _: None)  # type: ignore[assignment]

    def after(step: int, latents: torch.Tensor) -> bytes:
        shown.append((step, latents.item()))
        return b""

    pipeline = Counting(np.zeros((2, 4, 3), np.float32))
    drain(run(pipeline, 20, interval_s=1000.0, preview=SimpleNamespace(after=after)))
    assert shown == [(1, 1.0), (17, 17.0), (20, 20.0)]


def test_closing_stops_before_the_next_step_and_leaves_the_pipeline_as_it_was() -> None:
    pipeline = Pipeline(np.zeros((2, 4, 3), np.float32))
    generator = run(pipeline, steps=30)
    next(generator)
    next(generator)
    generator.close()
    assert pipeline.steps_run == 1
    assert pipeline.freed == 1
    assert "encode_prompt" not in vars(pipeline)
    assert len(drain(run(pipeline))[0]) == 4


def test_error_in_the_pipeline_comes_out_of_the_generator() -> None:
    def fail(prompt: str) -> str:
        raise RuntimeError("no")

    pipeline = Pipeline(np.zeros((2, 4, 3), np.float32))
    pipeline.encode_prompt = fail  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="no"):
        next(run(pipeline))


@pytest.mark.parametrize(
    "pipeline",
    [
        Pipeline(np.full((2, 4, 3), np.nan, np.float32)),
        Pipeline(np.zeros((2, 4, 3), np.float32), latent=float("inf")),
    ],
    ids=["decoder", "latents"],
)
def test_values_that_are_not_numbers_are_an_error(pipeline: Pipeline) -> None:
    with pytest.raises(BrokenImageError, match="NaN"):
        drain(run(pipeline))


def test_picture_of_another_size_is_an_error() -> None:
    with pytest.raises(BrokenImageError, match="asked for"):
        drain(run(Pipeline(np.zeros((4, 2, 3), np.float32))))
