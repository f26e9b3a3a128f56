"""A runtime without torch and without a model, for tests and for work on the page.

It draws one flat colour, taken from the seed, and counts four "programs" for each mode and size.
Words choose its faults, so that a test never patches anything in a worker process:

in a prompt: `fake:slow` (0.2 s a step), `fake:preview` (a preview a step, of the picture's colour),
`fake:crash` (kills its process at step 1), `fake:error`, `fake:oom`, `fake:broken` (all at step 1),
`fake:stuck` (step 1 never ends), `fake:compile` (compiles one program though it is warm),
`fake:beside` (one of another size is compiled meanwhile),
`fake:wrong-size` (a picture of half the width);

in a preset's description: `fake:slow-load` and `fake:slow-warm` (0.2 s a part), `fake:block-warm`
(the first program takes 1.5 s without an event), `fake:load-error`, `fake:load-crash`, and with a
size, as in `fake:warm-error=320x192`, `fake:warm-error`, `fake:warm-crash`; with a strategy, as in
`fake:load-oom=resident`, `fake:load-oom`, `fake:warm-oom`. All but the slow ones stop as soon as a
file `fake-mended` lies in the cache folder.
"""

import io
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from tpu_ui import __version__
from tpu_ui.errors import (
    BrokenImageError,
    DeviceUnavailableError,
    LoadError,
    ModeUnavailableError,
    OutOfDeviceMemoryError,
)
from tpu_ui.metadata import ImageInfo, Timings
from tpu_ui.presets import Preset, unavailable_mode
from tpu_ui.protocol import (
    Generate,
    ImageMade,
    Load,
    Loading,
    Memory,
    Started,
    Stepped,
    Warmed,
    Warming,
    WarmUp,
)
from tpu_ui.request import GenerationRequest
from tpu_ui.shapes import Device, ImageSize, Mode
from tpu_ui.strategy import RESIDENT
from tpu_ui.tokens import Reader

CHIP = "fake"
MEMORY = Memory(in_use_bytes=5 * 2**30, free_bytes=11 * 2**30, of_chip=True)
STEP_S = 0.2
BLOCK_S = 1.5
STAGES = ("text", "step 1 of 2", "step 2 of 2", "image")


class FakeRuntime:
    """Implements `tpu_ui.runtime.interface.Runtime`. There is no TPU in it: "tpu" is refused."""

    def __init__(self, device: str, cache: Path) -> None:
        if device == Device.TPU:
            raise DeviceUnavailableError("The fake runtime has no TPU; use software-tpu or cpu.")
        self._device = Device.SOFTWARE_TPU if device == "auto" else Device(device)
        self._cache = cache
        self._preset: Preset | None = None
        self._placement = RESIDENT
        self._warm: set[tuple[Mode, ImageSize]] = set()
        self._programs = 0
        self._beside: set[int] = set()
        self._never = threading.Event()  # waiting for it is how this runtime takes its time

    def started(self) -> Started:
        """What this runtime pretends to run on."""
        return Started(
            os.getpid(), self._device, CHIP, None, "a fake, for tests", (("tpu_ui", __version__),)
        )

    def load(self, command: Load) -> Iterator[Loading]:
        """Take the preset. Raises LoadError when its description asks for that."""
        words = command.preset.description
        mended = self._mended()
        components = command.preset.components
        names = (*components.text_encoders, components.denoiser, components.vae)
        for index, name in enumerate(names, start=1):
            self._pause("fake:slow-load" in words)
            if "fake:load-crash" in words and not mended:
                _die()
            if "fake:load-error" in words and not mended:
                raise LoadError(f"The weights of {name} are missing (fake:load-error).")
            if f"fake:load-oom={command.placement.strategy}" in words and not mended:
                raise OutOfDeviceMemoryError(f"There is no room for {name} (fake:load-oom).")
            yield Loading(command.job, name, index, len(names), index * 1_000_000)
        self._preset, self._placement = command.preset, command.placement
        self._warm.clear()

    def loading(self, command: Load) -> Loading | None:
        """Nothing between two components."""
        return None

    def readers(self) -> tuple[Reader, ...]:
        """A word is a token, and two stand around a text."""
        preset = self._loaded()
        return tuple(
            Reader(encoder, preset.text_tokens, 2, _words_as_tokens())
            for encoder in preset.components.text_encoders
        )

    def warm_up(self, command: WarmUp) -> Iterator[Warming | Warmed]:
        """Count four programs, unless this mode and size has them already."""
        words = self._loaded().description
        begin_s, before = time.monotonic(), self._programs
        self._check(command.mode)
        for index, stage in enumerate(STAGES):
            yield Warming(
                command.job,
                command.mode,
                command.size,
                stage,
                self._programs - before,
                time.monotonic() - begin_s,
                command.expected_s,
            )
            if f"fake:warm-crash={command.size}" in words and not self._mended():
                _die()
            if f"fake:warm-error={command.size}" in words and not self._mended():
                raise RuntimeError("the compiler gave up (fake:warm-error)")
            if f"fake:warm-oom={self._placement.strategy}" in words and not self._mended():
                raise OutOfDeviceMemoryError("The chip's memory is used up (fake:warm-oom).")
            self._never.wait(BLOCK_S if "fake:block-warm" in words and index == 0 else 0)
            self._pause("fake:slow-warm" in words)
            self._programs += (command.mode, command.size) not in self._warm
        self._warm.add((command.mode, command.size))
        yield Warmed(
            command.job,
            command.mode,
            command.size,
            self._programs - before,
            time.monotonic() - begin_s,
        )

    def generate(self, command: Generate) -> Iterator[Stepped | ImageMade]:
        """Step through each image, then hand out a flat picture."""
        self._check(command.request.mode)
        for image in range(1, command.request.count + 1):
            yield from self._image(command, image)

    def programs_compiled(self) -> int:
        """Programs counted since the start."""
        return self._programs

    def programs_since(self, before: int) -> int:
        """Those after the first `before`, but for what a prompt has had compiled beside."""
        return len(self.program_names(before))

    def memory(self) -> Memory:
        """Always the same."""
        return MEMORY

    def program_names(self, after: int) -> tuple[str, ...]:
        """One made-up name a program."""
        own = (one for one in range(after, self._programs) if one not in self._beside)
        return tuple(f"fake_{number}" for number in own)

    def _image(self, command: Generate, image: int) -> Iterator[Stepped | ImageMade]:
        request = command.request
        begin_s, before = time.monotonic(), self._programs
        if (request.mode, request.size) not in self._warm:
            self._programs += len(STAGES)
            self._warm.add((request.mode, request.size))
        if "fake:compile" in request.prompt:
            self._programs += 1
        if "fake:beside" in request.prompt:
            self._beside.add(self._programs)
            self._programs += 1
        seed, size = request.seeds[image - 1], request.size
        preview = flat_preview(size, seed) if "fake:preview" in request.prompt else b""
        yield Stepped(command.job, image, request.count, 0, request.steps, None)
        for step in range(1, request.steps + 1):
            _fail_if_asked(request.prompt)
            if "fake:stuck" in request.prompt:
                self._never.wait()
            self._pause("fake:slow" in request.prompt)
            left_s = STEP_S * (request.steps - step)
            yield Stepped(command.job, image, request.count, step, request.steps, left_s, preview)
        if "fake:wrong-size" in request.prompt:
            size = ImageSize(size.width_px // 2, size.height_px)
        denoise_s = time.monotonic() - begin_s
        info = self._info(command, seed, denoise_s, self.programs_since(before))
        yield ImageMade(command.job, image, size, flat_picture(size, seed), info)

    def _info(self, command: Generate, seed: int, denoise_s: float, compiled: int) -> ImageInfo:
        request: GenerationRequest = command.request
        return ImageInfo(
            job=command.job,
            model=self._loaded().name,
            mode=request.mode,
            device=self._device,
            chip=CHIP,
            size=str(request.size),
            steps=request.steps,
            guidance=request.guidance,
            seed=seed,
            prompt=request.prompt,
            negative_prompt=request.negative_prompt,
            scheduler="FakeScheduler",
            dtype=self._loaded().dtype,
            strategy=self._placement.strategy,
            timings_s=Timings(0.0, 0.0, denoise_s, 0.0, denoise_s),
            programs_compiled=compiled,
            version=__version__,
            styles=request.styles,
            unstyled_prompt=request.unstyled_prompt,
            unstyled_negative_prompt=request.unstyled_negative_prompt,
        )

    def _loaded(self) -> Preset:
        if self._preset is None:
            raise LoadError("No model is loaded.")
        return self._preset

    def _check(self, mode: Mode) -> None:
        reason = unavailable_mode(mode, self._device)
        if reason:
            raise ModeUnavailableError(f"Mode {mode} cannot run here: {reason}.")

    def _mended(self) -> bool:
        return (self._cache / "fake-mended").exists()

    def _pause(self, slow: bool) -> None:
        if slow:
            self._never.wait(STEP_S)


def flat_picture(size: ImageSize, seed: int) -> bytes:
    """height x width x 3 bytes, uint8: one colour, the last three bytes of the seed."""
    return (seed & 0xFFFFFF).to_bytes(3, "big") * (size.width_px * size.height_px)


def flat_preview(size: ImageSize, seed: int) -> bytes:
    """The same as a JPEG file, and 16 times smaller each way."""
    file = io.BytesIO()
    small = (size.width_px // 16, size.height_px // 16)
    Image.frombytes("RGB", small, flat_picture(ImageSize(*small), seed)).save(file, "JPEG")
    return file.getvalue()


def _words_as_tokens() -> str:
    tokenizer = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return str(tokenizer.to_str())


def _fail_if_asked(prompt: str) -> None:
    if "fake:crash" in prompt:
        _die()
    if "fake:error" in prompt:
        raise RuntimeError("the fake runtime was asked for this error\nand for a second line")
    if "fake:oom" in prompt:
        raise OutOfDeviceMemoryError("The chip's memory is used up (fake:oom).")
    if "fake:broken" in prompt:
        raise BrokenImageError("The model made NaN values (fake:broken).")


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
