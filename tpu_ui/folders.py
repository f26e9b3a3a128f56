"""Folders that the app writes into."""

import tempfile
from pathlib import Path


def make_writable(folder: Path) -> None:
    """Make `folder` if it is not there, and try a file in it. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass
