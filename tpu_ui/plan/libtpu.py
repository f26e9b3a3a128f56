"""libtpu's compiler, for a chip that is not here: a program and a topology in, sizes and work out.

`python -m tpu_ui.plan.libtpu PROGRAM TOPOLOGY` compiles the program in the file PROGRAM and prints
what it takes as JSON. One process compiles one program, so that a compiler that crashes takes
nothing along. Knows nothing of torch: it calls the PJRT C API of the library, whose structures are
those of `pjrt_c_api.h` in OpenXLA, which only ever grow at their ends.
"""

import ctypes
import importlib.util
import json
import os
import pickle
import struct
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

# Without these libtpu asks the cloud's metadata server who it is, for minutes, and a compilation
# beside another one fails on a lock file.
ENVIRONMENT = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
}

# Places in PJRT_Api's table of functions, which begins after these bytes.
_TABLE_BYTES = 40
_ERROR_MESSAGE = 1
_PLUGIN_INITIALIZE = 3
_GET_COST_ANALYSIS = 46
_TOPOLOGY_CREATE = 82
_COMPILE = 89
_GET_MEMORY_STATS = 96

_FLOAT, _INTEGER = 3, 1  # kinds of PJRT_NamedValue

_Function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_size, _pointer, _int64 = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int64


class CompilerError(Exception):
    """What libtpu said of a program that it would not compile."""


class _Arguments(ctypes.Structure):
    """Every call takes one structure, and each begins in this way."""

    _fields_: ClassVar[Any] = (("struct_size", _size), ("extension", _pointer))


class _Error(_Arguments):
    _fields_: ClassVar[Any] = (("error", _pointer), ("message", _pointer), ("message_size", _size))


class _Topology(_Arguments):
    _fields_: ClassVar[Any] = (
        ("name", _pointer),
        ("name_size", _size),
        ("options", _pointer),
        ("option_count", _size),
        ("topology", _pointer),
    )


class _Program(_Arguments):
    _fields_: ClassVar[Any] = (
        ("code", _pointer),
        ("code_size", _size),
        ("format", _pointer),
        ("format_size", _size),
    )


class _Compile(_Arguments):
    _fields_: ClassVar[Any] = (
        ("topology", _pointer),
        ("program", _pointer),
        ("options", _pointer),
        ("options_size", _size),
        ("client", _pointer),
        ("executable", _pointer),
    )


class _Memory(_Arguments):
    _fields_: ClassVar[Any] = (
        ("executable", _pointer),
        ("code_bytes", _int64),
        ("argument_bytes", _int64),
        ("output_bytes", _int64),
        ("alias_bytes", _int64),
        ("temporary_bytes", _int64),
        ("host", _int64 * 5),
        ("peak_bytes", _int64),
    )


class _Cost(_Arguments):
    _fields_: ClassVar[Any] = (("executable", _pointer), ("count", _size), ("values", _pointer))


class _NamedValue(_Arguments):
    _fields_: ClassVar[Any] = (
        ("name", _pointer),
        ("name_size", _size),
        ("kind", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("value_size", _size),
    )


class Libtpu:
    """The library, loaded. Raises CompilerError if it is not installed."""

    def __init__(self) -> None:
        os.environ.update(ENVIRONMENT)
        library = ctypes.CDLL(str(library_path()))
        library.GetPjrtApi.restype = ctypes.c_void_p
        self._table: int = library.GetPjrtApi()
        self._call(_PLUGIN_INITIALIZE, _Arguments())

    def compile(self, code: bytes, options: bytes, topology: str) -> dict[str, float]:
        """Compile a portable StableHLO artifact with a serialized CompileOptionsProto.

        Returns seconds, sizes in bytes, FLOP, and bytes that the program reads and writes in the
        chip's memory. Raises CompilerError.
        """
        program = _Program(**_text("code", code), **_text("format", b"mlir"))
        program.struct_size = ctypes.sizeof(program)
        task = _Compile(
            topology=self._topology(topology),
            program=ctypes.addressof(program),
            **_text("options", options),
        )
        began_s = time.monotonic()
        self._call(_COMPILE, task)
        seconds = time.monotonic() - began_s
        memory = _Memory(executable=task.executable)
        self._call(_GET_MEMORY_STATS, memory)
        costs = self._costs(task.executable)
        return {
            "compile_s": round(seconds, 1),
            "argument_bytes": memory.argument_bytes,
            "output_bytes": memory.output_bytes,
            "alias_bytes": memory.alias_bytes,
            "temporary_bytes": memory.temporary_bytes,
            "code_bytes": memory.code_bytes,
            "peak_bytes": memory.peak_bytes,
            "flop": costs["flops"],
            "accessed_bytes": costs["bytes accessed"],
        }

    def _topology(self, name: str) -> int:
        wanted = _Topology(**_text("name", name.encode()))
        self._call(_TOPOLOGY_CREATE, wanted)
        return int(wanted.topology)

    def _costs(self, executable: int) -> dict[str, float]:
        analysis = _Cost(executable=executable)
        self._call(_GET_COST_ANALYSIS, analysis)
        values = ctypes.cast(analysis.values, ctypes.POINTER(_NamedValue))
        costs = {"flops": 0.0, "bytes accessed": 0.0}
        for place in range(analysis.count):
            value = values[place]
            name = ctypes.string_at(value.name, value.name_size).decode()
            if value.kind == _FLOAT:
                costs[name] = struct.unpack("<f", struct.pack("<Q", value.value)[:4])[0]
            elif value.kind == _INTEGER:
                costs[name] = value.value
        return costs

    def _call(self, place: int, arguments: _Arguments) -> None:
        if error := self._answer(place, arguments):
            told = _Error(error=error)
            self._answer(_ERROR_MESSAGE, told)  # which returns nothing
            raise CompilerError(ctypes.string_at(told.message, told.message_size).decode())

    def _answer(self, place: int, arguments: _Arguments) -> int | None:
        arguments.struct_size = ctypes.sizeof(arguments)
        slot = ctypes.c_void_p.from_address(self._table + _TABLE_BYTES + place * 8)
        assert slot.value is not None
        answer: int | None = _Function(slot.value)(ctypes.addressof(arguments))
        return answer


def _text(name: str, content: bytes) -> dict[str, Any]:
    """Two fields of a structure: a pointer to the bytes, and how many they are."""
    buffer = ctypes.create_string_buffer(content, len(content))
    _KEPT.append(buffer)
    return {name: ctypes.addressof(buffer), f"{name}_size": len(content)}


_KEPT: list[object] = []  # what the library has pointers to


def library_path() -> Path:
    """Where libtpu is installed, without importing it. Raises CompilerError."""
    spec = importlib.util.find_spec("libtpu")
    if spec is None or spec.origin is None:
        raise CompilerError("The package libtpu is not installed; it comes with torch_tpu.")
    return Path(spec.origin).parent / "libtpu.so"


def main(program: str, topology: str) -> None:
    """Print the result as JSON: what the program takes, or {"error": what the compiler said}."""
    code, options = pickle.loads(Path(program).read_bytes())  # written by this package
    try:
        result: dict[str, Any] = dict(Libtpu().compile(code, options, topology))
    except CompilerError as error:
        result = {"error": str(error)}
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
