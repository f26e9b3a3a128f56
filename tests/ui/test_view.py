"""What the page says, as pure functions."""

import html
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import presets_with
from tpu_ui.dispatch.interface import (
    ImageSaved,
    Queued,
    Report,
    SizeStatus,
    Status,
    Tally,
    Update,
    WorkerReport,
)
from tpu_ui.dispatch.wire import status_dict
from tpu_ui.metadata import ImageInfo, Timings
from tpu_ui.protocol import Cancelled, Failed, Finished, Loading, Memory, Stepped, Warmed, Warming
from tpu_ui.request import Limits
from tpu_ui.shapes import Device, ImageSize, Mode, ProgramState, Strategy
from tpu_ui.strategy import Placement
from tpu_ui.ui import picker, report, strip, view
from tpu_ui.ui.words import ENGLISH

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
    assert view.progress(ENGLISH, update).text == text


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
    assert ENGLISH.duration(seconds) == text


@given(st.floats(0, 1e6))
def test_a_duration_is_never_off_by_more_than_a_minute(seconds: float) -> None:
    units = {"s": 1, "min": 60, "h": 3600}
    parts = re.findall(r"([\d.]+) (s|min|h)", ENGLISH.duration(seconds))
    assert abs(sum(float(number) * units[unit] for number, unit in parts) - seconds) <= 60


@given(st.floats(0, 1e5), st.none() | st.floats(0, 1e5))
def test_a_bar_is_not_full_before_the_end(elapsed_s: float, expected_s: float | None) -> None:
    done = view.progress(
        ENGLISH, Warming("j", Mode.EAGER, WIDE, "x", 1, elapsed_s, expected_s)
    ).done
    assert done is None or 0 <= done < 1


def a_report(**changes: Any) -> Report:
    values: dict[str, Any] = {
        "index": 0,
        "pid": 7,
        "state": "ready",
        "chip": "v6e",
        "versions": (("torch", "2.13.0"),),
        "memory": Memory(5 * 2**30, 11 * 2**30, of_chip=True),
        "programs_compiled": 128,
        **changes,
    }
    return Report(7300.0, (WorkerReport(**values),))


def test_the_owner_is_told_memory_time_and_versions_and_of_what_the_memory_is() -> None:
    page = report.facts_html(ENGLISH, status(), a_report(), Tally(images=9, failed=2))
    for words in ("5.0 of 16.0 GiB of the chip in use, 11.0 free", "2 h 1 min", "torch 2.13.0"):
        assert words in page
    for words in ("process 7", "2 jobs", "<dd>9</dd>", "2 failed", "128 programs, 0 of them"):
        assert words in page
    host = a_report(memory=Memory(2**30, 2**31, of_chip=False))
    assert "1.0 GiB of the host" in report.facts_html(ENGLISH, status(), host, Tally())
    gone = a_report(memory=None, pid=None, state="failed")
    assert "not known yet" in report.facts_html(ENGLISH, status(), gone, Tally())


@given(st.text())
def test_text_from_outside_never_becomes_markup(text: str) -> None:
    pages = [
        view.progress_html(view.Progress(text)),
        view.info_html(ENGLISH, {"prompt": text, "seed": text}),
        view.note_html(text),
        view.result_html(ENGLISH, [info(notices=(text,), size=text)]),
        strip.now_html(ENGLISH, status(detail=text, state=text)),
        strip.strip_html(ENGLISH, status(chip=text, device_reason=text), text, Mode.COMPILED),
        picker.cards_html(
            ENGLISH, {TALL: SizeStatus(ProgramState.FAILED, reason=text)}, True, text
        ),
        report.facts_html(ENGLISH, status(device_reason=text), a_report(chip=text), Tally()),
        report.log_html(ENGLISH, [[text], [text]]),
    ]
    ours = {"div", "p", "i", "dl", "dt", "dd", "span", "section", "ul", "li", "b", "strong"}
    ours |= {"fieldset", "legend", "label", "input", "pre", "h2", "details", "summary"}
    for page in pages:
        assert set(re.findall(r"</?([^\s>]*)", page)) <= ours


def test_a_prompt_in_a_file_is_shown_as_text() -> None:
    page = view.info_html(ENGLISH, {"prompt": NASTY})
    assert "<script" not in page
    assert html.escape(NASTY) in page


def test_the_picker_tells_the_state_of_each_size() -> None:
    page = picker.cards_html(ENGLISH, status().sizes[Mode.COMPILED], False, "")
    assert "ready, took 12 s" in page
    assert "compiling: 41 programs, 12 s of about 30 s" in page
    assert "cold, about 31 s" in page
    failed = SizeStatus(ProgramState.FAILED, reason="out of memory")
    assert "failed: out of memory" in picker.cards_html(ENGLISH, {TALL: failed}, False, "")


def test_a_size_has_its_shape_to_scale() -> None:
    page = picker.cards_html(ENGLISH, status().sizes[Mode.COMPILED], False, "")
    sides = re.findall(r"width:(\d+)px;height:(\d+)px", page)
    assert [(int(w), int(h)) for w, h in sides] == [(24, 24), (30, 18), (18, 30)]


def test_a_size_that_cannot_be_chosen_says_why() -> None:
    unfit = SizeStatus(ProgramState.COLD, unfit="needs 40 GiB, the chip has 32")
    cold = SizeStatus(ProgramState.COLD, expected_s=31.0)
    sizes = {SQUARE: SizeStatus(ProgramState.READY), WIDE: cold, TALL: unfit}
    for locked in (False, True):
        ready, waits, too_large = re.findall(
            "<li.*?</li>", picker.cards_html(ENGLISH, sizes, locked, "")
        )
        assert "disabled" not in ready
        assert ("disabled" in waits) is locked
        assert ("cold, about 31 s, locked" in waits) is locked
        assert (picker.LOCKED in waits) is locked
        assert "disabled" in too_large
        assert "does not fit: needs 40 GiB, the chip has 32" in too_large


def test_the_same_state_gives_the_same_page() -> None:
    once = strip.strip_html(ENGLISH, status(), "Demo", Mode.COMPILED)
    assert once == strip.strip_html(ENGLISH, status(), "Demo", Mode.COMPILED)
    cards = [picker.cards_html(ENGLISH, status().sizes[Mode.COMPILED], True, "a") for _ in range(2)]
    assert cards[0] == cards[1]


def test_a_locked_picker_offers_ready_sizes_only() -> None:
    sizes = view.sizes_of(status(), limits(), Mode.COMPILED)
    assert view.open_sizes(status(), sizes) == ["256x256"]
    assert view.open_sizes(status(locked=False), sizes) == ["256x256", "320x192", "192x320"]


def test_an_unlocked_picker_says_the_cost_first() -> None:
    now = status(locked=False)
    sizes = view.sizes_of(now, limits(), Mode.COMPILED)
    note = view.size_note(ENGLISH, now, sizes, "192x320")
    assert note == "192x320 is cold and has to be compiled first: about 31 s."
    assert "compiling now" in view.size_note(ENGLISH, now, sizes, "320x192")
    assert "nothing left to compile" in view.size_note(ENGLISH, now, sizes, "256x256")


def test_a_model_that_is_not_loaded_has_only_cold_sizes() -> None:
    sizes = view.sizes_of(status(model="another"), limits(), Mode.COMPILED)
    assert {one.state for one in sizes.values()} == {ProgramState.COLD}


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [("320x192", "320x192"), ("1x1", "256x256"), (None, "256x256"), (7, "256x256")],
)
def test_the_visitors_choice_is_kept_while_it_is_on_offer(wanted: object, chosen: str) -> None:
    assert view.chosen_size(["320x192", "256x256"], wanted, SQUARE) == chosen
    assert view.chosen_size([], wanted, SQUARE) is None


def test_modes_that_cannot_run_are_named_with_the_reason() -> None:
    on_cpu = limits(Device.CPU)
    assert view.mode_choices(ENGLISH, on_cpu) == (("Strict eager", "eager"),)
    note = view.mode_note(ENGLISH, on_cpu, Mode.EAGER)
    assert "Compiled is not available here: " in note
    assert "Fused eager is not available here: " in note


def test_strategies_that_run_here_are_choices_and_say_what_they_do() -> None:
    assert view.strategy_choices(ENGLISH, status()) == (
        ("Automatic: what moves least and fits", "auto"),
        ("Staged: text encoders come and go", "staged"),
    )
    assert view.chosen_strategy(status()) == "auto"
    assert view.chosen_strategy(status(strategy=Strategy.STAGED)) == "staged"
    assert set(view.STRATEGY_TITLES) == set(view.STRATEGY_NOTES) == set(Strategy)


def test_strategy_says_what_runs_and_why_what_cannot_and_what_a_change_takes() -> None:
    assert view.strategy_note(ENGLISH, status()) == (
        "Staged: needs 23.1 of 32 GiB. Sharded is not available: there is one chip."
        " The owner can change it; the model is then loaded again."
    )


def test_strip_and_status_tell_the_strategy_and_its_reason() -> None:
    now = status(placement=Placement(Strategy.SHARDED, 8, reason="needs <20 GiB"))
    page = strip.strip_html(ENGLISH, now, "Demo", Mode.COMPILED)
    assert '<div title="needs &lt;20 GiB"><dt>Strategy</dt><dd>Sharded</dd></div>' in page
    told = status_dict(now)
    assert (told["strategy"], told["devices"]) == ("sharded", 8)
    assert told["strategy_reason"] == "needs <20 GiB"


def test_fields_without_use_say_why() -> None:
    without = limits(negative_prompt=False, max_count=1)
    assert view.negative_prompt_note(ENGLISH, without) == "This model takes no negative prompt."
    assert "one image at a time" in view.count_note(ENGLISH, without)


def test_the_result_line_names_seeds_and_what_was_compiled() -> None:
    line = view.result_html(ENGLISH, [info(), info(seed=8, programs_compiled=3)])
    assert "Seeds 7 to 8" in line
    assert "3 programs compiled on the way" in line
    assert view.result_html(ENGLISH, []) == '<div class="tpu-result"></div>'
