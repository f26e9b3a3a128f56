"""Errors that another TPU UI tells of."""

import math

import pytest

from tpu_ui.errors import (
    AllowanceError,
    LockedError,
    QueueFullError,
    TpuUiError,
    as_told,
)

ERRORS = [
    (QueueFullError.of(12, 90.0), 90.0),
    (QueueFullError.of(12, 600.0), 600.0),
    (QueueFullError.of(12, None), None),
    (AllowanceError.of_requests(30, 12.2), 13.0),
    (AllowanceError.of_images(100, 3, 1800.0), 1800.0),
    (AllowanceError.of_images(100, 3, math.inf), math.inf),
]


@pytest.mark.parametrize(("error", "wait_s"), ERRORS)
def test_what_is_told_of_a_wait_is_read_again(
    error: QueueFullError | AllowanceError, wait_s: float | None
) -> None:
    read = as_told(type(error).__name__, str(error))
    assert type(read) is type(error)
    assert str(read) == str(error)
    assert read.wait_s == wait_s


def test_a_kind_is_known_by_its_name_and_another_is_a_plain_error() -> None:
    assert type(as_told("LockedError", "Not ready.")) is LockedError
    for name in ("NoSuchError", "str", "ClassVar", "math", "", "TpuUiError"):
        assert type(as_told(name, "It failed.")) is TpuUiError
