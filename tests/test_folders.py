"""Claims about which files are kept, and which never go."""

import os
from pathlib import Path

import pytest

from tpu_ui.folders import Bounds, prune

NOW_S = 1_000_000.0
NOBODY = Bounds()


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Ten files of 100 bytes in two folders; number n is n hours old."""
    made = []
    for hours in range(10):
        path = tmp_path / f"day-{hours % 2}" / f"{hours}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(100))
        os.utime(path, (NOW_S - hours * 3600,) * 2)
        made.append(path)
    return made


def kept(files: list[Path], bounds: Bounds, needed: tuple[int, ...] = ()) -> list[int]:
    removed = prune(files, bounds, lambda path: int(path.stem) in needed, NOW_S)
    left = [int(path.stem) for path in files if path.exists()]
    assert removed == len(files) - len(left)
    return left


def test_oldest_go_by_count(files: list[Path]) -> None:
    assert kept(files, Bounds(count=3)) == [0, 1, 2]


def test_oldest_go_by_size(files: list[Path]) -> None:
    assert kept(files, Bounds(size_bytes=450)) == [0, 1, 2, 3]


def test_old_ones_go_by_age(files: list[Path]) -> None:
    assert kept(files, Bounds(age_s=2 * 3600)) == [0, 1, 2]


def test_without_bounds_nothing_goes(files: list[Path]) -> None:
    assert len(kept(files, NOBODY)) == 10


def test_what_is_needed_stays_whatever_the_bounds(files: list[Path]) -> None:
    assert kept(files, Bounds(count=2, age_s=3600), needed=(5, 9)) == [0, 1, 5, 9]


def test_files_from_the_future_are_not_old(files: list[Path]) -> None:
    """The clock was set back: what was made before looks as if it was made later."""
    for path in files:
        os.utime(path, (NOW_S + 86_400,) * 2)
    assert len(kept(files, Bounds(age_s=3600))) == 10


def test_emptied_folders_go_and_others_stay(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "day-1" / "of the owner.txt").write_text("mine")
    assert kept(files, Bounds(count=0)) == []
    assert [path.name for path in tmp_path.iterdir()] == ["day-1"]


def test_file_that_is_gone_already_is_no_error(files: list[Path]) -> None:
    files[4].unlink()
    assert prune(files, Bounds(count=3), lambda _: False, NOW_S) == 6
