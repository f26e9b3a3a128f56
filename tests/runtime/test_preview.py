"""Claims about previews: what latents are taken for, and when. No model, and no device."""

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import Flux2KleinPipeline, Flux2Pipeline
from PIL import Image

from tpu_ui.errors import LoadError
from tpu_ui.presets import load_all
from tpu_ui.previews import PreviewMap
from tpu_ui.runtime.preview import INTERVAL_S, Preview, check, unpacked, without_noise
from tpu_ui.shapes import ImageSize

SIZE = ImageSize(12, 8)  # three latents wide and two high, of 4 pixels each
COLOURS = PreviewMap(rgb=((1, 0, 0), (0, 1, 0), (0, 0, 1)))
SIGMAS = torch.tensor([1.0, 0.8, 0.5, 0.2, 0.0])


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def preview(clock: Clock, sigmas: torch.Tensor | None = SIGMAS) -> Preview:
    scheduler = SimpleNamespace() if sigmas is None else SimpleNamespace(sigmas=sigmas)
    return Preview(SimpleNamespace(scheduler=scheduler), COLOURS, SIZE, clock)


def noisy(step: int) -> torch.Tensor:
    """After `step`, on the straight way from noise to a picture that is white on the left."""
    clean = torch.zeros(1, 3, 2, 3) - 1
    clean[:, :, :, 0] = 1
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    return torch.lerp(clean, noise, SIGMAS[step])


def seen(jpeg: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(jpeg)) as picture:
        return np.asarray(picture.convert("RGB"), np.int16)


def test_the_picture_is_seen_through_the_noise_as_soon_as_two_steps_are_there() -> None:
    shown = preview(Clock())
    assert shown.after(1, noisy(1)) == b""
    pixels = seen(shown.after(2, noisy(2)))
    assert pixels.shape == (2, 3, 3)
    assert pixels[:, 0, 0].min() > 200 > 60 > pixels[:, 2].max()


def test_previews_come_no_oftener_than_their_interval() -> None:
    clock = Clock()
    shown = preview(clock)
    shown.after(1, noisy(1))
    assert shown.after(2, noisy(2))
    clock.now_s += 0.9 * INTERVAL_S
    assert not shown.after(3, noisy(3))
    clock.now_s += 0.2 * INTERVAL_S
    assert shown.after(4, noisy(4))


def test_a_host_without_time_makes_fewer_previews() -> None:
    class Slow(Clock):
        def __call__(self) -> float:
            self.now_s += 1.0  # each look at it
            return self.now_s

    shown = preview(Slow())
    made = [shown.after(1 + step % 3, noisy(1 + step % 3)) for step in range(110)]
    assert [at for at, jpeg in enumerate(made) if jpeg] == [1, 51, 101]


def test_an_only_step_that_leaves_no_noise_is_shown() -> None:
    shown = preview(Clock(), torch.tensor([1.0, 0.0]))
    assert seen(shown.after(1, noisy(4)))[0, 0, 0] > 200


def test_latents_of_a_scheduler_without_sigmas_are_shown_as_they_are() -> None:
    assert seen(preview(Clock(), None).after(1, noisy(4)))[0, 0, 0] > 200


@pytest.mark.parametrize("sigma", [14.6, 1.0, 0.3])
def test_a_step_of_any_sampler_that_goes_by_sigmas_leads_to_the_picture(sigma: float) -> None:
    clean, noise = np.float32(0.7), np.float32(-1.3)
    before, now = ((clean + s * noise) for s in (sigma, sigma / 2))
    assert without_noise(sigma, before, sigma / 2, now) == pytest.approx(clean, abs=1e-5)


def test_broken_latents_are_no_error_of_the_preview() -> None:
    shown = preview(Clock())
    for step in (1, 2):
        jpeg = shown.after(step, torch.full((1, 3, 2, 3), float("nan")))
    assert seen(jpeg).shape == (2, 3, 3)


@pytest.mark.parametrize("kind", [Flux2Pipeline, Flux2KleinPipeline])
def test_patches_of_flux2_go_where_its_own_way_puts_them(kind: Any) -> None:
    size = ImageSize(48, 32)
    tokens = torch.arange(1 * 6 * 16).float().reshape(1, 6, 16)
    ids = kind._prepare_latent_ids(torch.empty(1, 16, 2, 3))
    theirs = kind._unpatchify_latents(kind._unpack_latents_with_ids(tokens, ids))
    pipeline = SimpleNamespace(vae_scale_factor=8, _unpatchify_latents=kind._unpatchify_latents)
    assert (unpacked(pipeline, tokens, size) == theirs[0].numpy()).all()


def test_a_map_of_another_vae_is_told_when_the_model_is_loaded() -> None:
    sdxl = load_all()["sdxl"]
    with pytest.raises(LoadError, match=r"sdxl.toml: preview: .* 4 channels.* have 16"):
        check(sdxl, SimpleNamespace(config={"latent_channels": 16}))
    check(sdxl, SimpleNamespace(config={"z_dim": 4}))
    check(sdxl.model_copy(update={"preview": None}), SimpleNamespace(config={}))
