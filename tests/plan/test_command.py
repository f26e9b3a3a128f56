"""Claims about the command: what it prints, how it ends, what it says of wrong arguments."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plan.test_timeline import plan, preset, program
from tests.processes import family
from tpu_ui import plans
from tpu_ui.chips import BY_NAME
from tpu_ui.plan import report
from tpu_ui.plan.__main__ import DOES_NOT_FIT, FITS, WRONG_ARGUMENTS, Bar, main
from tpu_ui.plan.making import Bench
from tpu_ui.plans import GIB, Way
from tpu_ui.shapes import ImageSize, Strategy
from tpu_ui.timeline import timeline

SIZE = ImageSize(512, 512)


def said(arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit status and output of a command that a kept plan answers."""
    status = main([*arguments.split(), "--no-compile"])
    return status, capsys.readouterr().out


def complaint(arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    assert ended.value.code == WRONG_ARGUMENTS
    return capsys.readouterr().err.splitlines()[-1]


def test_model_that_fits_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = said("sd35-medium --chip v6e", capsys)
    assert status == FITS
    assert "1024x1024 fits, resident: " in out
    assert "to spare." in out


def test_strategy_that_does_not_fit_ends_with_3_and_names_one_that_would(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out = said("flux1-schnell --chip v6e --strategy resident", capsys)
    assert status == DOES_NOT_FIT
    assert "1024x1024 does not fit, resident: it needs 3" in out
    assert "It would fit staged, with 2" in out


def test_model_that_does_not_fit_is_told_of_more_chips(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out = said("flux2-dev --chip v6e", capsys)
    assert status == DOES_NOT_FIT
    assert "It would fit sharded on 8 chips of v6e." in out
    assert said("flux2-dev --chip v6e --chips 8", capsys)[0] == FITS


def test_a_plan_that_is_kept_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert "By the plan kept with the app" in said("sd35-medium", capsys)[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_silence_and_leaves_no_process(
    number: signal.Signals, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tpu_ui.plan", "demo", "--fresh", "--cache", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "reading the programs of demo" in process.stderr.readline()
    (child,) = family(process.pid)
    process.send_signal(number)
    out, errors = process.communicate(timeout=20)
    assert (process.returncode, out, errors) == (128 + number, "", "")
    assert not Path(f"/proc/{child}").exists()


def test_every_program_of_an_image_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    _, out = said("sd35-medium", capsys)
    for name in (
        "text_encoder: CLIPTextModelWithProjection",
        "text_encoder_3: T5EncoderModel",
        "transformer: SD3Transformer2DModel, guided",
        "transformer: SD3Transformer2DModel, unguided",
        "vae: ResnetBlock2D",
    ):
        assert name in out
    assert "Over the host link: new prompt" in out


def test_plan_is_written_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    said(f"sd35-medium --json {file}", capsys)
    assert plans.Plan.model_validate_json(file.read_text()) == plans.read("sd35-medium", "v6e")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("flux9", "There is no model 'flux9'; choose from demo, flux1-dev,"),
        ("demo --chip v9", "invalid choice: 'v9' (choose from"),
        ("demo --chips 3", "A machine has 1, 4, 8 of v6e chips, not 3."),
        ("demo --chip v7x --chips 8", "A machine has 1, 4 of v7x chips, not 8."),
        ("demo --size 1x1", "has no size 1x1; choose from 256x256, 320x192, 192x320."),
        ("demo --size big", "'big' is not a size; write it like 256x256."),
        ("demo --mode eager", "Mode eager cannot be planned"),
        ("demo --strategy sharded", "is not offered sharded; choose from resident, staged,"),
        ("demo --mode compile", "(choose from 'eager', 'fused', 'compiled')"),
        ("demo --json /proc/plan.json", "--json /proc/plan.json cannot be written: "),
        ("demo --json presets", "--json presets cannot be written: Is a directory."),
        ("demo --cache /proc/here", "--cache /proc/here cannot be written: "),
        ("flux1-dev --strategy sharded", "sharded does not run on 1 v6e: it takes several"),
    ],
)
def test_wrong_arguments_end_with_2_and_say_what_would_be_right(
    arguments: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in complaint(arguments, capsys)


def test_table_has_what_the_compiler_said_and_the_floor_of_its_time() -> None:
    image = timeline(preset(), plan(), Way(Strategy.RESIDENT), SIZE)
    head, _, denoiser, _ = report.program_table(preset(), image, BY_NAME["v6e"]).splitlines()
    assert head.split() == [
        *("program", "runs", "compile", "s", "arguments", "temporary", "code", "peak", "TFLOP"),
        *("GB", "floor", "ms"),
    ]
    # 4e12 operations at 918e12 in a second; 8e9 bytes at 1640e9 take longer.
    assert denoiser.split() == [
        *("transformer", "1", "a", "step", "compiled", "10", "20.50", "2.00", "0.25", "-"),
        *("4.00", "8.0", "4.9"),
    ]


def test_floor_of_an_image_counts_each_step() -> None:
    image = timeline(preset(), plan(), Way(Strategy.RESIDENT), SIZE)
    # Four steps, a text encoder and a decoder, of 4.88 ms each.
    assert report.least_time(preset(), image, BY_NAME["v6e"]) == (
        "No image of 4 steps takes less than 0.029 s."
    )


def test_refused_program_says_what_the_compiler_said() -> None:
    refused = program("transformer", 0, 0, how="failed", error="Exceeded hbm capacity by 8 GiB")
    bad = plan(program("text_encoder", 8, 1), refused, program("vae", 0.5, 4))
    machine = Bench(BY_NAME["v6e"], 1, Path(), lambda *_: None).machine
    image = timeline(preset(), bad, Way(Strategy.RESIDENT), SIZE)
    judged = report.verdict(preset(), image, machine, bad)
    assert not judged.fits
    assert "its programs do not compile" in judged.text
    assert "(transformer: Exceeded hbm capacity by 8 GiB)" in judged.text


def test_verdict_says_how_much_is_to_spare() -> None:
    machine = Bench(BY_NAME["v5p"], 1, Path(), lambda *_: None).machine
    image = timeline(preset(), plan(), Way(Strategy.RESIDENT), SIZE)
    assert image.peak_bytes == round(34.25 * GIB)
    assert report.verdict(preset(), image, machine, plan()).text == (
        "512x512 fits, resident: 34.2 of 95 GiB, of which 92.1 can be used; 57.9 to spare."
    )


def test_progress_is_a_line_for_each_new_thing_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bar = Bar(sys.stderr)
    bar(0, 2, "compiling vae", 0.5)
    bar(0, 2, "compiling vae", 1.0)
    bar(1, 2, "compiling transformer", 0.5)
    bar.close()
    assert capsys.readouterr().err == "[0/2] compiling vae\n[1/2] compiling transformer\n"
