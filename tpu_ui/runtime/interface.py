"""What the worker's loop asks of a runtime. Imports no torch, so that the loop need not.

A worker picks its runtime from a "module:Class" string; the class is called with the device choice
and the cache folder, and may fail with DeviceUnavailableError.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from tpu_ui.protocol import (
    Generate,
    ImageMade,
    Load,
    Loading,
    Memory,
    Started,
    Stepped,
    Warmed,
    Warming,
    WarmUp,
)
from tpu_ui.tokens import Reader

DEVICE_CHOICES = ("auto", "tpu", "software-tpu", "cpu")


class Runtime(Protocol):
    """Owns one device and one pipeline. Not safe for use by two threads, but for the counters.

    The three jobs are generators: between two events the caller may look for a cancel, and closes
    the generator to stop. A generator that is closed leaves the device as a normal end does.
    """

    def __init__(self, device: str, cache: Path) -> None: ...

    def started(self) -> Started:
        """What this runtime runs on."""

    def load(self, command: Load) -> Iterator[Loading]:
        """Load the preset's components. Raises LoadError."""

    def loading(self, command: Load) -> Loading | None:
        """How far that load is, while it goes on; None before. Any thread may ask."""

    def readers(self) -> tuple[Reader, ...]:
        """How the loaded model's text encoders read; empty where nobody knows."""

    def warm_up(self, command: WarmUp) -> Iterator[Warming | Warmed]:
        """Run every program of an image; the last event is Warmed."""

    def generate(self, command: Generate) -> Iterator[Stepped | ImageMade]:
        """Make the images one after another. Raises BrokenImageError, OutOfDeviceMemoryError."""

    def programs_compiled(self) -> int:
        """Programs handed to the compiler since the start. Any thread may ask at any time."""

    def programs_since(self, before: int) -> int:
        """Of the programs after the first `before`, those that no size is compiled for beside what
        runs. Where programs have no names a lower bound. Any thread may ask at any time."""

    def memory(self) -> Memory:
        """What this runtime holds of its device's memory. Any thread may ask at any time."""

    def program_names(self, after: int) -> tuple[str, ...]:
        """Names of the programs that `programs_since` counts; empty where nobody knows."""
