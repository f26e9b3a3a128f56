"""Folders and files that the app writes, and how many of them are kept."""

import os
import stat
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of a kind of files is kept. None: no limit. What is oldest goes first."""

    count: int | None = None
    size_bytes: int | None = None
    age_s: float | None = None


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


def own_temporary(name: str) -> Path:
    """A folder of this user alone, on a disk that may not outlive the machine; the same one again
    while it is there."""
    root = Path(tempfile.gettempdir()) / f"tpu-ui-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        root = Path(tempfile.mkdtemp(prefix="tpu-ui-"))  # somebody else was there first
    folder = root / name
    folder.mkdir(exist_ok=True)
    return folder


def prune(
    files: Iterable[Path], bounds: Bounds, needed: Callable[[Path], bool], now_s: float
) -> int:
    """Remove the oldest of `files` until the rest is within `bounds`; how many went.

    What is `needed` stays, whatever the bounds. Age is by the wall clock: `now_s` is its time.
    Folders that this empties go too. A file that cannot be removed is left for the next time.
    """
    known = sorted((found for path in files if (found := _stat(path))), reverse=True)
    total_count = total_bytes = removed = 0
    for modified_s, size_bytes, path in known:  # the newest first
        kept = (
            (bounds.count is None or total_count < bounds.count)
            and (bounds.size_bytes is None or total_bytes + size_bytes <= bounds.size_bytes)
            and (bounds.age_s is None or now_s - modified_s <= bounds.age_s)
        )
        if kept or needed(path):
            total_count, total_bytes = total_count + 1, total_bytes + size_bytes
        elif _remove(path):
            removed += 1
    return removed


def _stat(path: Path) -> tuple[float, int, Path] | None:
    try:
        found = path.stat()
    except OSError:  # somebody else has removed it
        return None
    return found.st_mtime, found.st_size, path


def _remove(path: Path) -> bool:
    try:
        path.unlink()
        path.parent.rmdir()
    except OSError:  # not to be removed, or others are in its folder
        pass
    return not path.exists()
