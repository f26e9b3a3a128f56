"""Modules of a pipeline in compiled form: a function for each form of their inputs.

torch_tpu keeps the programs that XLA made of a module. What comes before that, Dynamo's reading of
the Python code and the making of a graph, torch.compile does anew in each process, and on a second
start it is nearly all that a warm-up takes (benchmarks/README.md). So the traced functions are kept
too, with torch's ahead-of-time API: https://docs.pytorch.org/docs/2.13/torch.compiler_api.html
"""

import contextlib
import functools
import hashlib
import inspect
import io
import logging
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tpu_ui import __version__
from tpu_ui.errors import CompilationError
from tpu_ui.folders import write_whole
from tpu_ui.runtime.background import Background
from tpu_ui.runtime.device import OpenDevice
from tpu_ui.runtime.inputs import NotComparableError, frozen
from tpu_ui.runtime.norms import by_channels, norms_by_channels
from tpu_ui.shapes import Device

DIGEST_BYTES = 32
LAYER_NUMBERS = ("layer_id",)  # Z-Image's blocks know their own, and do not look at it

log = logging.getLogger(__name__)


class CompiledPart:
    """Calls `modules` compiled while `active`; elsewhere they stay as they are.

    The modules differ in nothing but their numbers, and share what is traced: one module, or
    blocks of a denoiser or a decoder. Traced functions are files in `folder`, and are read from
    there like code: it belongs to the owner. Their names are made of all that a trace depends on:
    `identity` (whatever else the caller knows to matter), the modules' structure, and the forms of
    the inputs.
    A module that is changed in place needs a new CompiledPart. With no `folder` nothing is kept.

    While `ahead` is set, what has to be compiled is only submitted, and calls of it give ones.
    """

    puts_off = True  # whether programs are compiled in the background at all

    def __init__(
        self,
        modules: Sequence[torch.nn.Module],
        device: OpenDevice,
        identity: str,
        folder: Path | None,
    ) -> None:
        self.runs = 0
        self.ahead = False
        self.name = type(modules[0]).__name__
        self._callers = [_Caller(module) for module in modules]
        self._device = device
        described = "\n".join(
            (
                f"{__version__} {device.device} {device.chip}",
                inspect.getsource(by_channels),  # is in traces, and is ours
                identity,
                structure(modules[0]),
            )
        )
        self._identity = hashlib.sha256(described.encode()).hexdigest()
        self._folder = folder
        self._functions: dict[Hashable, Callable[..., Any]] = {}
        self._submitted: dict[Hashable, _Submitted] = {}

    @property
    def submitted(self) -> frozenset[Background]:
        """The programs that nothing has waited for yet."""
        return frozenset(one.background for one in self._submitted.values())

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """A context in which calls of the modules run compiled."""
        with contextlib.ExitStack() as stack:
            for caller in self._callers:
                stack.enter_context(_replaced(caller.module, functools.partial(self._run, caller)))
            yield

    def _run(self, caller: "_Caller", *args: Any, **kwargs: Any) -> Any:
        """A module's forward. Raises CompilationError, and whatever Dynamo raises."""
        try:
            form = frozen((args, kwargs), _tensor_form)
        except NotComparableError as error:
            raise CompilationError(
                f"{self.name} takes a {error}, and no compiled form can be chosen by that."
            ) from error
        with torch.no_grad():
            if form not in self._functions:
                self._functions[form] = self._read(form) or self._trace(form, caller, args, kwargs)
            if form in self._submitted and not self.ahead:
                self._finish(form)
            self.runs += 1
            return self._functions[form](caller, *args, **kwargs)

    def _trace(
        self, form: Hashable, caller: "_Caller", args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[..., Any]:
        """The function for inputs of this form. Its program is submitted, and not waited for."""
        began_s = time.monotonic()
        name = f"{self.name}_{self._key(form)[:16]}"
        background = Background(self._device.compiler, name, puts_off=self.puts_off)
        compiled = torch.compile(
            caller.forward,
            backend=background,
            fullgraph=True,
            dynamic=False,
            # A function is chosen by the forms of its inputs; there is nothing left to guard.
            options={"guard_filter_fn": lambda guards: [False] * len(guards)},
        )
        if not hasattr(compiled, "aot_compile"):
            raise CompilationError(
                "torch.compile is switched off (TORCHDYNAMO_DISABLE). "
                "Use fused or eager mode instead."
            )
        self._device.synchronize()  # what waits to be compiled is not this part's
        with _replaced(caller.module, None), norms_by_channels(caller.module):
            function = compiled.aot_compile((args, kwargs))
        log.info("%s: traced in %.1f s", self.name, time.monotonic() - began_s)
        self._submitted[form] = _Submitted(background, function)
        return _without_guards(function)

    def _finish(self, form: Hashable) -> None:
        """Wait for a program that was submitted, and keep its function."""
        submitted = self._submitted.pop(form)
        began_s = time.monotonic()
        try:
            submitted.background.wait()
        except BaseException:
            del self._functions[form]  # the next call tries anew
            raise
        log.info("%s: waited %.1f s for its program", self.name, time.monotonic() - began_s)
        self._write(form, submitted)

    def _read(self, form: Hashable) -> Callable[..., Any] | None:
        """The function that an earlier process traced; None if there is none that can be used."""
        path = self._path(form)
        if path is None or not path.exists():
            return None
        began_s = time.monotonic()
        try:
            content = path.read_bytes()
            digest, data = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
            if hashlib.sha256(data).digest() != digest:
                raise ValueError("the file is damaged")
            function = _without_guards(
                torch.compiler.load_compiled_function(io.BytesIO(data), f_globals=globals())
            )
        except Exception:  # noqa: BLE001 - whatever is wrong with it, it can be traced anew
            log.warning("%s: its trace cannot be used, it is made anew", self.name, exc_info=True)
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        log.info("%s: read in %.1f s", self.name, time.monotonic() - began_s)
        return function

    def _write(self, form: Hashable, submitted: "_Submitted") -> None:
        """Keep the function, whole or not at all. What cannot be kept costs a warning."""
        path = self._path(form)
        if path is None:
            return
        # XLA's CPU backend leaves functions out when it writes down what it has itself read from a
        # cache. What this process compiled has its name among the programs.
        on_cpu = self._device.device is Device.SOFTWARE_TPU
        names = self._device.program_names(0)
        if on_cpu and not any(name.startswith(submitted.background.name) for name in names):
            log.warning("%s: its trace is not kept, for its program was; delete both", self.name)
            return
        try:
            function = submitted.function
            data = type(function).serialize(function).serialized_data
            write_whole(path, hashlib.sha256(data).digest() + data)
        except Exception:  # noqa: BLE001 - pickling may raise anything
            log.warning("%s: its trace is not kept", self.name, exc_info=True)

    def _path(self, form: Hashable) -> Path | None:
        if self._folder is None:
            return None
        return self._folder / f"{self._key(form)[:DIGEST_BYTES]}.traced"

    def _key(self, form: Hashable) -> str:
        return hashlib.sha256(f"{self._identity}\n{form!r}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Submitted:
    """A function whose program is being compiled."""

    background: Background
    function: Any


def _without_guards(function: Any) -> Callable[..., Any]:
    """All its guards were filtered out: there is nothing to check before each call."""
    function.disable_guard_check()
    unguarded: Callable[..., Any] = function
    return unguarded


class _Caller(torch.nn.Module):
    """What is traced: a call of the module. Its own forward may be in a decorator's closure, which
    cannot be kept, or one of torch's, which torch 2.13 traces without its parameters.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


@contextlib.contextmanager
def _replaced(module: torch.nn.Module, forward: Callable[..., Any] | None) -> Iterator[None]:
    """A context in which the module has this forward; None: its own."""
    before = vars(module).pop("forward", None)
    if forward is not None:
        module.forward = forward
    try:
        yield
    finally:
        vars(module).pop("forward", None)
        if before is not None:
            module.forward = before


def repeated_blocks(module: torch.nn.Module) -> list[list[torch.nn.Module]]:
    """The blocks that diffusers says are worth compiling one by one, alike ones together."""
    kinds = getattr(module, "_repeated_blocks", None) or ()
    return _alike(part for part in module.modules() if type(part).__name__ in kinds)


def decoder_parts(vae: Any) -> list[list[torch.nn.Module]]:
    """What a VAE's decoder is made of, alike parts together; the decoder itself where diffusers
    does not say which of its modules stay whole.

    Part by part a decoder compiles in a fraction of the time (benchmarks/README.md).
    """
    whole = getattr(vae, "_no_split_modules", None) or ()
    return _alike(_parts(vae.decoder, whole)) if whole else [[vae.decoder]]


def _parts(module: torch.nn.Module, whole: Sequence[str]) -> Iterator[torch.nn.Module]:
    """The largest modules that are of `whole` or have none of them inside."""
    splits = type(module).__name__ not in whole and any(
        type(part).__name__ in whole for part in module.modules()
    )
    if splits or isinstance(module, torch.nn.ModuleList):  # which is a list, and is never called
        for child in module.children():
            yield from _parts(child, whole)
    else:
        yield module


def _alike(modules: Iterable[torch.nn.Module]) -> list[list[torch.nn.Module]]:
    """In groups that differ in nothing but their numbers."""
    groups: dict[str, list[torch.nn.Module]] = {}
    for module in modules:
        groups.setdefault(structure(module), []).append(module)
    return list(groups.values())


def structure(module: torch.nn.Module) -> str:
    """All of a module but the numbers in it. Where its weights are at the moment is left out."""
    tensors = [*module.named_parameters(), *module.named_buffers()]
    forms = [
        f"{name} {tuple(tensor.shape)} {tensor.stride()} {tensor.storage_offset()} {tensor.dtype}"
        for name, tensor in tensors
    ]
    settings = [f"{name} {_settings(part)}" for name, part in module.named_modules()]
    return "\n".join([type(module).__qualname__, repr(module), *forms, *settings])


def _settings(module: torch.nn.Module) -> dict[str, Hashable]:
    """The plain values that a module's code may branch on, but for the number of a layer."""
    found = {}
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or name in LAYER_NUMBERS:
            continue
        with contextlib.suppress(NotComparableError):
            found[name] = frozen(value)
    return found


def _tensor_form(tensor: torch.Tensor) -> Hashable:
    """What of a tensor its program is made for; torch_tpu builds offsets in."""
    return (
        "tensor",
        tuple(tensor.shape),
        tensor.stride(),
        tensor.storage_offset(),
        str(tensor.dtype),
        tensor.device.type,
    )
