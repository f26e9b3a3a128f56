"""The three execution modes: strict eager, fused eager, compiled. Weights stay where they are.

Switching is a context around a run, nothing is loaded or moved. What ran is proved, not assumed:
the compiled denoiser counts its runs.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dynamo.exc import TorchDynamoException

from tpu_ui.errors import CompilationError
from tpu_ui.shapes import Device, Mode

log = logging.getLogger(__name__)

# What surrounds the compiled denoiser (text encoders, scheduler, VAE) runs fused: fewer and larger
# programs than strict eager, and less time to compile them (see benchmarks/README.md).
AROUND_COMPILED = Mode.FUSED


class _CountingBackend:
    """torch_tpu's compiler backend, with a count of how often what it made has run."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, graph: Any, inputs: Any, **options: Any) -> Callable[..., Any]:
        program = torch._dynamo.lookup_backend("tpu")(graph, inputs, **options)

        def run(*args: Any) -> Any:
            self.runs += 1
            return program(*args)

        return run


class Modes:
    """Runs one denoiser in any mode its device allows.

    `program_limit` bounds how many compiled variants the denoiser may have: one for each size, with
    and without guidance. Dynamo falls back or fails beyond its limit, so it must not be too small.
    """

    def __init__(self, denoiser: torch.nn.Module, device: Device, program_limit: int) -> None:
        self._denoiser = denoiser
        self._device = device
        self._program_limit = program_limit
        self._backend = _CountingBackend()
        self._is_compiled = False

    @contextlib.contextmanager
    def running(self, mode: Mode) -> Iterator[Callable[[], Mode]]:
        """A context in which the denoiser runs in `mode`; gives a function that says what ran."""
        if self._device is Device.CPU:
            yield lambda: Mode.EAGER
            return
        if mode is Mode.COMPILED:
            self._compile()
        runs_before = self._backend.runs
        stance = "default" if mode is Mode.COMPILED else "force_eager"
        with _compile_errors(), _eager_mode(mode), torch.compiler.set_stance(stance):
            yield lambda: self._what_ran(mode, runs_before)

    def _compile(self) -> None:
        """Prepare the compiled form. Programs are made at the first call of each shape."""
        if self._is_compiled:
            return
        self._denoiser.compile(
            backend=self._backend,
            fullgraph=True,
            dynamic=False,
            recompile_limit=self._program_limit,
        )
        self._is_compiled = True

    def _what_ran(self, mode: Mode, runs_before: int) -> Mode:
        if mode is Mode.COMPILED and self._backend.runs == runs_before:
            log.error("The denoiser was to run compiled, but its compiled form did not run.")
            return AROUND_COMPILED
        return mode


@contextlib.contextmanager
def _compile_errors() -> Iterator[None]:
    """Turns what torch.compile raises into our error. With `fullgraph` it never goes on in eager.

    It raises a plain RuntimeError when it is switched off (TORCH_COMPILE_DISABLE).
    """
    try:
        yield
    except (TorchDynamoException, RuntimeError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        if not isinstance(error, TorchDynamoException) and "fullgraph" not in lines[0]:
            raise
        raise CompilationError(
            f"The model could not be compiled: {lines[0]} Use fused or eager mode instead."
        ) from error


def _eager_mode(mode: Mode) -> contextlib.AbstractContextManager[None]:
    around = AROUND_COMPILED if mode is Mode.COMPILED else mode
    choices = torch.tpu.EagerMode  # type: ignore[attr-defined]
    eager_mode = choices.DEFER_AND_FUSE if around is Mode.FUSED else choices.DEFER_NEVER
    context: contextlib.AbstractContextManager[None] = torch.tpu.set_eager_mode(eager_mode)  # type: ignore[attr-defined]
    return context
