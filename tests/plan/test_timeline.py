"""Claims about what is on a chip when, on numbers that can be added up by hand."""

import pytest

from tpu_ui.plans import GIB, Image, Layout, Plan, Program, Way
from tpu_ui.presets import ComponentsTable, Preset, load_all
from tpu_ui.shapes import Device, ImageSize, Strategy
from tpu_ui.strategy import Machine, choose, need_gib, unavailable_sizes
from tpu_ui.timeline import Timeline, timeline

TEXT, DENOISER, VAE = 8, 20, 1  # GiB
RESIDENT, STAGED, OFFLOAD, SHARDED = (
    Strategy.RESIDENT,
    Strategy.STAGED,
    Strategy.OFFLOAD,
    Strategy.SHARDED,
)


def gib(number: float) -> int:
    return round(number * GIB)


def preset(**changes: object) -> Preset:
    return load_all()["flux1-schnell"].model_copy(
        update={
            "sizes": ("512x512", "1024x512"),
            "dtype": "bfloat16",
            "components": ComponentsTable(
                denoiser="transformer",
                text_encoders=("text_encoder",),
                vae="vae",
                sharded=("transformer",),
            ),
            "strategies": (RESIDENT, STAGED, OFFLOAD, SHARDED),
            "weights_gib": {"transformer": DENOISER, "text_encoder": TEXT, "vae": VAE},
            "whole_gib": {"transformer": 4.0},
            "working_gib": 3.0,
            **changes,
        }
    )


def program(component: str, arguments: float, temporary: float, **more: object) -> Program:
    return Program.model_validate(
        {
            "component": component,
            "part": component,
            "digest": component,
            "compile_s": 10.0,
            "argument_bytes": gib(arguments),
            "temporary_bytes": gib(temporary),
            "code_bytes": gib(0.25),
            "flop": 4e12,
            "accessed_bytes": 8e9,
            **more,
        }
    )


def plan(*programs: Program) -> Plan:
    image = Image(
        layout=Layout.WHOLE,
        size="512x512",
        guided=False,
        embedding_bytes=gib(0.01),
        kept_bytes=gib(0.5),
        programs=programs
        or (
            program("text_encoder", TEXT, 1),
            program("transformer", DENOISER + 0.5, 2),
            program("vae", 0.5, 4),
        ),
    )
    weights = {"transformer": gib(DENOISER), "text_encoder": gib(TEXT), "vae": gib(VAE)}
    return Plan(model="tiny", chip="v6e", versions={}, weights_bytes=weights, images=(image,))


def line(way: Way, size: str = "512x512") -> Timeline:
    return timeline(preset(), plan(), way, ImageSize.parse(size))


def totals(way: Way) -> list[float]:
    return [moment.total_bytes / GIB for moment in line(way).moments]


def test_resident_holds_everything_at_every_moment() -> None:
    # 29 of weights, 0.5 of kept embeddings, three programs of 0.25; what each works with;
    # and 0.5 that the denoiser's inputs take.
    assert totals(Way(RESIDENT)) == pytest.approx([31.25, 32.75, 34.25])


def test_staged_holds_a_text_encoder_for_its_turn_only() -> None:
    assert totals(Way(STAGED)) == pytest.approx([31.25, 24.75, 26.25])


def test_text_on_the_host_takes_nothing_of_the_chip() -> None:
    # Nor is its program loaded there.
    assert totals(Way(STAGED, text_on_host=True)) == pytest.approx([22.0, 24.5, 26.0])


def test_offload_holds_one_component_at_a_time() -> None:
    assert totals(Way(OFFLOAD)) == pytest.approx([8 + 1 + 1.25, 20 + 0.5 + 2 + 1.25, 1 + 4 + 1.25])


def test_sharded_holds_a_share_and_what_every_device_has_whole() -> None:
    # 4 whole and a quarter of 16; text and VAE are not shared.
    first, denoising, decoding = totals(Way(SHARDED, 4))
    assert denoising == pytest.approx(8 + 8 + 1 + 0.5 + 2 + 0.5 + 0.75)
    assert decoding == pytest.approx(17 + 4 + 0.5 + 0.75)
    assert first == pytest.approx(17 + 1 + 0.5 + 0.75)


def test_resident_moves_no_weights() -> None:
    found = line(Way(RESIDENT))
    picture = 3 * 512 * 512 * 2
    assert found.same_prompt.to_chip_bytes == 0
    assert found.same_prompt.to_host_bytes == picture
    assert found.new_prompt.to_chip_bytes == gib(0.01)
    assert found.new_prompt.to_host_bytes == gib(0.01) + picture


def test_staged_moves_text_encoders_for_a_new_prompt_only() -> None:
    found = line(Way(STAGED))
    assert found.new_prompt.to_chip_bytes == gib(TEXT) + gib(0.01)
    assert found.same_prompt.to_chip_bytes == 0


def test_offload_moves_denoiser_and_vae_for_every_image() -> None:
    found = line(Way(OFFLOAD))
    assert found.new_prompt.to_chip_bytes == gib(TEXT + DENOISER + VAE) + gib(0.01)
    assert found.same_prompt.to_chip_bytes == gib(DENOISER + VAE)


def test_what_was_not_compiled_is_computed_and_says_so() -> None:
    larger = line(Way(RESIDENT), "1024x512")
    text, denoising, decoding = (moment.program for moment in larger.moments)
    assert [text.how, denoising.how, decoding.how] == ["compiled", "computed", "computed"]
    assert decoding.temporary_bytes == 2 * gib(4)
    assert larger.compile_s is None
    share = line(Way(SHARDED, 4)).moments[1].program
    assert share.how == "computed"
    assert share.argument_bytes == gib(8 + 0.5)
    assert share.flop == 1e12


def test_without_a_plan_the_presets_figures_count() -> None:
    found = timeline(preset(), None, Way(RESIDENT), ImageSize.parse("1024x512"))
    assert found.peak_bytes == gib(29 + 3)
    assert {moment.program.how for moment in found.moments} == {"computed"}


def test_each_program_is_compiled_once() -> None:
    assert line(Way(RESIDENT)).compile_s == 30.0


def machine(memory_gib: float, devices: int = 1) -> Machine:
    return Machine(Device.TPU, memory_gib, devices, "v6e")


def test_strategy_is_chosen_by_the_plan() -> None:
    # At 1024x512 the decoder works with 8: resident needs 38.25, staged 30.25.
    tight = preset()
    assert choose(tight, None, machine(40), plan()).strategy is RESIDENT
    placed = choose(tight, None, machine(32), plan())
    assert placed.strategy is STAGED
    assert placed.needs == "needs 30.0 of 32 GiB by its plan"
    assert "resident would need 38.2" in placed.reason
    assert placed.text_on_host  # 31.25 while it is there, and 31.04 can be used


def test_size_that_cannot_fit_is_told_with_the_reason() -> None:
    small = machine(27.5)  # 26.7 can be used
    only = preset(strategies=(RESIDENT, STAGED))
    placed = choose(only, None, small, plan())
    assert placed.strategy is STAGED
    assert unavailable_sizes(only, placed, small, plan()) == (
        (ImageSize(1024, 512), "it needs 30.0 of 27.5 GiB"),
    )


def test_program_that_the_compiler_refuses_does_not_fit() -> None:
    refused = program("transformer", 0, 0, how="failed", peak_bytes=gib(60), error="too much")
    bad = plan(program("text_encoder", TEXT, 1), refused, program("vae", 0.5, 4))
    assert need_gib(preset(), RESIDENT, machine(32), bad, [ImageSize(512, 512)]) > 60
    # A share of it may do, with what the preset says that programs work with.
    share = timeline(preset(), bad, Way(SHARDED, 8), ImageSize(512, 512)).moments[1].program
    assert (share.how, share.temporary_bytes) == ("computed", gib(3))
