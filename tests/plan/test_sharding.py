"""Claims about one device's share of a model: its programs, and the sums over all devices."""

import time
from pathlib import Path

import pytest

from tests.runtime import twins
from tpu_ui import presets
from tpu_ui.chips import BY_NAME
from tpu_ui.plan import captured, compiler, making
from tpu_ui.plan.making import Bench
from tpu_ui.plans import Image, Layout, Plan, Program, versions
from tpu_ui.presets import Preset
from tpu_ui.shapes import Strategy

DEVICES = 4


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Preset:
    return twins.of(presets.load_all()["flux2-dev"], tmp_path_factory.mktemp("twins"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def share(twin: Preset, cache: Path) -> tuple[Image, Path]:
    (image,), _, folder = captured.images(
        twin, Layout.SHARDED, twin.image_sizes[0], cache, lambda: time.sleep(0.2), DEVICES
    )
    return image, folder


def test_denoiser_is_cut_at_each_sum_over_the_devices(share: tuple[Image, Path]) -> None:
    denoiser = [one for one in share[0].programs if one.component == "transformer"]
    sums = [one for one in denoiser if one.devices == DEVICES]
    # Attention and feed-forward, of picture and text each; a single block sums once.
    assert sum(one.runs for one in sums) == 4 + 1
    assert sum(one.runs for one in denoiser if one.devices == 1) == 4 + 1 + 1
    assert {one.devices for one in share[0].programs if one.component == "vae"} == {1}


def test_sum_is_compiled_for_all_the_devices_and_refused_by_one_chip(
    share: tuple[Image, Path], cache: Path
) -> None:
    image, folder = share
    first = next(one for one in image.programs if one.devices == DEVICES)
    file = captured.program_file(folder, first.digest)
    for chips, how in ((DEVICES, "compiled"), (1, "failed")):
        name = compiler.topology(BY_NAME["v6e"], chips)
        done = compiler.compile_(first, file, name, cache, lambda: time.sleep(0.2))
        assert done.how == how, done.error


def test_plan_of_a_share_says_what_was_compiled_and_what_was_computed(
    twin: Preset, cache: Path, share: tuple[Image, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = twin.image_sizes[0]
    text = Program(component="text_encoder", part="Text", argument_bytes=1000, flop=8.0)
    whole = Image(layout=Layout.WHOLE, size=str(size), guided=share[0].guided, programs=(text,))
    before = Plan(
        model=twin.name, chip="v6e", versions=versions(), weights_bytes={}, images=(whole,)
    )

    def compiled(program: Program, *_: object) -> Program:
        return program.model_copy(update={"how": "compiled", "flop": 1.0})

    monkeypatch.setattr(making.plans, "usable", lambda *_: before)
    monkeypatch.setattr(making.compiler, "compile_", compiled)
    bench = Bench(BY_NAME["v6e"], DEVICES, cache, lambda *_: None)
    plan = making.planned(twin, Strategy.SHARDED, [size], bench)
    (image,) = plan.compiled(Layout.SHARDED, DEVICES, size)
    how = {one.component: one.how for one in image.programs}
    assert how == {"text_encoder": "computed", "transformer": "compiled", "vae": "compiled"}
    assert image.programs[0].flop == text.flop / DEVICES
    assert making.planned(twin, Strategy.SHARDED, [size], bench) == plan
