"""How far the loading of a model is, for those who wait: bytes downloaded, then bytes in place.

The thread that loads says what it is at; any other thread may ask in between.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.distributed.tensor import DTensor
from torch.nn.modules.module import register_module_parameter_registration_hook

BLOCK_BYTES = 512  # of st_blocks; a file may be written with gaps


@dataclass(frozen=True)
class Reached:
    """At `component`, number `index` (from 1) of `count`, or, with no component, at the download.

    `done_bytes` are downloaded, or in place, of `total_bytes`; None where nobody knows.
    """

    component: str
    index: int
    count: int
    done_bytes: int
    total_bytes: int | None


class Course:
    """The course of one load. `total_bytes`: what all weights take, if that is known."""

    def __init__(self, total_bytes: int | None) -> None:
        self._total_bytes = total_bytes
        self._download: tuple[Path, int, int] | None = None
        self._at = ("", 0, 0)
        self._placed_bytes = 0
        self._building: dict[int, torch.nn.Module] = {}

    def downloads(self, folder: Path, total_bytes: int) -> None:
        """As many bytes as that are going to be added to `folder`."""
        self._download = (folder, _size_bytes(folder), total_bytes)

    @contextmanager
    def reading(self, component: str, index: int, count: int) -> Iterator[None]:
        """Modules that are made in here are the component's; it is in place at the end."""
        self._download = None
        self._at = (component, index, count)
        hook = register_module_parameter_registration_hook(self._notice)
        try:
            yield
            self._placed_bytes += self._building_bytes()
        finally:
            hook.remove()
            self._building = {}

    def reached(self) -> Reached:
        """Now. For any thread."""
        if self._download is not None:
            folder, before_bytes, total_bytes = self._download
            return Reached("", 0, 0, max(0, _size_bytes(folder) - before_bytes), total_bytes)
        return Reached(*self._at, self._placed_bytes + self._building_bytes(), self._total_bytes)

    def _notice(self, module: torch.nn.Module, name: str, parameter: object) -> None:
        self._building[id(module)] = module

    def _building_bytes(self) -> int:
        """What the weights that have been read take. The others have no memory yet, on meta."""
        read = {
            id(weight): weight
            for module in list(self._building.values())
            for weight in (*list(module._parameters.values()), *list(module._buffers.values()))
            if weight is not None and not weight.is_meta
        }
        return sum(own.numel() * own.element_size() for own in map(_own, read.values()))


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """What of a tensor is in this process."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _size_bytes(folder: Path) -> int:
    """What the files in a folder take. They come and go while this looks."""
    size_bytes = 0
    for path in folder.glob("*"):
        with suppress(FileNotFoundError):
            size_bytes += path.stat().st_blocks * BLOCK_BYTES
    return size_bytes
