"""What one TPU UI tells is read back by another as it was, through JSON."""

import json
from typing import Any

import pytest

from tpu_ui.dispatch.interface import Queued, SizeStatus, Status, Update
from tpu_ui.dispatch.wire import (
    UNREADABLE,
    model_dict,
    read_model,
    read_progress,
    read_status,
    status_dict,
    update_dict,
)
from tpu_ui.presets import load_all
from tpu_ui.protocol import Cancelled, Failed, Finished, Loading, Stepped, Warmed, Warming
from tpu_ui.shapes import Device, ImageSize, Mode, ProgramState, Strategy
from tpu_ui.strategy import Placement
from tpu_ui.styles import load

SQUARE, WIDE = ImageSize(256, 256), ImageSize(320, 192)
STATUS = Status(
    device=Device.TPU,
    chip="v6e",
    device_reason="found",
    model="demo",
    mode=Mode.COMPILED,
    state="warming",
    detail="Compiling.",
    locked=True,
    sizes={
        Mode.COMPILED: {
            SQUARE: SizeStatus(ProgramState.COMPILING, 3.5, 30.0, 4, "text"),
            WIDE: SizeStatus(ProgramState.FAILED, reason="it gave up"),
        },
        Mode.EAGER: {SQUARE: SizeStatus(ProgramState.COLD, elsewhere=True, unfit="too large")},
    },
    queue_length=3,
    programs_compiled=40,
    programs_compiled_since_ready=1,
    workers=2,
    placement=Placement(Strategy.SHARDED, 8, True, "asked for", "needs 3 of 32 GiB"),
    strategy=Strategy.SHARDED,
    strategies={Strategy.RESIDENT: None, Strategy.OFFLOAD: "no chip"},
    plan="A plan.",
)


def through_json(told: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(json.dumps(told)))


def test_status_is_read_back_as_it_was() -> None:
    back = read_status(through_json(status_dict(STATUS)))
    assert back == STATUS
    # These are no part of what makes two placements the same.
    assert back.placement.reason, back.placement.needs == ("asked for", "needs 3 of 32 GiB")


def test_every_shipped_model_is_read_back_as_it_was_but_for_its_preview() -> None:
    presets = load_all()
    suiting = load(presets)
    for name, preset in presets.items():
        limits = preset.limits(Device.CPU)
        told = through_json(model_dict(preset, limits))
        back, limits_back = read_model({**told, "of a newer version": 1})
        assert back == preset.model_copy(update={"preview": None})
        assert limits_back == limits
        assert suiting.keys() <= presets.keys(), name


@pytest.mark.parametrize(
    "update",
    [
        Queued("a", 3, 12.5),
        Queued("a", 0),
        Loading("a", "vae", 2, 3, 1_000, None),
        Warming("a", Mode.FUSED, SQUARE, "text", 4, 1.5, None),
        Warmed("a", Mode.FUSED, SQUARE, 4, 1.5),
        Stepped("a", 1, 2, 3, 20, 4.5, b"\xff\xd8 a picture"),
        Stepped("a", 1, 2, 0, 20, None),
    ],
    ids=lambda update: type(update).__name__,
)
def test_progress_is_read_back_as_it_was(update: Update) -> None:
    assert read_progress(through_json(update_dict(update, previews=True))) == update


def test_previews_are_told_to_those_who_ask_for_them() -> None:
    told = update_dict(Stepped("a", 1, 2, 3, 20, 4.5, b"a picture"))
    assert "preview" not in json.loads(json.dumps(told))


@pytest.mark.parametrize("update", [Finished("a"), Cancelled("a"), Failed("a", "Error", "no")])
def test_an_ending_is_no_progress(update: Update) -> None:
    assert read_progress(through_json(update_dict(update))) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"state": 3},
        {"programs": None},
        {"programs": {"compiled": {"huge": {}}}},
        {"mode": "warp"},
        {"strategies": []},
        {"chip": None},
    ],
    ids=str,
)
def test_what_is_no_status_is_unreadable_and_nothing_else(wrong: dict[str, Any]) -> None:
    with pytest.raises(UNREADABLE):
        read_status({**through_json(status_dict(STATUS)), **wrong} if wrong else {})
