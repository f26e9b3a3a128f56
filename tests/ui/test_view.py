"""What the page says, as pure functions."""

import html
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import presets_with
from tpu_ui.dispatch.interface import ImageSaved, Queued, SizeStatus, Status, Update
from tpu_ui.metadata import ImageInfo, Timings
from tpu_ui.protocol import Cancelled, Failed, Finished, Loading, Stepped, Warmed, Warming
from tpu_ui.request import Limits
from tpu_ui.shapes import Device, ImageSize, Mode, ProgramState, Strategy
from tpu_ui.strategy import Placement
from tpu_ui.ui import strip, view

SQUARE, WIDE, TALL = ImageSize(256, 256), ImageSize(320, 192), ImageSize(192, 320)
NASTY = "<script>alert('x')</script> & \"quoted\""


def limits(device: Device = Device.SOFTWARE_TPU, **changes: Any) -> Limits:
    return presets_with(**changes)["demo"].limits(device)


def status(locked: bool = True, **changes: Any) -> Status:
    sizes = {
        SQUARE: SizeStatus(ProgramState.READY, 12.0, 14.0, 87),
        WIDE: SizeStatus(ProgramState.COMPILING, 12.2, 30.0, 41, "step 1 of 2"),
        TALL: SizeStatus(ProgramState.COLD, None, 31.0),
    }
    values: dict[str, Any] = {
        "device": Device.SOFTWARE_TPU,
        "chip": "v5e",
        "device_reason": "no TPU here",
        "model": "demo",
        "mode": Mode.COMPILED,
        "state": "warming",
        "detail": "Compiling.",
        "locked": locked,
        "sizes": {Mode.COMPILED: sizes},
        "queue_length": 2,
        "programs_compiled": 128,
        "programs_compiled_since_ready": 0,
        "workers": 1,
        "placement": Placement(Strategy.STAGED, reason="needs 23.1 of 32 GiB"),
        "strategy": None,
        "strategies": {Strategy.STAGED: None, Strategy.SHARDED: "there is one chip"},
        **changes,
    }
    return Status(**values)


def info(**changes: Any) -> ImageInfo:
    values: dict[str, Any] = {
        "job": "j",
        "model": "demo",
        "mode": "compiled",
        "device": "cpu",
        "chip": "",
        "size": "256x256",
        "steps": 20,
        "guidance": 4.0,
        "seed": 7,
        "prompt": NASTY,
        "negative_prompt": "",
        "scheduler": "S",
        "dtype": "float32",
        "strategy": "staged",
        "timings_s": Timings(1.0, 0.1, 2.0, 0.3, 3.4),
        "programs_compiled": 0,
        "version": "0",
        **changes,
    }
    return ImageInfo(**values)


def warming(expected_s: float | None = 30.0) -> Warming:
    return Warming("j", Mode.COMPILED, WIDE, "", 41, 12.2, expected_s)


@pytest.mark.parametrize(
    ("update", "text"),
    [
        (Queued("j", 0), "Waiting: yours is next."),
        (Queued("j", 1), "Waiting: 1 job is before yours."),
        (Queued("j", 2), "Waiting: 2 jobs are before yours."),
        (Queued("j", 2, 40.2), "Waiting: 2 jobs are before yours, about 40 s."),
        (Queued("j", 0, 200.0), "Waiting: yours is next, about 3 min 20 s."),
        (Queued("j", 0, 0.3), "Waiting: yours is next."),
        (Loading("j", "vae", 2, 4, 10_000_000), "Loading vae, 2 of 4: 10 MB so far."),
        (Loading("j", "vae", 4, 4, 23_400_000_000), "Loading vae, 4 of 4: 23.4 GB so far."),
        (warming(), "Compiling 320x192: 41 programs, 12 s of about 30 s"),
        (warming(None), "Compiling 320x192: 41 programs, 12 s so far"),
        (Warmed("j", Mode.COMPILED, WIDE, 60, 29.0), "320x192 is ready: 60 programs in 29 s."),
        (Stepped("j", 1, 1, 0, 20, None), "Text is encoded"),
        (Stepped("j", 1, 1, 7, 20, 3.2), "Step 7 of 20, 3 s left"),
        (Stepped("j", 2, 3, 7, 20, 3.2), "Image 2 of 3: step 7 of 20, 3 s left"),
        (ImageSaved("j", 2, Path("x.png"), info()), "Image 2 is done."),
        (Finished("j"), "Done."),
        (Cancelled("j"), "Cancelled."),
        (Failed("j", "LoadError", "No weights."), "Failed: No weights."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_update_is_said_in_one_sentence(update: Update, text: str) -> None:
    assert view.progress(update).text == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.84, "0.8 s"),
        (9.96, "10 s"),
        (34.4, "34 s"),
        (119.4, "119 s"),
        (200, "3 min 20 s"),
        (240, "4 min"),
        (7199.9, "2 h"),
        (7500, "2 h 5 min"),
    ],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert view.duration(seconds) == text


@given(st.floats(0, 1e6))
def test_a_duration_is_never_off_by_more_than_a_minute(seconds: float) -> None:
    units = {"s": 1, "min": 60, "h": 3600}
    parts = re.findall(r"([\d.]+) (s|min|h)", view.duration(seconds))
    assert abs(sum(float(number) * units[unit] for number, unit in parts) - seconds) <= 60


@given(st.floats(0, 1e5), st.none() | st.floats(0, 1e5))
def test_a_bar_is_not_full_before_the_end(elapsed_s: float, expected_s: float | None) -> None:
    done = view.progress(Warming("j", Mode.EAGER, WIDE, "x", 1, elapsed_s, expected_s)).done
    assert done is None or 0 <= done < 1


@given(st.text())
def test_text_from_outside_never_becomes_markup(text: str) -> None:
    pages = [
        view.progress_html(view.Progress(text)),
        view.info_html({"prompt": text, "seed": text}),
        view.note_html(text),
        view.result_html([info(notices=(text,), size=text)]),
        strip.now_html(status(detail=text, state=text)),
        strip.strip_html(status(chip=text, device_reason=text), text, Mode.COMPILED, {}),
    ]
    ours = {"div", "p", "i", "dl", "dt", "dd", "span", "section", "ul", "li", "b", "strong"}
    for page in pages:
        assert set(re.findall(r"</?([^\s>]*)", page)) <= ours


def test_a_prompt_in_a_file_is_shown_as_text() -> None:
    page = view.info_html({"prompt": NASTY})
    assert "<script" not in page
    assert html.escape(NASTY) in page


def test_the_strip_tells_the_state_of_each_size() -> None:
    now = status()
    page = strip.strip_html(now, "Demo", Mode.COMPILED, now.sizes[Mode.COMPILED])
    assert "ready, took 12 s" in page
    assert "compiling: 41 programs, 12 s of about 30 s" in page
    assert "cold, about 31 s" in page
    failed = SizeStatus(ProgramState.FAILED, reason="out of memory")
    assert "failed: out of memory" in strip.strip_html(now, "Demo", Mode.COMPILED, {TALL: failed})


def test_the_same_state_gives_the_same_page() -> None:
    now = status()
    sizes = now.sizes[Mode.COMPILED]
    once = strip.strip_html(now, "Demo", Mode.COMPILED, sizes)
    assert once == strip.strip_html(status(), "Demo", Mode.COMPILED, sizes)


def test_a_locked_picker_offers_ready_sizes_only() -> None:
    sizes = view.sizes_of(status(), limits(), Mode.COMPILED)
    assert view.size_choices(status(), sizes) == (("256x256", "256x256"),)
    assert [value for _, value in view.size_choices(status(locked=False), sizes)] == [
        "256x256",
        "320x192",
        "192x320",
    ]


def test_an_unlocked_picker_says_the_cost_first() -> None:
    now = status(locked=False)
    sizes = view.sizes_of(now, limits(), Mode.COMPILED)
    note = view.size_note(now, sizes, "192x320")
    assert note == "192x320 is cold and has to be compiled first: about 31 s."
    assert "compiling now" in view.size_note(now, sizes, "320x192")
    assert "nothing left to compile" in view.size_note(now, sizes, "256x256")


def test_a_model_that_is_not_loaded_has_only_cold_sizes() -> None:
    sizes = view.sizes_of(status(model="another"), limits(), Mode.COMPILED)
    assert {one.state for one in sizes.values()} == {ProgramState.COLD}


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [("320x192", "320x192"), ("1x1", "256x256"), (None, "256x256"), (7, "256x256")],
)
def test_the_visitors_choice_is_kept_while_it_is_on_offer(wanted: object, chosen: str) -> None:
    choices = (("320x192 (cold)", "320x192"), ("256x256", "256x256"))
    assert view.chosen_size(choices, wanted, SQUARE) == chosen
    assert view.chosen_size((), wanted, SQUARE) is None


def test_modes_that_cannot_run_are_named_with_the_reason() -> None:
    on_cpu = limits(Device.CPU)
    assert view.mode_choices(on_cpu) == (("Strict eager", "eager"),)
    note = view.mode_note(on_cpu, Mode.EAGER)
    assert "Compiled is not available here: " in note
    assert "Fused eager is not available here: " in note


def test_strategies_that_run_here_are_choices_and_say_what_they_do() -> None:
    assert view.strategy_choices(status()) == (
        ("Automatic: what moves least and fits", "auto"),
        ("Staged: text encoders come and go", "staged"),
    )
    assert view.chosen_strategy(status()) == "auto"
    assert view.chosen_strategy(status(strategy=Strategy.STAGED)) == "staged"
    assert set(view.STRATEGY_TITLES) == set(view.STRATEGY_NOTES) == set(Strategy)


def test_strategy_says_what_runs_and_why_what_cannot_and_what_a_change_takes() -> None:
    assert view.strategy_note(status(locked=False)) == (
        "Staged: needs 23.1 of 32 GiB. Sharded is not available: there is one chip."
        " A change loads the model again."
    )
    assert view.strategy_note(status()).endswith(
        "Locked: --strategy chooses it when the app starts."
    )


def test_strip_and_status_tell_the_strategy_and_its_reason() -> None:
    now = status(placement=Placement(Strategy.SHARDED, 8, reason="needs <20 GiB"))
    page = strip.strip_html(now, "Demo", Mode.COMPILED, {})
    assert '<div title="needs &lt;20 GiB"><dt>Strategy</dt><dd>Sharded</dd></div>' in page
    told = strip.status_dict(now)
    assert (told["strategy"], told["devices"]) == ("sharded", 8)
    assert told["strategy_reason"] == "needs <20 GiB"


def test_fields_without_use_say_why() -> None:
    without = limits(negative_prompt=False, max_count=1)
    assert view.negative_prompt_note(without) == "This model takes no negative prompt."
    assert "one image at a time" in view.count_note(without)


def test_the_result_line_names_seeds_and_what_was_compiled() -> None:
    line = view.result_html([info(), info(seed=8, programs_compiled=3)])
    assert "Seeds 7 to 8" in line
    assert "3 programs compiled on the way" in line
    assert view.result_html([]) == '<div class="tpu-result"></div>'
