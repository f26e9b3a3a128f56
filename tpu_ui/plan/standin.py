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
from torch_tpu._internal.device import _device_ops_backend
from torch_tpu._internal.export import export

from tpu_ui.plan.sharding import Group, all_reduce
from tpu_ui.runtime.software_tpu import SoftwareTpu

_MARK = b"a stand-in for a program: "


Code = tuple[bytes, bytes]  # a portable StableHLO artifact, and serialized compile options


class StandIn:
    """Takes the place of an executable. `results`: shape and dtype of each; `program`: which of the
    compiler's it is."""

    def __init__(
        self, results: Sequence[tuple[tuple[int, ...], torch.dtype]], program: int
    ) -> None:
        self.results = tuple(results)
        self.program = program

    def ones(self) -> list[torch.Tensor]:
        return [torch.ones(shape, dtype=dtype, device="tpu") for shape, dtype in self.results]

    def get_parameter_layouts(self) -> list[Any]:
        return []

    def fingerprint_executable(self) -> str:
        return f"{self.program} {self.results!r}"


class Compiler:
    """Stands before torch_tpu's compiler in this process, from its making on. Make one."""

    def __init__(self, plugin: SoftwareTpu, group: Group | None = None) -> None:
        """`group`: the other devices, whose sums become programs of their own."""
        self._plugin = plugin
        self._group = group
        self._taking = False
        self.taken: list[Code] = []
        self.sums: set[int] = set()  # which of those are sums over all devices
        self.ran: list[int] = []  # places in `taken`
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
    def taking(self) -> Iterator[None]:
        """A context in which programs are taken, and not compiled.

        Where the code was called from is left out, so that equal programs are equal bytes.
        """
        self._taking = True
        _device_ops_backend._set_allow_cache(False)  # which would hand over equal ones once
        try:
            with export.enable_tracebacks(False):
                yield
        finally:
            self._taking = False
            _device_ops_backend._set_allow_cache(True)

    def traverse_and_compile(self, **arguments: Any) -> Any:
        """torch_tpu's way from gathered operations to a program."""
        compile_ = self._theirs["traverse_and_compile"]
        if not self._taking:
            return compile_(**arguments)
        programs: list[Code] = []
        with (
            self._plugin.taking(lambda *program: programs.append(program)),
            contextlib.suppress(RuntimeError),
        ):
            compile_(**arguments)
        (program,) = programs
        if self._group is not None and self._group.reduced:
            ((shape, dtype),) = self._group.reduced  # torch_tpu has each in a program by itself
            self._group.reduced.clear()
            program = all_reduce(shape, dtype, self._group.devices)
            self.sums.add(len(self.taken))
        self.taken.append(program)
        results = [(tuple(one.shape), one.dtype) for one in arguments["result_tensors"]]
        return SimpleNamespace(module=None, executable=StandIn(results, len(self.taken) - 1))

    def execute(
        self, executable: Any, arguments: Any, shapes: Any = (), reconstruct: Any = None
    ) -> Any:
        if not isinstance(executable, StandIn):
            return self._theirs["execute"](executable, arguments, shapes, reconstruct)
        if len(arguments) == 1 and isinstance(arguments[0], list | tuple):
            arguments = arguments[0]
        self.ran.append(executable.program)
        ones = executable.ones()
        return ones if reconstruct is None else reconstruct(arguments, ones)

    def serialize_executable(self, executable: Any) -> bytes:
        if not isinstance(executable, StandIn):
            return bytes(self._theirs["serialize_executable"](executable))
        return _MARK + pickle.dumps((executable.results, executable.program))

    def load_serialized_executable(self, data: bytes) -> Any:
        if not data.startswith(_MARK):
            return self._theirs["load_serialized_executable"](data)
        return StandIn(*pickle.loads(data.removeprefix(_MARK)))
