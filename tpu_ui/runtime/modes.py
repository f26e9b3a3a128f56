"""The three execution modes: strict eager, fused eager, compiled. Weights stay where they are.

Switching is a context around a run, nothing is loaded or moved. What ran is proved, not assumed:
what is compiled counts its runs.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence

import torch
from torch._dynamo.exc import TorchDynamoException

from tpu_ui.errors import CompilationError
from tpu_ui.runtime.background import Background
from tpu_ui.runtime.compiled import CompiledPart
from tpu_ui.shapes import Device, Mode

log = logging.getLogger(__name__)

# What surrounds the compiled parts (text encoders, scheduler) runs fused: fewer and larger programs
# than strict eager, and less time to compile them (see benchmarks/README.md).
AROUND_COMPILED = Mode.FUSED


class Modes:
    """Runs the parts of one pipeline in any mode its device allows."""

    def __init__(self, parts: Sequence[CompiledPart], device: Device) -> None:
        self._parts = parts
        self._device = device

    @contextlib.contextmanager
    def running(self, mode: Mode) -> Iterator[Callable[[], Mode]]:
        """A context in which the pipeline runs in `mode`; gives a function that says what ran."""
        if self._device is Device.CPU:
            yield lambda: Mode.EAGER
            return
        runs_before = self._runs()
        with contextlib.ExitStack() as stack:
            stack.enter_context(_compile_errors())
            stack.enter_context(_eager_mode(mode))
            if mode is Mode.COMPILED:
                for part in self._parts:
                    stack.enter_context(part.active())
            yield lambda: self._what_ran(mode, runs_before)

    @contextlib.contextmanager
    def ahead(self) -> Iterator[None]:
        """A context in which what has to be compiled is only submitted, and gives ones."""
        for part in self._parts:
            part.ahead = True
        try:
            yield
        finally:
            for part in self._parts:
                part.ahead = False

    def submitted(self) -> frozenset[Background]:
        """The programs that nothing has waited for yet."""
        return frozenset().union(*(part.submitted for part in self._parts))

    def _runs(self) -> list[int]:
        return [part.runs for part in self._parts]

    def _what_ran(self, mode: Mode, runs_before: list[int]) -> Mode:
        if mode is not Mode.COMPILED:
            return mode
        for part, before, after in zip(self._parts, runs_before, self._runs(), strict=True):
            if after == before:
                log.error("%s was to run compiled, but its compiled form did not run.", part.name)
                return AROUND_COMPILED
        return mode


@contextlib.contextmanager
def _compile_errors() -> Iterator[None]:
    """Turns what torch.compile raises into our error."""
    try:
        yield
    except TorchDynamoException as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise CompilationError(
            f"The model could not be compiled: {lines[0]} Use fused or eager mode instead."
        ) from error


def _eager_mode(mode: Mode) -> contextlib.AbstractContextManager[None]:
    around = AROUND_COMPILED if mode is Mode.COMPILED else mode
    choices = torch.tpu.EagerMode  # type: ignore[attr-defined]
    eager_mode = choices.DEFER_AND_FUSE if around is Mode.FUSED else choices.DEFER_NEVER
    context: contextlib.AbstractContextManager[None] = torch.tpu.set_eager_mode(eager_mode)  # type: ignore[attr-defined]
    return context
