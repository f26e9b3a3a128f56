"""Claims about what is written into a PNG and read back from it."""

import io
import json
import struct
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from tpu_ui.errors import MetadataError
from tpu_ui.metadata import (
    JSON_KEY,
    PARAMETERS_KEY,
    ImageInfo,
    Timings,
    encode_png,
    parameters_text,
    read_parameters,
    read_png,
)

INFO = ImageInfo(
    job="j1",
    model="demo",
    mode="compiled",
    device="software-tpu",
    chip="fake",
    size="8x4",
    steps=16,
    guidance=4.0,
    seed=7,
    prompt="a hill",
    negative_prompt="",
    scheduler="FlowMatchEulerDiscreteScheduler",
    dtype="float32",
    strategy="resident",
    timings_s=Timings(0.1, 0.2, 0.3, 0.4, 1.0),
    programs_compiled=0,
    version="0.1.0",
    notices=("The prompt was cut after 40 tokens.",),
)
# Any text that Python can hold, what no UTF-8 file can included.
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=80)
IN_TMP = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def write(path: Path, info: ImageInfo = INFO) -> Path:
    path.write_bytes(encode_png(Image.new("RGB", (8, 4), (1, 2, 3)), info))
    return path


def write_chunk(path: Path, text: str) -> Path:
    """A PNG whose own chunk holds `text` as it is."""
    from PIL.PngImagePlugin import PngInfo

    chunk = PngInfo()
    chunk.add_itxt(JSON_KEY, text)
    Image.new("RGB", (2, 2)).save(path, pnginfo=chunk)
    return path


@IN_TMP
@given(prompt=ANY_TEXT, negative=ANY_TEXT)
def test_any_text_survives_the_round_trip(tmp_path: Path, prompt: str, negative: str) -> None:
    info = replace(INFO, prompt=prompt, negative_prompt=negative)
    assert read_png(write(tmp_path / "a.png", info)) == info.written()


@pytest.mark.parametrize(
    "text", ["\0", "a\0b", "\ud800", "\udfff\ud800", "🏔️ 👩‍🚀", "é\r\n\t", '"\\{}']
)
def test_awkward_text_survives_the_round_trip(tmp_path: Path, text: str) -> None:
    assert read_png(write(tmp_path / "a.png", replace(INFO, prompt=text)))["prompt"] == text


def test_every_field_but_the_job_comes_back_as_it_went_in(tmp_path: Path) -> None:
    info = read_png(write(tmp_path / "a.png"))
    assert {**info, "job": INFO.job} == json.loads(json.dumps(INFO.to_dict()))
    assert info["timings_s"] == {
        "queue": 0.1,
        "encode": 0.2,
        "denoise": 0.3,
        "decode": 0.4,
        "total": 1.0,
    }
    assert info["notices"] == ["The prompt was cut after 40 tokens."]


def test_pictures_of_earlier_versions_which_told_their_job_are_read(tmp_path: Path) -> None:
    path = write_chunk(tmp_path / "a.png", json.dumps(INFO.to_dict()))
    assert ImageInfo.from_dict(read_png(path)) == INFO


def test_pixels_are_what_was_given() -> None:
    with Image.open(io.BytesIO(encode_png(Image.new("RGB", (8, 4), (1, 2, 3)), INFO))) as image:
        assert (image.size, image.mode, image.getpixel((7, 3))) == ((8, 4), "RGB", (1, 2, 3))


def test_other_tools_find_their_parameters(tmp_path: Path) -> None:
    info = replace(INFO, negative_prompt="fog", guidance=4.5)
    with Image.open(write(tmp_path / "a.png", info)) as image:
        assert image.text[PARAMETERS_KEY] == (  # type: ignore[attr-defined]
            "a hill\n"
            "Negative prompt: fog\n"
            "Steps: 16, Sampler: FlowMatchEulerDiscreteScheduler, CFG scale: 4.5, Seed: 7,"
            " Size: 8x4, Model: demo, Version: TPU UI 0.1.0"
        )


def test_empty_negative_prompt_has_no_line() -> None:
    assert "Negative" not in parameters_text(INFO)


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n", b"\x89PNG\r\n\x1a\n" * 9])
def test_file_that_is_no_png_is_told(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(data)
    with pytest.raises(MetadataError, match="not a PNG"):
        read_png(path)


def test_missing_file_and_folder_are_told(tmp_path: Path) -> None:
    for path in (tmp_path / "none.png", tmp_path):
        with pytest.raises(MetadataError, match="not a PNG"):
            read_png(path)


def test_jpeg_called_png_is_told(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png", format="JPEG")
    with pytest.raises(MetadataError, match="not a PNG"):
        read_png(tmp_path / "a.png")


@IN_TMP
@given(cut=st.integers(min_value=0, max_value=10_000))
def test_file_cut_off_anywhere_is_read_or_told(tmp_path: Path, cut: int) -> None:
    data = write(tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(data[: cut % len(data)])
    with suppress(MetadataError):
        assert read_png(tmp_path / "a.png")["seed"] == 7


@IN_TMP
@given(at=st.integers(min_value=0, max_value=10_000), byte=st.integers(0, 255))
def test_file_with_a_changed_byte_is_read_or_told(tmp_path: Path, at: int, byte: int) -> None:
    data = bytearray(write(tmp_path / "a.png").read_bytes())
    data[at % len(data)] = byte
    (tmp_path / "a.png").write_bytes(bytes(data))
    with suppress(MetadataError):
        assert isinstance(read_png(tmp_path / "a.png"), dict)


def test_picture_without_our_settings_is_told(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    with pytest.raises(MetadataError, match="carries no settings"):
        read_png(tmp_path / "a.png")


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null", '"text"', "7", "[" * 5_000])
def test_damaged_settings_are_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(MetadataError, match="damaged"):
        read_png(write_chunk(tmp_path / "a.png", text))


def test_picture_that_claims_to_be_huge_is_refused_unopened(tmp_path: Path) -> None:
    data = bytearray(write(tmp_path / "a.png").read_bytes())
    for side in (8_500, 20_000):  # above our own limit, and above Pillow's
        data[16:24] = struct.pack(">II", side, side)
        data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
        (tmp_path / "b.png").write_bytes(bytes(data))
        with pytest.raises(MetadataError, match="too large"):
            read_png(tmp_path / "b.png")


A1111 = """a cat, "quoted", (masterpiece:1.2)
second line
Negative prompt: blurry,
low quality
Steps: 20, Sampler: DPM++ 2M, CFG scale: 7.5, Seed: 965, Size: 512x768, Model: dream, \
Lora hashes: "a: 1, b: 2", Denoising strength: 0.4, Version: v1.9.4"""


def test_settings_of_another_program_are_read_under_our_names() -> None:
    assert read_parameters(A1111) == {
        "prompt": 'a cat, "quoted", (masterpiece:1.2)\nsecond line',
        "negative_prompt": "blurry,\nlow quality",
        "steps": 20,
        "scheduler": "DPM++ 2M",
        "guidance": 7.5,
        "seed": 965,
        "size": "512x768",
        "model": "dream",
        "others": {
            "Lora hashes": "a: 1, b: 2",
            "Denoising strength": "0.4",
            "Version": "v1.9.4",
        },
    }


def test_our_own_parameters_text_reads_back() -> None:
    read = read_parameters(parameters_text(INFO))
    assert {name: read[name] for name in ("prompt", "steps", "seed", "size", "model")} == {
        "prompt": INFO.prompt,
        "steps": INFO.steps,
        "seed": INFO.seed,
        "size": INFO.size,
        "model": INFO.model,
    }


@given(st.text(max_size=300))
def test_any_parameters_text_is_read_or_told(text: str) -> None:
    with suppress(MetadataError):
        assert isinstance(read_parameters(text)["others"], dict)
    assert read_parameters(f"{text}\nSteps: 5, Seed: x")["seed"] == "x"
