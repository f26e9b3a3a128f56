"""Folders and files that the app writes."""

import os
import tempfile
from pathlib import Path


def make_writable(folder: Path) -> None:
    """Make `folder` if it is not there, and try a file in it. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, its folder with it if need be. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        fresh.write_bytes(content)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
