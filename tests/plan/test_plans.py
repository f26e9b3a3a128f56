"""Claims about kept plans: what they say of the models, and when they are not to be relied on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launching import ROOT
from tpu_ui import plans
from tpu_ui.chips import BY_NAME
from tpu_ui.errors import StrategyError
from tpu_ui.plans import GIB, Image, Plan, Program
from tpu_ui.presets import load_all
from tpu_ui.shapes import Device, Strategy
from tpu_ui.strategy import USABLE, Machine, choose, need_gib

MODELS = load_all()
KEPT = [(model, chip) for model in MODELS for chip in ("v6e", "v7x")]


def kept(model: str, chip: str = "v6e") -> Plan:
    plan = plans.read(model, chip)
    assert plan is not None
    return plan


def machine(chip: str, chips: int = 1) -> Machine:
    kind = BY_NAME[chip]
    return Machine(Device.TPU, kind.memory_gib, chips * kind.devices, chip)


def compiled(model: str, component: str, guided: bool = False) -> Program:
    for image in kept(model).images:
        for program in image.programs:
            if program.component == component and image.guided == guided:
                assert program.how == "compiled"
                return program
    raise AssertionError(f"no {component} in the plan of {model}")


@pytest.mark.parametrize(("model", "chip"), KEPT)
def test_plan_is_kept_for_every_model_at_its_default_size(model: str, chip: str) -> None:
    plan = kept(model, chip)
    assert (plan.model, plan.chip) == (model, chip)
    assert set(plan.versions) == set(plans.VERSIONED)
    preset = MODELS[model]
    images = plan.compiled(plans.Layout.WHOLE, 1, preset.image_sizes[0])
    assert [image.guided for image in images] == list(preset.guidance_states())
    programs = [one for image in images for one in image.programs]
    assert {one.component for one in programs} == set(preset.components.weighted)
    for image in images:
        denoiser = [
            one.runs for one in image.programs if one.component == preset.components.denoiser
        ]
        assert sum(denoiser) in (1, 2), "once a step, or once more for guidance"


@pytest.mark.parametrize(("model", "chip"), KEPT)
def test_plan_was_made_with_the_versions_that_the_app_needs(model: str, chip: str) -> None:
    assert kept(model, chip).stale() == ()


@pytest.mark.parametrize("model", [name for name in MODELS if name != "demo"])
def test_weights_are_those_of_the_preset(model: str) -> None:
    weights = {name: size / GIB for name, size in kept(model).weights_bytes.items()}
    assert weights == pytest.approx(MODELS[model].weights_gib, rel=0.01)


# The models


def test_known_figures_come_out_within_three_percent() -> None:
    transformer = compiled("flux1-dev", "transformer")
    assert transformer.peak_bytes / GIB == pytest.approx(22.48, rel=0.03)
    assert transformer.flop / 1e12 == pytest.approx(59.7, rel=0.03)
    assert compiled("flux1-schnell", "transformer").peak_bytes / GIB == pytest.approx(
        22.48, rel=0.03
    )
    assert compiled("flux1-dev", "text_encoder_2").peak_bytes / GIB == pytest.approx(9.21, rel=0.03)
    medium = compiled("sd35-medium", "transformer", guided=True)
    assert medium.peak_bytes / GIB == pytest.approx(4.89, rel=0.03)
    assert medium.flop / 1e12 == pytest.approx(14.1, rel=0.03)


def test_flux_1_schnell_does_not_fit_a_v6e_chip_resident() -> None:
    preset, plan, chip = MODELS["flux1-schnell"], kept("flux1-schnell"), machine("v6e")
    sizes = preset.image_sizes[:1]
    assert need_gib(preset, Strategy.RESIDENT, chip, plan, sizes) > 32
    assert choose(preset, None, chip, plan).strategy is Strategy.STAGED


def test_sd35_medium_fits_a_v6e_chip_resident() -> None:
    preset, plan, chip = MODELS["sd35-medium"], kept("sd35-medium"), machine("v6e")
    assert need_gib(preset, Strategy.RESIDENT, chip, plan) < USABLE * 32
    assert choose(preset, None, chip, plan).strategy is Strategy.RESIDENT


def test_flux_2_dev_fits_on_eight_chips_and_not_on_one() -> None:
    preset, plan = MODELS["flux2-dev"], kept("flux2-dev")
    assert choose(preset, None, machine("v6e", 8), plan).strategy is Strategy.SHARDED
    with pytest.raises(StrategyError, match="does not fit"):
        choose(preset, None, machine("v6e"), plan)


# Plans that are not to be relied on


def plan_of(**changes: object) -> Plan:
    return Plan.model_validate(
        {"model": "demo", "chip": "v6e", "versions": plans.versions(), "weights_bytes": {}}
        | changes
    )


def test_plan_of_other_versions_is_marked_and_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "FOLDER", tmp_path)
    other = plan_of(versions={**plans.versions(), "libtpu": "0.0.1"})
    plans.write(other, plans.path("demo", "v6e"))
    here = plans.versions()["libtpu"]
    assert other.stale() == (f"libtpu 0.0.1, and {here} is installed",)
    assert plans.usable(MODELS["demo"], "v6e") is None


def test_plan_of_another_model_of_that_name_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "FOLDER", tmp_path)
    plans.write(plan_of(weights_bytes={"vae": GIB}), plans.path("demo", "v6e"))
    same, other = (
        MODELS["demo"].model_copy(update={"weights_gib": {"vae": size}}) for size in (1.005, 1.2)
    )
    assert plans.usable(same, "v6e") is not None
    assert plans.usable(other, "v6e") is None


def test_plan_of_these_versions_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "FOLDER", tmp_path)
    plans.write(plan_of(), plans.path("demo", "v6e"))
    assert plans.usable(MODELS["demo"], "v6e") == plan_of()
    assert plans.usable(MODELS["demo"], None) is None


def test_damaged_plan_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(plans, "FOLDER", tmp_path)
    plans.path("demo", "v6e").write_text("{")
    assert plans.read("demo", "v6e") is None
    assert "demo-v6e.json cannot be used" in caplog.text


def test_what_was_written_is_read(tmp_path: Path) -> None:
    image = Image(
        layout=plans.Layout.WHOLE,
        size="256x256",
        guided=True,
        programs=(Program(component="vae", part="Decoder", compile_s=3.0),),
    )
    file = tmp_path / "plans" / "demo-v6e.json"
    plans.write(plan_of(images=(image,)), file)
    assert Plan.model_validate(json.loads(file.read_text())).images == (image,)


def test_new_images_stand_in_for_old_ones_of_their_kind() -> None:
    old = Image(layout=plans.Layout.WHOLE, size="256x256", guided=True, programs=())
    other, new = old.model_copy(update={"guided": False}), old.model_copy(update={"kept_bytes": 7})
    assert plan_of(images=(old, other)).with_images([new]).images == (new, other)


def test_reading_a_plan_leaves_torch_alone() -> None:
    code = (
        "import sys; from tpu_ui import plans, timeline;"
        "plans.read('demo', 'v6e'); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
