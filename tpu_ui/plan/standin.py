"""Stand-ins for compiled programs: torch_tpu makes a program, and the compiler never sees it.

torch_tpu's own functions lead here (torch_tpu 0.2.0; private, and used here only). A program that
was taken runs by giving ones in the shapes of its results.
"""

import contextlib
import pickle
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch_tpu._internal.compile import tpu_torch_compile
from torch_tpu._internal.export import export

from tpu_ui.runtime.software_tpu import SoftwareTpu

_MARK = b"a stand-in for a program: "


class StandIn:
    """Takes the place of an executable. `results`: shape and dtype of each."""

    def __init__(self, results: Sequence[tuple[tuple[int, ...], torch.dtype]]) -> None:
        self.results = tuple(results)

    def ones(self) -> list[torch.Tensor]:
        return [torch.ones(shape, dtype=dtype, device="tpu") for shape, dtype in self.results]

    def get_parameter_layouts(self) -> list[Any]:
        return []

    def fingerprint_executable(self) -> str:
        return repr(self.results)


class Compiler:
    """Stands before torch_tpu's compiler in this process, from its making on. Make one."""

    def __init__(self, plugin: SoftwareTpu) -> None:
        self._plugin = plugin
        self._taken: list[tuple[bytes, bytes]] | None = None
        names = [
            "traverse_and_compile",
            "execute",
            "serialize_executable",
            "load_serialized_executable",
        ]
        self._theirs = {name: getattr(tpu_torch_compile, name) for name in names}
        for name in names:
            setattr(tpu_torch_compile, name, getattr(self, name))

    @contextlib.contextmanager
    def taking(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """A context in which programs are taken, and not compiled. Gives a list that they come to:
        portable StableHLO artifacts and serialized compile options.

        Where the code was called from is left out, so that equal programs are equal bytes.
        """
        taken = self._taken = []
        try:
            with export.enable_tracebacks(False):
                yield taken
        finally:
            self._taken = None

    def traverse_and_compile(self, **arguments: Any) -> Any:
        """torch_tpu's way from gathered operations to a program."""
        compile_ = self._theirs["traverse_and_compile"]
        taken = self._taken
        if taken is None:
            return compile_(**arguments)
        with (
            self._plugin.taking(lambda *program: taken.append(program)),
            contextlib.suppress(RuntimeError),
        ):
            compile_(**arguments)
        results = [(tuple(one.shape), one.dtype) for one in arguments["result_tensors"]]
        return SimpleNamespace(module=None, executable=StandIn(results))

    def execute(
        self, executable: Any, arguments: Any, shapes: Any = (), reconstruct: Any = None
    ) -> Any:
        if not isinstance(executable, StandIn):
            return self._theirs["execute"](executable, arguments, shapes, reconstruct)
        if len(arguments) == 1 and isinstance(arguments[0], list | tuple):
            arguments = arguments[0]
        ones = executable.ones()
        return ones if reconstruct is None else reconstruct(arguments, ones)

    def serialize_executable(self, executable: Any) -> bytes:
        if not isinstance(executable, StandIn):
            return bytes(self._theirs["serialize_executable"](executable))
        return _MARK + pickle.dumps(executable.results)

    def load_serialized_executable(self, data: bytes) -> Any:
        if not data.startswith(_MARK):
            return self._theirs["load_serialized_executable"](data)
        return StandIn(pickle.loads(data.removeprefix(_MARK)))
