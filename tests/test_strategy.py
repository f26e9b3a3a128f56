"""Claims about where weights go: the shipped models on the machines there are; every refusal."""

from pathlib import Path

import pytest

from tests.dispatch.driving import make_preset
from tpu_ui.chips import CHIPS
from tpu_ui.errors import StrategyError
from tpu_ui.presets import Preset, load_all
from tpu_ui.shapes import Device, Strategy
from tpu_ui.strategy import (
    BY_LEAST_MOVED,
    ENCODING_GIB,
    USABLE,
    Machine,
    Placement,
    choose,
    need_gib,
    unavailable_strategy,
)

RESIDENT, SHARDED, STAGED, OFFLOAD = BY_LEAST_MOVED
MODELS = load_all()
BIG = [preset for preset in MODELS.values() if preset.weights_gib]
SOFTWARE = Machine(Device.SOFTWARE_TPU, None, 1)
CPU = Machine(Device.CPU, None, 1)


def machine(chip: str, chips: int = 1) -> Machine:
    kind = next(kind for kind in CHIPS.values() if kind.name == f"TPU {chip}")
    return Machine(Device.TPU, kind.memory_gib, chips * kind.devices)


MACHINES = [
    machine(kind.name.removeprefix("TPU "), n) for kind in CHIPS.values() for n in (1, 4, 8)
]


def chosen(model: str, chip: str, chips: int = 1) -> tuple[Strategy, int, bool]:
    placement = choose(MODELS[model], None, machine(chip, chips))
    return placement.strategy, placement.devices, placement.text_on_host


def refusal(preset: Preset, wanted: Strategy | None, on: Machine) -> str:
    with pytest.raises(StrategyError) as caught:
        choose(preset, wanted, on)
    return str(caught.value)


# The shipped models


def test_flux_1_schnell_is_staged_on_one_v6e_with_its_text_on_the_host() -> None:
    assert chosen("flux1-schnell", "v6e") == (STAGED, 1, True)
    assert choose(MODELS["flux1-schnell"], None, machine("v6e")).reason == (
        "needs 24.8 of 32 GiB; resident would need 33.9; text is encoded on the host"
    )
    assert chosen("flux1-schnell", "v5p") == (RESIDENT, 1, False)


def test_flux_1_is_sharded_over_four_v6e_with_its_text_on_the_chip() -> None:
    assert chosen("flux1-dev", "v6e", 4) == (SHARDED, 4, False)
    assert "needs 12.8 of 32 GiB on each of 4 devices" in (
        choose(MODELS["flux1-dev"], None, machine("v6e", 4)).reason
    )


def test_text_encoders_that_stay_have_to_fit_beside_the_denoiser_at_work() -> None:
    # 12.8 GiB on each of four v5e chips; 9.1 more would go into 15.5 while nothing else works.
    assert chosen("flux1-schnell", "v5e", 4) == (SHARDED, 4, True)


def test_sd35_medium_is_resident_on_one_v6e_and_staged_on_one_v5e_with_text_on_the_chip() -> None:
    assert chosen("sd35-medium", "v6e") == (RESIDENT, 1, False)
    assert chosen("sd35-medium", "v5e") == (STAGED, 1, False)


def test_sdxl_is_resident_everywhere() -> None:
    assert {choose(MODELS["sdxl"], None, on).strategy for on in MACHINES} == {RESIDENT}


def test_flux_2_dev_is_sharded_over_eight_v6e_and_refused_on_one() -> None:
    assert chosen("flux2-dev", "v6e", 8) == (SHARDED, 8, False)
    assert refusal(MODELS["flux2-dev"], None, machine("v6e")) == (
        "FLUX.2 [dev] does not fit: offload, it needs 65.0 GiB of each device's 32."
        " Use a chip with more memory, or more chips."
    )
    assert "sharded, it needs 33.1 GiB" in refusal(MODELS["flux2-dev"], None, machine("v6e", 4))


def test_one_v7x_chip_is_two_devices() -> None:
    assert chosen("flux2-dev", "v7x") == (SHARDED, 2, False)


def test_more_chips_are_no_remedy_for_a_model_that_cannot_be_sharded() -> None:
    said = refusal(MODELS["sd35-large"], None, machine("v5e", 8))
    assert said.endswith("it needs 17.7 GiB of each device's 16. Use a chip with more memory.")


# What holds for all of them


@pytest.mark.parametrize("preset", BIG, ids=lambda preset: preset.name)
def test_what_moves_least_is_chosen_of_what_fits(preset: Preset) -> None:
    for on in MACHINES:
        assert on.memory_gib is not None
        fitting = [
            strategy
            for strategy in BY_LEAST_MOVED
            if strategy in preset.strategies
            and unavailable_strategy(strategy, on) is None
            and need_gib(preset, strategy, on) <= USABLE * on.memory_gib
        ]
        if fitting:
            assert choose(preset, None, on).strategy is fitting[0]
        else:
            assert "does not fit" in refusal(preset, None, on)


@pytest.mark.parametrize("preset", BIG, ids=lambda preset: preset.name)
def test_nothing_chosen_takes_more_than_a_device_holds_at_any_moment(preset: Preset) -> None:
    for on in MACHINES:
        try:
            placement = choose(preset, None, on)
        except StrategyError:
            continue
        assert on.memory_gib is not None
        assert max(moments_gib(preset, placement)) <= USABLE * on.memory_gib


def moments_gib(preset: Preset, placement: Placement) -> list[float]:
    """What is on one device while text is encoded, and while denoiser and VAE work, counted from
    what the runtime does with each component."""
    parts, weights = preset.components, dict(preset.weights_gib)
    texts = parts.text_encoders
    shared = parts.sharded if placement.strategy is SHARDED else ()
    for name in shared:
        whole = preset.whole_gib[name]
        weights[name] = whole + (weights[name] - whole) / placement.devices
    on_host = [name for name in texts if placement.text_on_host and name not in shared]
    if placement.strategy is OFFLOAD:
        encoding = [weights[name] + ENCODING_GIB for name in texts]
        return [*encoding, *(weights[n] + preset.working_gib for n in (parts.denoiser, parts.vae))]
    visiting = texts if placement.strategy is STAGED else ()
    stay = sum(weights[n] for n in parts.weighted if n not in on_host and n not in visiting)
    visits = [weights[name] for name in visiting if name not in on_host]
    return [stay + max(visits, default=0.0) + ENCODING_GIB, stay + preset.working_gib]


def test_needs_are_those_of_a_sum_by_hand() -> None:
    needs = {
        strategy: round(need_gib(MODELS["flux1-schnell"], strategy, machine("v6e", 4)), 3)
        for strategy in BY_LEAST_MOVED
    }
    assert needs == {
        RESIDENT: 33.924,  # 22.149 + 0.229 + 8.870 + 0.156, and 2.52 to work with
        STAGED: 24.825,  # 22.149 + 0.156 + 2.52
        SHARDED: 12.799,  # 6.114 + (22.149 - 6.114) / 4 + 0.156 + 2.52
        OFFLOAD: 24.669,  # 22.149 + 2.52
    }


# The edges, with 97 GiB for programs


@pytest.fixture
def edge(tmp_path: Path) -> Preset:
    return make_preset(
        tmp_path,
        strategies=BY_LEAST_MOVED,
        weights_gib={"transformer": 60.0, "text_encoder": 30.0, "vae": 4.0},
        working_gib=3.0,
    )


def heavier(preset: Preset, **weights: float) -> Preset:
    return preset.model_copy(update={"weights_gib": {**preset.weights_gib, **weights}})


def test_what_fits_exactly_fits(edge: Preset) -> None:
    one = Machine(Device.TPU, 100, 1)
    assert choose(edge, None, one).strategy is RESIDENT
    assert choose(heavier(edge, vae=4.01), None, one).strategy is STAGED
    assert choose(heavier(edge, transformer=90.0), None, one).strategy is STAGED
    assert choose(heavier(edge, transformer=94.0), None, one).strategy is OFFLOAD
    assert "does not fit" in refusal(heavier(edge, transformer=94.01), None, one)
    both = heavier(edge, transformer=94.0, text_encoder=96.5)
    assert choose(both, None, one).strategy is OFFLOAD
    assert "does not fit" in refusal(heavier(both, text_encoder=96.51), None, one)


def test_text_comes_to_the_chip_where_it_fits_exactly(edge: Preset) -> None:
    one, four = Machine(Device.TPU, 100, 1), Machine(Device.TPU, 100, 4)
    assert not choose(heavier(edge, text_encoder=32.5), STAGED, one).text_on_host
    assert choose(heavier(edge, text_encoder=32.51), STAGED, one).text_on_host
    parts = edge.components.model_copy(update={"sharded": ("transformer",)})
    shared = edge.model_copy(update={"components": parts, "whole_gib": {"transformer": 20.0}})
    assert need_gib(shared, SHARDED, four) == 37
    assert not choose(heavier(shared, text_encoder=60.0), SHARDED, four).text_on_host
    assert choose(heavier(shared, text_encoder=60.01), SHARDED, four).text_on_host


# What nobody knows


def test_device_whose_memory_is_unknown_holds_everything(edge: Preset) -> None:
    placement = choose(edge, None, SOFTWARE)
    assert placement == Placement(RESIDENT)
    assert placement.reason == "no limit is known for this device's memory"
    assert not choose(edge, STAGED, SOFTWARE).text_on_host


def test_model_whose_weight_is_unknown_stays_on_the_chip(tmp_path: Path) -> None:
    placement = choose(make_preset(tmp_path), None, machine("v5e"))
    assert placement == Placement(RESIDENT)
    assert placement.reason == "the preset does not say what the model weighs"


# What the owner wants


def test_wish_is_done_though_it_does_not_fit() -> None:
    placement = choose(MODELS["flux1-dev"], RESIDENT, machine("v6e"))
    assert placement == Placement(RESIDENT)
    assert placement.reason == "asked for; needs 33.9 of 32 GiB, which is too much"


def test_wish_is_done_though_another_strategy_moves_less() -> None:
    placement = choose(MODELS["sdxl"], OFFLOAD, machine("v6e"))
    assert placement == Placement(OFFLOAD)
    assert placement.reason == "asked for; needs 7.3 of 32 GiB"


@pytest.mark.parametrize(
    ("model", "wanted", "on", "reason"),
    [
        ("sdxl", SHARDED, machine("v6e", 8), "is not offered sharded; choose from resident, "),
        ("flux1-dev", SHARDED, SOFTWARE, "cannot run sharded here: the software TPU is one device"),
        ("flux1-dev", SHARDED, machine("v6e"), "it takes several devices, and a worker has one."),
        ("flux1-dev", SHARDED, CPU, "say how many processes with --chips"),
        ("flux1-dev", OFFLOAD, CPU, "cannot run offload here: on a plain CPU there is no chip"),
        ("flux1-dev", STAGED, CPU, "cannot run staged here: on a plain CPU there is no chip"),
    ],
)
def test_wish_that_cannot_be_is_refused_with_the_reason(
    model: str, wanted: Strategy, on: Machine, reason: str
) -> None:
    assert reason in refusal(MODELS[model], wanted, on)


def test_processes_on_a_cpu_can_share_a_model_out() -> None:
    assert choose(MODELS["flux2-dev"], SHARDED, Machine(Device.CPU, None, 2)).devices == 2


def test_model_that_offers_nothing_that_runs_here_is_refused(edge: Preset) -> None:
    only_sharded = edge.model_copy(update={"strategies": (SHARDED,)})
    said = "Model demo cannot run on software-tpu: it offers sharded."
    assert refusal(only_sharded, None, SOFTWARE) == said


def test_a_reason_makes_no_other_placement() -> None:
    assert Placement(STAGED, reason="asked for") == Placement(STAGED, reason="fits")
