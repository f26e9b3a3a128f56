"""One image as a generator: events come out, and closing it stops the pipeline.

The denoising loop is diffusers' own. A pipeline only calls back; a greenlet turns those calls into
yields, so that whoever drives the generator decides after every step whether to go on.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from greenlet import getcurrent, greenlet

from tpu_ui.errors import BrokenImageError, JobCancelledError
from tpu_ui.runtime.device import OpenDevice
from tpu_ui.runtime.pace import Pace
from tpu_ui.runtime.preview import Preview
from tpu_ui.shapes import ImageSize


@dataclass(frozen=True, slots=True)
class Encoded:
    """The text encoders have run; denoising begins."""


@dataclass(frozen=True, slots=True)
class StepDone:
    """Denoising step `step` (from 1) is done. Quick steps go by without one.

    `preview`: what the picture looks like by now, a small JPEG; mostly empty.
    """

    step: int
    preview: bytes = b""


Moment = Encoded | StepDone
Picture = npt.NDArray[np.uint8]  # height x width x 3


def make_image(
    pipeline: Any,
    arguments: dict[str, Any],
    size: ImageSize,
    seed: int,
    device: OpenDevice,
    encoded: Callable[..., Any],
    pace: Pace,
    preview: Preview | None = None,
) -> Generator[Moment, None, Picture]:
    """Run the pipeline once for one image; returns its pixels.

    `arguments` are the pipeline's own, without size, seed and callbacks. `pace` says which steps
    to wait for, and `preview` shows the picture then.
    `encoded(encode, ...)` gives what `encode(...)` gives, or gave before. Raises BrokenImageError
    if the latents or the picture are not numbers.
    """

    def run(tell: Callable[[Moment], None]) -> Picture:
        encode = pipeline.encode_prompt
        before = torch.empty(0)  # latents of the step before

        def encode_and_tell(*args: Any, **kwargs: Any) -> Any:
            embeddings = encoded(encode, *args, **kwargs)
            device.synchronize()  # else the text encoders would count as the first step
            pace.start()
            tell(Encoded())
            return embeddings

        def step_and_tell(_: Any, index: int, timestep: Any, values: dict[str, Any]) -> Any:
            nonlocal before
            step, last = index + 1, arguments["num_inference_steps"]
            latents = values["latents"]
            device.send(latents)  # else a step that is not waited for runs into the next
            due = last if step == last else pace.due(step)
            if due is not None:
                reached = latents if due == step else before
                device.wait_for(reached)
                pace.waited(due)
                tell(StepDone(due, preview.after(due, reached) if preview else b""))
            before = latents
            if step == last:
                _check_latents(latents)
            return values

        pipeline.encode_prompt = encode_and_tell
        try:
            output = pipeline(
                **arguments,
                height=size.height_px,
                width=size.width_px,
                # Noise from the host is the same on every device.
                generator=torch.Generator("cpu").manual_seed(seed),
                output_type="np",
                callback_on_step_end=step_and_tell,
                callback_on_step_end_tensor_inputs=["latents"],
            )
        finally:
            del pipeline.encode_prompt  # the class's own shows again
            pipeline.maybe_free_model_hooks()  # a cancelled run has not put its components back
        return _to_pixels(output.images[0], size)

    return (yield from _as_generator(run))


def _as_generator(
    run: Callable[[Callable[[Moment], None]], Picture],
) -> Generator[Moment, None, Picture]:
    """Run `run(tell)`; each `tell(x)` becomes a yield of x. Closing raises inside that call."""

    def tell(moment: Moment) -> None:
        runner.parent.switch(moment)  # back to the driver; returns when it wants the next moment

    runner: Any = greenlet(lambda: run(tell))
    value = runner.switch()
    try:
        while not runner.dead:
            yield value
            runner.parent = getcurrent()
            value = runner.switch()
    finally:
        if not runner.dead:
            _unwind(runner)
    return value  # type: ignore[no-any-return]


def _unwind(runner: Any) -> None:
    """End a run that waits in `tell`, and let its `finally` clauses pass."""
    runner.parent = getcurrent()
    try:
        runner.throw(JobCancelledError("The job was cancelled."))
    except JobCancelledError:
        return


def _check_latents(latents: torch.Tensor) -> None:
    # On the host: there a reduction compiles nothing, and the latents are small.
    if not bool(torch.isfinite(latents.cpu()).all()):
        raise BrokenImageError(
            "The model made values that are not numbers (NaN). Try another seed or guidance"
            " scale; if none helps, the model's files may be damaged."
        )


def _to_pixels(picture: npt.NDArray[np.float32], size: ImageSize) -> Picture:
    """uint8 pixels of a float picture in [0, 1]."""
    expected = (size.height_px, size.width_px, 3)
    if picture.shape != expected:
        raise BrokenImageError(
            f"The model made {picture.shape} values where {expected} were asked for."
        )
    if not np.isfinite(picture).all():
        raise BrokenImageError(
            "The decoder made values that are not numbers (NaN). Try another seed."
        )
    return (picture * 255).round().astype(np.uint8)
