"""Reading one component from its files: in its dtype, straight to where it lives, all of it.

A weight is read from the file's memory map and put into its place; the host never holds a whole
component that lives on the device. What is missing from the files is an error here: left to
themselves, the libraries fill it with random numbers.
"""

import ctypes
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import diffusers
import torch
from torch.nn import ModuleList

from tpu_ui.errors import LoadError
from tpu_ui.runtime.checkpoint import Files

NAMED = 3  # so many of many weights are named in a message

# What diffusers says of a weight whose shape is another, and torch of one that no file has.
MISFIT = re.compile(r"(\S+) expected shape torch\.Size\((.*?)\), but got torch\.Size\((.*?)\)")
META = "Cannot copy out of meta tensor"

log = logging.getLogger(__name__)


def read_to(files: Files, name: str, kind: Any, device: torch.device) -> torch.nn.Module:
    """The component with its weights on `device`. Raises LoadError."""
    # On the host both libraries do without a map; one would keep diffusers from offloading.
    return read(files, name, kind, {} if device.type == "cpu" else {"device_map": {"": device}})


def read(files: Files, name: str, kind: Any, options: dict[str, Any]) -> torch.nn.Module:
    """The component, read with further arguments of `from_pretrained`. Raises LoadError."""
    log.info("reading %s (%s)", name, kind.__name__)
    if not issubclass(kind, diffusers.ModelMixin):
        options = options | {"ignore_mismatched_sizes": True}  # they are told, in words, below
    with reading_errors(files, name):
        component, report = kind.from_pretrained(
            files.folder,
            subfolder=name,
            dtype=getattr(torch, files.preset.dtype),
            use_safetensors=True,
            output_loading_info=True,
            **options,
        )
    _check_all_read(files, name, component, report)
    _give_back_memory()
    module: torch.nn.Module = component.eval()
    return module


def read_plain(files: Files, name: str, kind: Any) -> Any:
    """A component without weights: a tokenizer, the scheduler. Raises LoadError."""
    with reading_errors(files, name):
        return kind.from_pretrained(files.folder, subfolder=name)


def _check_all_read(
    files: Files, name: str, component: torch.nn.Module, report: dict[str, Any]
) -> None:
    """Raises LoadError if weights have no values from a file, or numbered blocks of the file have
    no place: a model of fewer blocks draws another picture. A buffer may do without, and single
    further weights mean nothing: real files hold some.
    """
    parameters = {weight for weight, _ in component.named_parameters()}
    if missing := sorted(parameters.intersection(report["missing_keys"])):
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        named = f"{', '.join(missing[:NAMED])}{more}"
        raise files.failure(f"the files of {name} lack {named}", _other_files(name))
    if left := sorted(filter(_of_a_block(component), report["unexpected_keys"])):
        raise files.failure(
            f"the files of {name} hold {', '.join(left[:NAMED])}, and by config.json it has no such"
            " part",
            _other_files(name),
        )
    for weight, has, wanted in sorted(report["mismatched_keys"]):
        raise _misfit(files, name, weight, list(wanted), list(has))


def _of_a_block(component: torch.nn.Module) -> Callable[[str], bool]:
    """Whether a weight's name is one of a further block of a list of blocks."""
    lists = [f"{name}." for name, one in component.named_modules() if isinstance(one, ModuleList)]

    def is_one(weight: str) -> bool:
        return any(weight.startswith(one) and weight[len(one)].isdigit() for one in lists)

    return is_one


def _misfit(files: Files, name: str, weight: str, wanted: object, has: object) -> LoadError:
    what = f"by config.json {weight} of {name} has the shape {wanted}, and in its file it is {has}"
    return files.failure(what, _other_files(name))


def _other_files(name: str) -> str:
    return f"The files in {name} do not belong together, or are those of another model."


def _give_back_memory() -> None:
    """What was needed to convert weights goes back to the system. Only glibc keeps it at all."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class reading_errors:
    """Turns the many ways in which reading fails into a LoadError with a remedy."""

    def __init__(self, files: Files, what: str) -> None:
        self._files = files
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or isinstance(error, LoadError) or not isinstance(error, Exception):
            return
        if isinstance(error, torch.OutOfMemoryError | MemoryError):
            return
        text = str(error)
        if shapes := MISFIT.search(text):
            raise _misfit(self._files, self._what, *shapes.groups()) from error
        if META in text:
            what = f"the files of {self._what} lack some of its weights"
            raise self._files.failure(what, _other_files(self._what)) from error
        lines = text.strip().splitlines() or [type(error).__name__]
        line = self._files.without_path(lines[0]).rstrip(".")
        raise self._files.failure(f"{self._what}: {line}") from error
