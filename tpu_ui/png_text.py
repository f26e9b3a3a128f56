"""The texts in a PNG file, read without its pixels: a small file may hold pixels for gigabytes.

The format is https://www.w3.org/TR/png-3/, chapters 5 and 11. Knows nothing of what the texts say.
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_TEXT_BYTES = 1_000_000  # of one text, and of all; those of a large comparison take a fifth
MAX_CHUNKS = 100_000
TEXTS = (b"tEXt", b"zTXt", b"iTXt")
_HEADER_BYTES = 13


class PngError(ValueError):
    """The file is no PNG, or is cut off or damaged before its end."""


class PngTooLargeError(PngError):
    """Its texts are larger than any of ours."""


def read_texts(path: Path, wanted: tuple[str, ...]) -> tuple[tuple[int, int], dict[str, str]]:
    """Width and height in pixels as the file claims them, and the `wanted` texts that it holds.

    Raises PngError; OSError where the file cannot be read at all.
    """
    with path.open("rb") as file:
        if file.read(len(SIGNATURE)) != SIGNATURE:
            raise PngError("no PNG")
        kind, header = _chunk(file, (b"IHDR",))
        if kind != b"IHDR" or len(header) != _HEADER_BYTES:
            raise PngError("no header")
        width_px, height_px = struct.unpack(">II", header[:8])
        texts: dict[str, str] = {}
        room = MAX_TEXT_BYTES
        for kind, data in _chunks(file):
            name, _, rest = data.partition(b"\0")
            key = name.decode("latin-1")
            if key in wanted:
                text = _text(kind, rest, room)
                room -= len(text)
                texts[key] = text
    return (width_px, height_px), texts


def _chunks(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Those with text, up to the end of the picture."""
    for _ in range(MAX_CHUNKS):
        kind, data = _chunk(file, TEXTS)
        if kind == b"IEND":
            return
        if kind in TEXTS:
            yield kind, data
    raise PngError("no end")


def _chunk(file: BinaryIO, read: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    """The next one's kind and, if it is among those to `read`, its data."""
    head = file.read(8)
    if len(head) < 8:
        raise PngError("cut off")
    length, kind = int.from_bytes(head[:4], "big"), head[4:]
    if kind not in read:
        file.seek(length + 4, 1)
        return kind, b""
    if length > MAX_TEXT_BYTES:
        raise PngTooLargeError("too much text")
    data, check = file.read(length), file.read(4)
    if len(data) < length or int.from_bytes(check, "big") != zlib.crc32(kind + data):
        raise PngError("cut off or damaged")
    return kind, data


def _text(kind: bytes, rest: bytes, room: int) -> str:
    """Of a chunk's data what comes after the keyword."""
    try:
        match kind:
            case b"tEXt":
                return _fitting(rest, room).decode("latin-1")
            case b"zTXt":
                return _unpacked(rest[1:], room).decode("latin-1")
            case _:  # iTXt: is it packed, how, in which language, the keyword in that language
                packed = rest[:1] == b"\1"
                _, _, text = rest[2:].partition(b"\0")[2].partition(b"\0")
                return (_unpacked(text, room) if packed else _fitting(text, room)).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise PngError("damaged") from error


def _fitting(text: bytes, room: int) -> bytes:
    if len(text) > room:
        raise PngTooLargeError("too much text")
    return text


def _unpacked(packed: bytes, room: int) -> bytes:
    """Never more than there is room for, whatever it would unpack to."""
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(packed, room + 1)
    return _fitting(text, room)
