"""Claims about the texts of a PNG file, read without its pixels."""

import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tpu_ui.png_text import MAX_TEXT_BYTES, PngError, PngTooLargeError, read_texts

KEY = "a key"


def chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)


def written(path: Path, text: str, *, packed: bool, plain: bool) -> Path:
    """By Pillow, as tEXt or zTXt (`plain`) or as iTXt."""
    info = PngInfo()
    if plain:
        info.add_text(KEY, text, zip=packed)
    else:
        info.add_itxt(KEY, text, "en", "a key in English", zip=packed)
    Image.new("RGB", (3, 2)).save(path, "PNG", pnginfo=info)
    return path


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("plain", "text"), [(True, "a hill, caf\xe9"), (False, "a hill 🏔️\n"), (False, "")]
)
def test_every_kind_of_text_is_read(tmp_path: Path, packed: bool, plain: bool, text: str) -> None:
    file = written(tmp_path / "a.png", text, packed=packed, plain=plain)
    assert read_texts(file, (KEY, "another")) == ((3, 2), {KEY: text})
    assert read_texts(file, ("another",)) == ((3, 2), {})


@pytest.mark.parametrize("plain", [True, False])
def test_text_that_unpacks_to_more_than_ours_ever_has_is_not_unpacked(
    tmp_path: Path, plain: bool
) -> None:
    file = written(tmp_path / "a.png", "a" * (MAX_TEXT_BYTES + 1), packed=True, plain=plain)
    assert file.stat().st_size < 10_000
    with pytest.raises(PngTooLargeError):
        read_texts(file, (KEY,))


def test_pixels_that_are_not_there_are_not_missed_and_a_damaged_text_is(tmp_path: Path) -> None:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 9, 8, 8, 2, 0, 0, 0))
    text, end = chunk(b"tEXt", b"a key\0a hill"), chunk(b"IEND", b"")
    file = tmp_path / "a.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + header + text + end)
    assert read_texts(file, (KEY,)) == ((9, 8), {KEY: "a hill"})
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + header + text.replace(b"hill", b"hole") + end)
    with pytest.raises(PngError):
        read_texts(file, (KEY,))
