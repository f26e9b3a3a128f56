"""The programs of an image, through the very code that the worker runs, from shapes alone.

A DiffusionRuntime makes each image of a warm-up on the software TPU, with a pipeline that has no
weights. What torch_tpu would give the compiler is taken on the way there, and ones in the right
shape come back in its place. So what there is to compile is said by the runtime and nowhere else.

Text encoders run in fused eager mode, where torch_tpu gathers operations until a result is asked
for; each is taken as the one program that this comes to when nothing is asked for before its end.
"""

import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch_tpu._internal import execution_mode
from torch_tpu._internal.compile import tpu_torch_compile

from tpu_ui.plan import blank, components, sharding
from tpu_ui.plan.standin import Compiler
from tpu_ui.presets import Preset
from tpu_ui.protocol import Generate
from tpu_ui.runtime import warmup
from tpu_ui.runtime.compiled import CompiledPart
from tpu_ui.runtime.device import OpenDevice
from tpu_ui.runtime.diffusion import DiffusionRuntime
from tpu_ui.runtime.embeddings import KEPT
from tpu_ui.runtime.inputs import frozen
from tpu_ui.runtime.lora import Loras
from tpu_ui.runtime.software_tpu import SoftwareTpu, mosaic_kernels
from tpu_ui.shapes import ImageSize, Mode, Strategy
from tpu_ui.strategy import Placement


@dataclass(eq=False)
class Program:
    """What the compiler gets for a part of `component`, of which there are `copies` alike. It runs
    on so many `devices` as one."""

    component: str
    part: str
    copies: int
    devices: int
    code: bytes
    options: bytes


@dataclass
class Image:
    """How often one image of one step runs each program, in the order of the first runs. Text
    whose embeddings an image before it left behind is not encoded again.

    `guided`: with classifier-free guidance. `embedding_bytes`: what its prompt's embeddings take;
    `kept_bytes`: those of as many prompts as are kept.
    """

    size: ImageSize
    guided: bool
    runs: dict[Program, int] = field(default_factory=dict)
    embedding_bytes: int = 0

    @property
    def kept_bytes(self) -> int:
        return KEPT * self.embedding_bytes


class Capture:
    """Takes the programs of one preset, in a process of its own.

    `plugin`: what is behind `opened`, an open software TPU.
    """

    def __init__(
        self, opened: OpenDevice, plugin: SoftwareTpu, preset: Preset, placed: Placement
    ) -> None:
        self._opened = opened
        self._preset = preset
        self._devices = placed.devices
        self._known: dict[Hashable, Program] = {}
        self._image = Image(preset.image_sizes[0], False)
        repeated = placed.strategy is Strategy.OFFLOAD
        group, mesh = None, None
        if placed.strategy is Strategy.SHARDED:
            group, mesh = sharding.join(placed.devices)
        self._compiler = Compiler(plugin, group)
        self._pipeline = pipeline = blank.pipeline(preset, opened.torch_device, repeated, mesh)
        for name in preset.components.text_encoders:
            encoder = getattr(pipeline, name)
            encoder.forward = _Encoder(self, name, encoder)
        dtype = getattr(torch, preset.dtype)
        self.weights_bytes = {
            name: components.size_bytes(components.tensors(getattr(pipeline, name)), dtype)
            for name in preset.components.weighted
        }
        self._runtime = DiffusionRuntime(opened, None, part=functools.partial(_Part, self))
        # The hooks of offloading are not there: nothing is to move.
        self._runtime.take(preset, placed, pipeline, Loras(pipeline, None, ()))

    def images(self, size: ImageSize) -> Iterator[Image]:
        """One image of `size`, with as few steps as may be, for each state of guidance."""
        requests = warmup.requests(self._preset, Mode.COMPILED, size)
        for request, guided in zip(requests, self._preset.guidance_states(), strict=True):
            image = self._image = Image(size, guided)
            before_bytes = self._runtime.embedding_bytes()
            short = replace(request, steps=self._preset.steps.minimum)
            for _ in self._runtime.generate(Generate("plan", short)):
                pass
            image.embedding_bytes = self._runtime.embedding_bytes() - before_bytes
            for program in image.runs:
                if program.component == self._preset.components.denoiser:
                    image.runs[program] //= short.steps
            yield image

    def component_of(self, module: torch.nn.Module) -> str:
        """The name in the pipeline of what `module` is a part of."""
        for name in self._preset.components.weighted:
            if any(part is module for part in getattr(self._pipeline, name).modules()):
                return name
        raise AssertionError(f"{type(module).__name__} is in no component")

    def take(self, make: Callable[[], Any]) -> Any:
        """What `make` gives. Programs that it has compiled are taken."""
        self._opened.synchronize()  # what waits to be compiled is no part of it
        with self._compiler.taking(), mosaic_kernels():
            return make()

    def last(self) -> int:
        """The place of the program that was taken last."""
        return len(self._compiler.taken) - 1

    def running(self, component: str, part: str, copies: int, run: Callable[[], Any]) -> Any:
        """What `run` gives. Programs that it runs count as the image's, in the part's name."""
        before = len(self._compiler.ran)
        given = run()
        for place in self._compiler.ran[before:]:
            self.ran(component, part, copies, place)
        return given

    def ran(self, component: str, part: str, copies: int, place: int) -> None:
        """The image has run the program that was taken at this place."""
        code, devices = self._compiler.taken[place], 1
        if place in self._compiler.sums:
            part, devices = "sum", self._devices
        # Its options do not tell a program apart: a map among them is written in any order.
        program = self._known.setdefault(
            (component, part, code[0]), Program(component, part, copies, devices, *code)
        )
        self._image.runs[program] = self._image.runs.get(program, 0) + 1


class _Part(CompiledPart):
    """A compiled part whose programs are taken."""

    puts_off = False

    def __init__(self, capture: Capture, modules: Sequence[torch.nn.Module], *rest: Any) -> None:
        super().__init__(modules, *rest)
        self._capture = capture
        self._component = capture.component_of(modules[0])
        self._copies = len(modules)

    def _trace(self, form: Hashable, *call: Any) -> Callable[..., Any]:
        function = self._capture.take(lambda: super(_Part, self)._trace(form, *call))

        def run(*args: Any, **kwargs: Any) -> Any:
            return self._capture.running(
                self._component, self.name, self._copies, lambda: function(*args, **kwargs)
            )

        return run


class _Encoder:
    """Stands before a text encoder's forward, which runs eagerly, and takes it as one program."""

    def __init__(self, capture: Capture, name: str, encoder: torch.nn.Module) -> None:
        self._capture = capture
        self._name = name
        self._encoder = encoder
        self._forward = encoder.forward
        self._known: dict[Hashable, tuple[Any, int]] = {}
        functools.update_wrapper(self, encoder.forward)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        form = frozen((args, kwargs), lambda tensor: (tuple(tensor.shape), str(tensor.dtype)))
        if form not in self._known:
            shapes = self._capture.take(lambda: self._recorded(args, kwargs))
            self._known[form] = shapes, self._capture.last()
        shapes, place = self._known[form]
        self._capture.ran(self._name, type(self._encoder).__name__, 1, place)
        return pytree.tree_map_only(
            _Shape, lambda one: torch.ones(one.shape, dtype=one.dtype, device="tpu"), shapes
        )

    def _recorded(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output with a _Shape for each tensor, after all of it was handed over to compile."""
        args, kwargs = pytree.tree_map_only(torch.Tensor, _placeholder, (args, kwargs))
        tensors = [one for one in pytree.tree_leaves((args, kwargs)) if torch.is_tensor(one)]
        gathering = execution_mode.EagerMode._INTERNAL_COMPILE_FX_GRAPH
        with torch.no_grad(), execution_mode.set_eager_mode(gathering):
            with _NothingRead():  # type: ignore[no-untyped-call]
                output = self._forward(*args, **kwargs)
            results = [one for one in pytree.tree_leaves(output) if torch.is_tensor(one)]
            tpu_torch_compile.traverse_and_compile(
                result_tensors=list({id(one): one for one in results}.values()),
                argument_tensors=[*self._encoder.parameters(), *self._encoder.buffers(), *tensors],
                build_mlir_module=False,
                use_stablehlo_bounds=False,
                argument_layouts=[],
                donated_inputs=[],
                module_name=None,
            )
            return pytree.tree_map_only(torch.Tensor, _Shape, output)


class _Shape:
    """A tensor's shape and dtype."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype


class _NothingRead(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A condition that is read back from the device is false here. transformers asks whether all
    of a mask is set: the answer no is that of every prompt with room to spare."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is torch.ops.aten._local_scalar_dense.default:
            return False
        return function(*args, **(kwargs or {}))


def _placeholder(tensor: torch.Tensor) -> torch.Tensor:
    given: torch.Tensor = tpu_torch_compile.placeholder(list(tensor.shape), tensor.dtype, False)
    return given
