"""Claims about capturing: the programs of a tiny twin are those that its worker compiles."""

import json
import pickle
from pathlib import Path

import pytest

from tests.runtime import twins
from tpu_ui.chips import BY_NAME
from tpu_ui.plan import captured, making
from tpu_ui.plan.making import Bench
from tpu_ui.plans import Image, Layout, Plan
from tpu_ui.presets import Preset
from tpu_ui.shapes import ImageSize

SIZE = ImageSize(32, 32)
# What is alike in a tiny decoder of two levels, in the order of the first runs.
DECODER = [
    ("vae", part, runs)
    for part, runs in (
        ("Conv2d", 1),
        ("ResnetBlock2D", 1),
        ("Attention", 1),
        ("ResnetBlock2D", 3),  # two of them are traced again: their input lies otherwise in memory
        ("Upsample2D", 1),
        ("ResnetBlock2D", 1),
        ("ResnetBlock2D", 1),
        ("GroupNorm", 1),
        ("SiLU", 1),
        ("Conv2d", 1),
    )
]


def quiet(*_: object) -> None:
    """For progress that nobody follows."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Preset:
    return twins.sd3(tmp_path_factory.mktemp("twins"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def whole(tiny: Preset, cache: Path) -> tuple[list[Image], dict[str, int], Path]:
    return captured.images(tiny, Layout.WHOLE, SIZE, cache, making_waits)


def making_waits() -> None:
    import time

    time.sleep(0.2)


def test_image_has_the_programs_that_its_worker_runs(
    whole: tuple[list[Image], dict[str, int], Path],
) -> None:
    images, _, _ = whole
    assert [image.guided for image in images] == [True, False]
    for image in images:
        parts = [(one.component, one.part, one.runs) for one in image.programs]
        texts = 2 if image.guided else 1  # with guidance, the negative prompt is encoded too
        assert parts == [
            ("text_encoder", "CLIPTextModelWithProjection", texts),
            ("text_encoder_2", "CLIPTextModelWithProjection", texts),
            ("transformer", "SD3Transformer2DModel", 1),
            *DECODER,
        ]


def test_equal_programs_are_one(whole: tuple[list[Image], dict[str, int], Path]) -> None:
    guided, unguided = whole[0]
    first, second, denoiser, *decoder = guided.programs
    assert first.digest == second.digest  # two encoders of one form
    assert [one.digest for one in decoder] == [one.digest for one in unguided.programs[3:]]
    assert denoiser.digest != unguided.programs[2].digest  # another batch


def test_programs_are_portable_and_name_no_file_of_this_machine(
    whole: tuple[list[Image], dict[str, int], Path],
) -> None:
    images, _, folder = whole
    for program in images[0].programs:
        code, options = pickle.loads(captured.program_file(folder, program.digest).read_bytes())
        assert code.startswith(b"ML\xefR")
        assert b"StableHLO" in code
        assert b".py" not in code
        assert options


def test_weights_and_embeddings_are_counted(
    whole: tuple[list[Image], dict[str, int], Path], tiny: Preset
) -> None:
    images, weights, _ = whole
    files = Path(tiny.source)
    for name in ("transformer", "text_encoder", "vae"):
        on_disk = sum(file.stat().st_size for file in (files / name).glob("*.safetensors"))
        assert weights[name] == pytest.approx(on_disk, rel=0.25)
    guided, unguided = images
    assert guided.embedding_bytes == 2 * unguided.embedding_bytes
    assert guided.kept_bytes == 32 * guided.embedding_bytes


def test_captured_programs_are_captured_once(
    whole: tuple[list[Image], dict[str, int], Path], tiny: Preset, cache: Path
) -> None:
    def waits() -> None:
        raise AssertionError("it captures again")

    assert captured.images(tiny, Layout.WHOLE, SIZE, cache, waits) == whole


def test_tiny_model_is_planned_with_the_compiler_itself(
    whole: tuple[list[Image], dict[str, int], Path], tiny: Preset, cache: Path
) -> None:
    told: list[str] = []
    bench = Bench(BY_NAME["v6e"], 1, cache, lambda *said: told.append(said[2]))
    plan = making.planned(tiny, None, [SIZE], bench)
    assert isinstance(plan, Plan)
    for image in plan.images:
        for program in image.programs:
            assert program.how == "compiled", program
            assert program.flop > 0
            if program.component in ("transformer", "text_encoder"):
                own = plan.weights_bytes[program.component]
                assert own <= program.argument_bytes
    assert any(what.startswith("compiling vae") for what in told)
    assert json.loads(plan.model_dump_json())["model"] == tiny.name
