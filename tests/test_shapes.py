"""Claims about sizes and program keys."""

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpu_ui.errors import InvalidRequestError
from tpu_ui.shapes import Device, ImageSize, Mode, ProgramKey, shown

SIDES = st.integers(min_value=1, max_value=99_999)


@given(width_px=SIDES, height_px=SIDES)
def test_size_is_read_as_it_is_written(width_px: int, height_px: int) -> None:
    size = ImageSize(width_px, height_px)
    assert ImageSize.parse(str(size)) == size


def test_width_comes_first() -> None:
    assert ImageSize.parse("320x192") == ImageSize(width_px=320, height_px=192)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "256",
        "256x",
        "x256",
        "0x256",
        "-1x256",
        "256X256",
        "256 x 256",
        "256x256 ",
        "256x256\n",
        "1.5x2",
        "256×256",
        "٢٥٦x256",
        "0256x256",
        "100000x1",
        "256x256x3",
        None,
        256,
        (256, 256),
        b"256x256",
        ["256x256"],
    ],
)
def test_anything_else_is_no_size(text: object) -> None:
    with pytest.raises(InvalidRequestError, match="write it like 256x256"):
        ImageSize.parse(text)


def test_value_objects_cannot_be_changed() -> None:
    size = ImageSize(1, 2)
    with pytest.raises(FrozenInstanceError):
        size.width_px = 3  # type: ignore[misc]
    assert {size: "found"}[ImageSize(1, 2)] == "found"


def test_every_part_of_a_key_is_in_its_name() -> None:
    key = ProgramKey("demo", Mode.COMPILED, Device.TPU, ImageSize(320, 192), True, 77, 2)
    assert str(key) == "demo/compiled/tpu/320x192/batch-2/guidance-on/tokens-77"
    others = [
        ProgramKey("other", Mode.COMPILED, Device.TPU, ImageSize(320, 192), True, 77, 2),
        ProgramKey("demo", Mode.EAGER, Device.TPU, ImageSize(320, 192), True, 77, 2),
        ProgramKey("demo", Mode.COMPILED, Device.CPU, ImageSize(320, 192), True, 77, 2),
        ProgramKey("demo", Mode.COMPILED, Device.TPU, ImageSize(192, 320), True, 77, 2),
        ProgramKey("demo", Mode.COMPILED, Device.TPU, ImageSize(320, 192), False, 77, 2),
        ProgramKey("demo", Mode.COMPILED, Device.TPU, ImageSize(320, 192), True, 78, 2),
        ProgramKey("demo", Mode.COMPILED, Device.TPU, ImageSize(320, 192), True, 77, 1),
    ]
    assert len({str(other) for other in [key, *others]}) == 8


def test_shown_input_is_short() -> None:
    assert shown("a") == "'a'"
    assert len(shown("a" * 10_000)) == 60
    assert shown("\n\x1b[31m") == "'\\n\\x1b[31m'"
