"""The software TPU: the real `torch_tpu` on XLA's CPU backend, where there is no chip.

`torch_tpu` reaches a chip through one door, the PJRT C API of the library that `TPU_LIBRARY_PATH`
names. With OpenXLA's CPU plugin behind that door, everything above it is the real thing: the `tpu`
device, both eager modes, `torch.compile(backend="tpu")` and the compilation caches.

What differs from a chip, and only that:
  * Mosaic kernels (`tpu_custom_call`) cannot run on a CPU. On the paths that diffusers takes they
    come from two operations, scaled_dot_product_attention and nonzero; `install` replaces both.
  * There is no limit to device memory, and there are no allocator statistics.
  * One device to a process, and no `tpu_dist` process groups.

The plugin is chosen here and nowhere else. `PLUGIN_PACKAGE` is a build of OpenXLA's CPU plugin on
PyPI; its PJRT API must be recent enough for compiled programs (0.115 is, 0.81 is not).
Layout of the PJRT function table: `pjrt_c_api.h` of OpenXLA, where it only ever grows at its end.
"""

import contextlib
import ctypes
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tpu_ui.errors import DeviceUnavailableError

PLUGIN_PACKAGE = "lammps_jax_pjrt_cpu"
PLUGIN_FILE = "pjrt_c_api_cpu_plugin.so"

_NAME = re.compile(rb"tt_jit_([\w.]+)")
_Function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_Wrapper = Callable[[Any, int], Any]
_TABLE_HEADER_BYTES = 8 + 8 + (8 + 8 + 4 + 4)  # struct_size, extension_start, pjrt_api_version
_CLIENT_CREATE = 10  # places in the table, in function pointers after the header
_CLIENT_COMPILE = 20


class _ClientCreateArgs(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("options", ctypes.c_void_p),
        ("option_count", ctypes.c_size_t),
    )


class _Program(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("code", ctypes.c_void_p),
        ("code_size", ctypes.c_size_t),
    )


class _ClientCompileArgs(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("client", ctypes.c_void_p),
        ("program", ctypes.c_void_p),
        ("options", ctypes.c_void_p),
        ("options_size", ctypes.c_size_t),
    )


class SoftwareTpu:
    """The plugin behind torch_tpu's door. One for a process, made by `install`.

    `programs` holds the name of every program that torch_tpu has handed to the compiler, eager
    operations included; one that comes out of a cache is not handed over and is not in it.
    """

    def __init__(self, plugin: Path) -> None:
        self.programs: list[str] = []
        self._taker: Callable[[bytes, bytes], None] | None = None
        self._library = ctypes.CDLL(str(plugin))
        self._library.GetPjrtApi.restype = ctypes.c_void_p
        self._table: int = self._library.GetPjrtApi()
        self._kept: list[object] = []  # ctypes callbacks must live as long as the library
        self._wrap(_CLIENT_CREATE, self._create)
        self._wrap(_CLIENT_COMPILE, self._compile)

    def _wrap(self, place: int, wrapper: _Wrapper) -> None:
        slot = ctypes.c_void_p.from_address(self._table + _TABLE_HEADER_BYTES + place * 8)
        assert slot.value is not None
        original = _Function(slot.value)
        callback = _Function(lambda arguments: wrapper(original, arguments))
        self._kept += [original, callback]
        slot.value = ctypes.cast(callback, ctypes.c_void_p).value

    def _create(self, original: Any, arguments: int) -> Any:
        # torch_tpu passes `premapped_buffer_size`, which the CPU client does not know and rejects.
        _ClientCreateArgs.from_address(arguments).option_count = 0
        return original(arguments)

    @contextlib.contextmanager
    def taking(self, taker: Callable[[bytes, bytes], None]) -> Iterator[None]:
        """A context in which programs are not compiled: `taker` gets each one's portable StableHLO
        artifact and its serialized compile options, and torch_tpu a RuntimeError."""
        self._taker = taker
        try:
            yield
        finally:
            self._taker = None

    def _compile(self, original: Any, arguments: int) -> Any:
        task = _ClientCompileArgs.from_address(arguments)
        program = _Program.from_address(task.program)
        code = ctypes.string_at(program.code, program.code_size)
        if self._taker is not None:
            self._taker(code, ctypes.string_at(task.options, task.options_size))
            program.code_size = 0  # nothing is what the compiler refuses at once
        else:
            self.programs.append(_name_of(code))
        return original(arguments)


def _name_of(code: bytes) -> str:
    """The name that torch_tpu gave a program, out of its StableHLO bytecode: "mm", "softmax"."""
    found = _NAME.search(code)
    return found[1].decode() if found else "unnamed"


def plugin_path() -> Path | None:
    """Where the CPU plugin is installed; None if it is not."""
    spec = importlib.util.find_spec(PLUGIN_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / PLUGIN_FILE
    return path if path.is_file() else None


def install() -> SoftwareTpu:
    """Make `torch.device("tpu")` work in this process. Call once, before any device is used.

    Raises DeviceUnavailableError if the plugin or torch_tpu is missing, or torch was imported
    before: then torch_tpu has already settled on libtpu.
    """
    if "torch" in sys.modules:
        raise DeviceUnavailableError("The software TPU must be installed before torch is imported.")
    plugin = plugin_path()
    if plugin is None:
        raise DeviceUnavailableError(
            f"The software TPU needs the package {PLUGIN_PACKAGE.replace('_', '-')} (Linux x86_64)."
        )
    # torch_tpu reads this when it first touches the device. libtpu must not be loaded instead:
    # without a chip it asks the cloud's metadata server who it is, for minutes.
    os.environ["TPU_LIBRARY_PATH"] = str(plugin)
    software_tpu = SoftwareTpu(plugin)
    _KEPT.append(software_tpu)
    try:
        from torch_tpu import _loader  # noqa: PLC0415 - only this device needs it
        from torch_tpu._internal.utils import hardware  # noqa: PLC0415
    except ImportError as error:
        raise DeviceUnavailableError(f"The software TPU needs torch_tpu: {error}.") from error
    hardware.get_tpu_device_count = lambda: 1  # it scans the PCI bus; there is no card to find
    _loader._init_device("tpu")
    _replace_mosaic_kernels()
    return software_tpu


def installed() -> SoftwareTpu:
    """The plugin of this process. Raises DeviceUnavailableError if there is none."""
    for kept in _KEPT:
        if isinstance(kept, SoftwareTpu):
            return kept
    raise DeviceUnavailableError("The software TPU is not installed in this process.")


@contextlib.contextmanager
def mosaic_kernels() -> Iterator[None]:
    """A context in which attention is torch's own again: a program for a chip has its kernel."""
    import torch  # noqa: PLC0415

    ours = torch.nn.functional.scaled_dot_product_attention
    torch.nn.functional.scaled_dot_product_attention = torch._C._nn.scaled_dot_product_attention
    try:
        yield
    finally:
        torch.nn.functional.scaled_dot_product_attention = ours


def _replace_mosaic_kernels() -> None:
    import torch  # noqa: PLC0415 - after TPU_LIBRARY_PATH is set

    original = torch.nn.functional.scaled_dot_product_attention

    def attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        """Attention from plain matrix products, scores in float32, for tensors on the `tpu`."""
        if query.device.type != "tpu":
            plain = (query, key, value, attn_mask, dropout_p, is_causal)
            return original(*plain, scale=scale, enable_gqa=enable_gqa)
        if enable_gqa:
            groups = query.shape[-3] // key.shape[-3]
            key = key.repeat_interleave(groups, -3)
            value = value.repeat_interleave(groups, -3)
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        scores = query.float() @ key.float().transpose(-1, -2) * factor
        if is_causal:
            seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
            scores = scores.masked_fill(~seen, float("-inf"))
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attn_mask, float("-inf"))
        elif attn_mask is not None:
            scores = scores + attn_mask.float()
        return (scores.softmax(-1) @ value.float()).to(query.dtype)

    torch.nn.functional.scaled_dot_product_attention = attention
    overrides = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    overrides.impl(  # type: ignore[no-untyped-call]
        "nonzero", lambda x: torch.nonzero(x.cpu()).to(x.device), "PrivateUse1"
    )
    _KEPT.append(overrides)  # the override ends with the object


_KEPT: list[object] = []
