"""The runtime that drives diffusers' pipelines: one device, one pipeline, three modes.

Puts the parts of this package together behind the `Runtime` protocol. Never heard of processes,
queues or the page.
"""

import contextlib
import functools
import itertools
import logging
import os
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import diffusers
import transformers

from tpu_ui import __version__
from tpu_ui.errors import LoadError, OutOfDeviceMemoryError
from tpu_ui.metadata import ImageInfo, Timings
from tpu_ui.presets import Preset
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
from tpu_ui.runtime import device as devices
from tpu_ui.runtime import placement, preview, text, warmup
from tpu_ui.runtime.background import Background
from tpu_ui.runtime.compiled import CompiledPart, decoder_parts, repeated_blocks
from tpu_ui.runtime.embeddings import RecentEmbeddings
from tpu_ui.runtime.encoders import TextEncoders
from tpu_ui.runtime.generate import Encoded, Moment, Picture, make_image
from tpu_ui.runtime.loading import Course, Reached
from tpu_ui.runtime.lora import Loras
from tpu_ui.runtime.modes import Modes
from tpu_ui.runtime.pace import Pace
from tpu_ui.runtime.parallel import Ranks
from tpu_ui.runtime.preview import Preview
from tpu_ui.shapes import ImageSize, Mode, Strategy
from tpu_ui.strategy import Placement
from tpu_ui.tokens import Reader

log = logging.getLogger(__name__)

OUT_OF_MEMORY_MARKS = ("RESOURCE_EXHAUSTED", "out of memory", "Out of memory")


@dataclass(slots=True)
class _Loaded:
    preset: Preset
    strategy: Strategy
    pipeline: Any
    modes: Modes
    encoders: TextEncoders
    loras: Loras
    embeddings: RecentEmbeddings

    def encode(self, mode: Mode, encode: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What `encode`, the pipeline's `encode_prompt`, gives for these inputs, or gave before."""
        run = functools.partial(self.encoders.encode, encode)
        return self.embeddings.encode(mode, run, *args, **kwargs)


@dataclass(slots=True)
class _Clock:
    """When the parts of one image ended, in seconds of `time.monotonic`."""

    began: float
    encoded: float = 0.0
    denoised: float = 0.0

    def timings(self, now: float) -> Timings:
        return Timings(
            queue=0.0,  # the dispatcher knows
            encode=round(self.encoded - self.began, 4),
            denoise=round(self.denoised - self.encoded, 4),
            decode=round(now - self.denoised, 4),
            total=round(now - self.began, 4),
        )


class DiffusionRuntime:
    """Owns one device and one pipeline. See `tpu_ui.runtime.interface.Runtime`."""

    def __init__(
        self,
        device: devices.OpenDevice,
        traces: Path | None,
        ranks: Ranks | None = None,
        part: Callable[..., CompiledPart] = CompiledPart,
    ) -> None:
        """`traces` is the folder in which what torch.compile traced is kept; None: it is not.
        `ranks`: this process is one of a group, and holds a share of the weights. `part` makes what
        runs compiled; tpu_ui.plan has another kind."""
        self._device = device
        self._ranks = ranks
        self._traces = traces
        self._part = part
        self._loaded: _Loaded | None = None
        # Programs of sizes whose own warm-up is still to come.
        self._beside: dict[ImageSize, frozenset[Background]] = {}
        self._course: Course | None = None
        # Their warnings quote prompts, and a log is no place for them; ours go with the image.
        diffusers.utils.logging.set_verbosity_error()
        transformers.utils.logging.set_verbosity_error()
        log.info("device %s (%s): %s", device.device, device.chip, device.reason)

    def started(self) -> Started:
        return Started(
            pid=os.getpid(),
            device=self._device.device,
            chip=self._device.chip,
            memory_bytes=self._device.memory_bytes,
            reason=self._device.reason,
            versions=devices.versions(),
        )

    def programs_compiled(self) -> int:
        return self._device.programs_compiled()

    def programs_since(self, before: int) -> int:
        count = self.programs_compiled() - before
        beside = sum(map(len, self._beside.copy().values()))
        if beside and self._device.program_names(before):
            return len(self.program_names(before))
        return max(0, count - beside)

    def memory(self) -> Memory:
        return self._device.memory()

    def program_names(self, after: int) -> tuple[str, ...]:
        beside = _names(itertools.chain(*self._beside.copy().values()))
        names = self._device.program_names(after)
        return tuple(name for name in names if not name.startswith(beside))

    def load(self, command: Load) -> Iterator[Loading]:
        preset = command.preset
        self._loaded = None
        self._beside.clear()
        self._course = Course(_weight_bytes(preset) if self._ranks is None else None)
        loading = placement.load_pipeline(
            preset, self._device, command.placement, self._ranks, self._course
        )
        with _memory_errors():
            while True:
                try:
                    yield _as_event(command.job, next(loading))
                except StopIteration as end:
                    self.take(preset, command.placement, *end.value)
                    break

    def take(self, preset: Preset, placed: Placement, pipeline: Any, loras: Loras) -> None:
        """Work with this pipeline of the preset from now on."""
        preview.check(preset, getattr(pipeline, preset.components.vae))
        parts = self._compiled_parts(pipeline, preset, placed)
        modes = Modes(parts, self._device.device)
        encoders = placement.text_encoders(preset, pipeline, self._device.torch_device, placed)
        self._loaded = _Loaded(
            preset, placed.strategy, pipeline, modes, encoders, loras, RecentEmbeddings()
        )

    def embedding_bytes(self) -> int:
        """What the prompts that are kept take on the device."""
        return self._need().embeddings.size_bytes()

    def loading(self, command: Load) -> Loading | None:
        return None if self._course is None else _as_event(command.job, self._course.reached())

    def readers(self) -> tuple[Reader, ...]:
        loaded = self._need()
        return text.readers(loaded.pipeline, loaded.preset)

    def _compiled_parts(
        self, pipeline: Any, preset: Preset, placement: Placement
    ) -> list[CompiledPart]:
        """What compiled mode compiles: the denoiser and the parts of the VAE's decoder.

        The hooks of model CPU offload cannot be traced, so that of an offloaded denoiser the
        repeated blocks are compiled, each kind of them once.
        """
        denoiser = getattr(pipeline, preset.components.denoiser)
        vae = getattr(pipeline, preset.components.vae)
        groups = [(parts, vae) for parts in decoder_parts(vae)]
        if placement.strategy is Strategy.OFFLOAD:
            groups += [(blocks, denoiser) for blocks in repeated_blocks(denoiser)]
        else:
            groups.append(([denoiser], denoiser))
        return [
            self._part(modules, self._device, str(_settings(component)), self._traces)
            for modules, component in groups
        ]

    def warm_up(self, command: WarmUp) -> Iterator[Warming | Warmed]:
        began = time.monotonic()
        programs_before = self.programs_compiled()
        submitted = self._beside.pop(command.size, None)  # by an earlier size's warm-up
        compiled_before = self._count(submitted or (), programs_before)

        def warming(stage: str) -> Warming:
            return Warming(
                command.job,
                command.mode,
                command.size,
                stage,
                compiled_before + self.programs_since(programs_before),
                time.monotonic() - began,
                command.expected_s,
            )

        modes = self._need().modes
        requests = warmup.requests(self._need().preset, command.mode, command.size)
        made = dict.fromkeys(requests, 0)
        if command.mode is Mode.COMPILED and self._ranks is None:  # ones would be a rank's alone
            others = modes.submitted()
            for request in () if submitted else requests:
                with modes.ahead():
                    for event in self._one_image(command.job, request, 1):
                        if isinstance(event, Stepped):
                            yield warming(f"{_name(request)}: {_stage(event)}")
                made[request] = 0 if modes.submitted() else 1
            submitted = submitted or modes.submitted() - others
            for size in command.then:
                if size not in self._beside and any(one.compiling() for one in submitted):
                    for _ in self._submit_beside(command.job, size):
                        yield warming(f"next: {size}")
        for request in requests:
            for image, prompt in enumerate(
                warmup.PROMPTS[made[request] :], start=1 + made[request]
            ):
                programs_until_now = self.programs_compiled()
                yield warming(f"{_name(request)}: text")
                for event in self._one_image(command.job, replace(request, prompt=prompt), 1):
                    if isinstance(event, Stepped):
                        yield warming(f"{_name(request)}: {_stage(event)}")
                nothing_new = self.programs_since(programs_until_now) == 0
                if nothing_new and image >= warmup.LEAST_IMAGES:
                    break
            else:
                log.error("%s still compiles after %d images", command.size, len(warmup.PROMPTS))
        yield Warmed(
            command.job,
            command.mode,
            command.size,
            compiled_before + self.programs_since(programs_before),
            time.monotonic() - began,
        )

    def _submit_beside(self, job: str, size: ImageSize) -> Iterator[None]:
        """Trace the programs of a size whose warm-up follows, and have them compiled meanwhile.

        What fails of it is for that warm-up to tell: it makes what is not there.
        """
        modes = self._need().modes
        others = modes.submitted()
        try:
            for request in warmup.requests(self._need().preset, Mode.COMPILED, size):
                with modes.ahead():
                    for _ in self._one_image(job, request, 1):
                        self._beside[size] = modes.submitted() - others
                        yield
            self._device.synchronize()  # nothing of it is left for the next image
        except Exception:  # noqa: BLE001 - whatever it is, it is not this job's
            log.warning("%s could not be traced beside", size, exc_info=True)

    def _count(self, programs: Collection[Background], until: int) -> int:
        """How many of them had been compiled when the device had compiled `until` programs."""
        names = self._device.program_names(0)[:until]
        if names:
            return sum(name.startswith(_names(programs)) for name in names)
        return sum(not one.compiling() for one in programs)

    def generate(self, command: Generate) -> Iterator[Stepped | ImageMade]:
        for image in range(1, command.request.count + 1):
            yield from self._one_image(command.job, command.request, image)

    def _need(self) -> _Loaded:
        if self._loaded is None:
            raise LoadError("No model is loaded.")
        return self._loaded

    def _one_image(
        self, job: str, request: GenerationRequest, image: int
    ) -> Generator[Stepped | ImageMade, None, None]:
        """Image number `image` (from 1) of the request."""
        loaded = self._need()
        seed = request.seeds[image - 1]
        programs_before = self.programs_compiled()
        clock = _Clock(time.monotonic())
        with loaded.modes.running(request.mode) as what_ran, _memory_errors():
            loaded.loras.use(request.lora, request.lora_weight)
            moments = make_image(
                loaded.pipeline,
                _arguments(loaded.preset, request),
                request.size,
                seed,
                self._device,
                functools.partial(loaded.encode, request.mode),
                # Ranks go on event by event, and must agree on each.
                Pace() if self._ranks is None else Pace(interval_s=0.0),
                self._preview(request.size),
            )
            pixels = yield from self._watched(moments, clock, job, request, image)
            ran = what_ran()
        info = ImageInfo(
            job=job,
            model=loaded.preset.name,
            mode=ran,
            device=self._device.device,
            chip=self._device.chip,
            size=str(request.size),
            steps=request.steps,
            guidance=request.guidance,
            seed=seed,
            prompt=request.prompt,
            negative_prompt=request.negative_prompt,
            scheduler=type(loaded.pipeline.scheduler).__name__,
            dtype=loaded.preset.dtype,
            strategy=loaded.strategy,
            timings_s=clock.timings(time.monotonic()),
            programs_compiled=self.programs_since(programs_before),
            version=__version__,
            lora=request.lora,
            lora_weight=request.lora_weight,
            notices=tuple(_notices(loaded, request, ran)),
            styles=request.styles,
            unstyled_prompt=request.unstyled_prompt,
            unstyled_negative_prompt=request.unstyled_negative_prompt,
        )
        yield ImageMade(job, image, request.size, pixels.tobytes(), info)

    def _preview(self, size: ImageSize) -> Preview | None:
        """Of several ranks, only the first one's events go anywhere."""
        loaded = self._need()
        if loaded.preset.preview is None or (self._ranks is not None and self._ranks.rank):
            return None
        return Preview(loaded.pipeline, loaded.preset.preview, size)

    def _watched(
        self,
        moments: Generator[Moment, None, Picture],
        clock: _Clock,
        job: str,
        request: GenerationRequest,
        image: int,
    ) -> Generator[Stepped, None, Picture]:
        """The pipeline's moments as events, with the time taken and left."""
        with contextlib.closing(moments):
            while True:
                try:
                    moment = next(moments)
                except StopIteration as end:
                    pixels: Picture = end.value
                    return pixels
                now = time.monotonic()
                if isinstance(moment, Encoded):
                    clock.encoded = clock.denoised = now
                    step, left_s = 0, None
                else:
                    clock.denoised = now
                    step = moment.step
                    left_s = (now - clock.encoded) / step * (request.steps - step)
                shown = b"" if isinstance(moment, Encoded) else moment.preview
                yield Stepped(job, image, request.count, step, request.steps, left_s, shown)


def _as_event(job: str, reached: Reached) -> Loading:
    return Loading(
        job,
        reached.component,
        reached.index,
        reached.count,
        reached.done_bytes,
        reached.total_bytes,
    )


def _weight_bytes(preset: Preset) -> int | None:
    """What all components take, by the preset; None where it does not say."""
    return round(sum(preset.weights_gib.values()) * 2**30) or None


def _settings(component: Any) -> dict[str, Any]:
    """A component's configuration, without where it was read from."""
    return {name: component.config[name] for name in sorted(component.config) if name[0] != "_"}


def _arguments(preset: Preset, request: GenerationRequest) -> dict[str, Any]:
    """The pipeline's own arguments for a request, without size, seed and callbacks."""
    arguments: dict[str, Any] = {
        "prompt": request.prompt,
        "num_inference_steps": request.steps,
        preset.guidance.argument: request.guidance,
        **preset.call,
    }
    if preset.negative_prompt:
        arguments["negative_prompt"] = request.negative_prompt
    return arguments


def _notices(loaded: _Loaded, request: GenerationRequest, ran: Mode) -> Iterator[str]:
    """What the person who asked should know about how the image was made."""
    if ran is not request.mode:
        yield f"Compiling fell back: the image was made in {ran} mode, not {request.mode}."
    yield from text.cut_notices(loaded.pipeline, loaded.preset, request.prompt, "The prompt")
    if not request.negative_prompt:
        return
    off = loaded.preset.guidance.off
    if off is not None and request.guidance <= off:
        yield f"At guidance scale {request.guidance:g} the negative prompt has no effect."
    yield from text.cut_notices(
        loaded.pipeline, loaded.preset, request.negative_prompt, "The negative prompt"
    )


def _names(programs: Iterable[Background]) -> tuple[str, ...]:
    return tuple(one.name for one in programs)


def _name(request: GenerationRequest) -> str:
    return f"guidance {request.guidance:g}"


def _stage(event: Stepped) -> str:
    if event.step == event.steps:
        return "image"
    return f"step {event.step + 1} of {event.steps}"


@contextlib.contextmanager
def _memory_errors() -> Iterator[None]:
    """Turns what torch and XLA raise without memory into our error, with the remedy."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, MemoryError) or any(m in str(error) for m in OUT_OF_MEMORY_MARKS):
            raise OutOfDeviceMemoryError(
                "The device has no memory left for this. Try a smaller size; the worker restarts."
            ) from error
        raise
