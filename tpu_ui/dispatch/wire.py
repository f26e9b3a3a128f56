"""What a TPU UI tells programs, as plain JSON values, and another TPU UI reads back: its status,
its models, and the updates of a job.

Each form is written and read here, side by side. What a newer version adds is passed over by an
older one. Reading raises one of UNREADABLE for anything else. Knows nothing of sockets or Gradio.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, assert_never

from tpu_ui import __version__
from tpu_ui.dispatch.interface import ImageSaved, Queued, SizeStatus, Status, Update
from tpu_ui.errors import InvalidRequestError
from tpu_ui.presets import Preset
from tpu_ui.protocol import (
    Cancelled,
    Failed,
    Finished,
    ImageMade,
    Loading,
    Stepped,
    Warmed,
    Warming,
)
from tpu_ui.request import Limits, Style
from tpu_ui.shapes import Device, ImageSize, Mode, ProgramState, Strategy
from tpu_ui.strategy import Placement
from tpu_ui.tokens import Reader

# Which of a front end's visitors asks, as far as turns go; a header of HTTP.
CALLER = "x-tpu-ui-visitor"

# A ValidationError of pydantic is a ValueError.
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)

# The status


def status_dict(status: Status) -> dict[str, Any]:
    """The answer of `/status`."""
    programs = {
        mode.value: {str(size): _size_dict(one) for size, one in sizes.items()}
        for mode, sizes in status.sizes.items()
    }
    return {
        "device": status.device.value if status.device else None,
        "device_reason": status.device_reason,
        "chip": status.chip,
        "model": status.model,
        "mode": status.mode.value,
        "state": status.state,
        "detail": status.detail,
        "locked": status.locked,
        "sizes": programs.get(status.mode.value, {}),
        "programs": programs,
        "queue_length": status.queue_length,
        "programs_compiled": status.programs_compiled,
        "programs_compiled_since_ready": status.programs_compiled_since_ready,
        "workers": status.workers,
        "strategy": status.placement.strategy.value,
        "strategy_reason": status.placement.reason,
        "strategy_asked": status.strategy.value if status.strategy else None,
        "strategies": {one.value: why for one, why in status.strategies.items()},
        "devices": status.placement.devices,
        "text_on_host": status.placement.text_on_host,
        "needs": status.placement.needs,
        "plan": status.plan,
        "version": __version__,
    }


def read_status(told: Mapping[str, Any]) -> Status:
    """The status that `status_dict` made this of."""
    asked = told["strategy_asked"]
    return Status(
        device=None if told["device"] is None else Device(told["device"]),
        chip=_text(told["chip"]),
        device_reason=_text(told["device_reason"]),
        model=_text(told["model"]),
        mode=Mode(told["mode"]),
        state=_text(told["state"]),
        detail=_text(told["detail"]),
        locked=bool(told["locked"]),
        sizes={
            Mode(mode): {_size(size): _read_size(one) for size, one in sizes.items()}
            for mode, sizes in told["programs"].items()
        },
        queue_length=int(told["queue_length"]),
        programs_compiled=int(told["programs_compiled"]),
        programs_compiled_since_ready=int(told["programs_compiled_since_ready"]),
        workers=int(told["workers"]),
        placement=Placement(
            Strategy(told["strategy"]),
            int(told["devices"]),
            bool(told["text_on_host"]),
            _text(told["strategy_reason"]),
            _text(told["needs"]),
        ),
        strategy=None if asked is None else Strategy(asked),
        strategies={
            Strategy(one): None if why is None else _text(why)
            for one, why in told["strategies"].items()
        },
        plan=_text(told["plan"]),
    )


def _size_dict(programs: SizeStatus) -> dict[str, Any]:
    return {
        "state": programs.state.value,
        "seconds": programs.seconds,
        "expected_s": programs.expected_s,
        "programs_compiled": programs.programs_compiled,
        "stage": programs.stage,
        "expected_elsewhere": programs.elsewhere,
        "reason": programs.unfit or programs.reason,
        "fits": not programs.unfit,
    }


def _read_size(told: Mapping[str, Any]) -> SizeStatus:
    reason = _text(told["reason"])
    return SizeStatus(
        ProgramState(told["state"]),
        _seconds(told["seconds"]),
        _seconds(told["expected_s"]),
        int(told["programs_compiled"]),
        _text(told["stage"]),
        reason if told["fits"] else "",
        bool(told["expected_elsewhere"]),
        "" if told["fits"] else reason,
    )


# The models


def model_dict(preset: Preset, limits: Limits) -> dict[str, Any]:
    """A model of `/models`: its preset, under the names of its file, and what it takes here."""
    return {
        "preset": preset.model_dump(mode="json", exclude={"preview"}),
        "default_mode": limits.default_mode.value,
        "modes": [mode.value for mode in limits.modes],
        "unavailable_modes": {mode.value: why for mode, why in limits.unavailable_modes},
        "unavailable_sizes": {str(size): why for size, why in limits.unavailable_sizes},
        "styles": [asdict(style) for style in limits.styles],
    }


def read_model(told: Mapping[str, Any]) -> tuple[Preset, Limits]:
    """The preset, but for its preview, and the limits."""
    known = {name: one for name, one in told["preset"].items() if name in Preset.model_fields}
    preset = Preset.model_validate_json(json.dumps(known))  # lists are tuples there
    limits = replace(
        preset.limits(Device.TPU),
        default_mode=Mode(told["default_mode"]),
        modes=tuple(map(Mode, told["modes"])),
        unavailable_modes=tuple(
            (Mode(mode), _text(why)) for mode, why in told["unavailable_modes"].items()
        ),
        unavailable_sizes=tuple(
            (_size(size), _text(why)) for size, why in told["unavailable_sizes"].items()
        ),
        styles=tuple(
            Style(*(_text(one[name]) for name in ("name", "title", "prompt", "negative")))
            for one in told["styles"]
        ),
    )
    return preset, limits


def reader_dict(reader: Reader) -> dict[str, Any]:
    """How one text encoder reads a prompt."""
    return asdict(reader)


def read_reader(told: Mapping[str, Any]) -> Reader:
    """What `reader_dict` made this of."""
    names = _text(told["encoder"]), int(told["limit"]), int(told["around"])
    return Reader(*names, _text(told["tokenizer"]))


# The updates of a job


def update_dict(update: Update, previews: bool = False) -> dict[str, Any]:
    """An update, with a "state". With `previews`, a step holds its preview, if there is one: a JPEG
    file in base64."""
    told: dict[str, Any]
    match update:
        case Queued():
            told = {"state": "queued", "position": update.position, "expected_s": update.expected_s}
        case Loading():
            told = {"state": "loading", **asdict(update)}
        case Warming():
            told = {"state": "compiling", **asdict(update), **_programs(update)}
        case Warmed():
            told = {"state": "ready", **asdict(update), **_programs(update)}
        case Stepped():
            told = {"state": "running", **asdict(update)}
            preview = told.pop("preview")
            if previews and preview:
                told["preview"] = base64.b64encode(preview).decode()
        case ImageSaved() | ImageMade():
            told = {"state": "running", "image": update.image}
        case Finished():
            told = {"state": "finished"}
        case Cancelled():
            told = {"state": "cancelled"}
        case Failed():
            told = {"state": "failed", "message": update.message}
        case _:
            assert_never(update)
    return {"job": update.job, **told}


def read_progress(told: Mapping[str, Any]) -> Queued | Loading | Warming | Warmed | Stepped | None:
    """The update that `update_dict` made this of; None for those that tell of something beside."""
    job, state = _text(told["job"]), told["state"]
    if state == "queued" and "position" in told:
        return Queued(job, int(told["position"]), _seconds(told["expected_s"]))
    if state == "loading":
        return Loading(
            job,
            component=_text(told["component"]),
            index=int(told["index"]),
            count=int(told["count"]),
            loaded_bytes=int(told["loaded_bytes"]),
            total_bytes=None if told["total_bytes"] is None else int(told["total_bytes"]),
        )
    if state == "running" and "step" in told:
        return Stepped(
            job,
            image=int(told["image"]),
            count=int(told["count"]),
            step=int(told["step"]),
            steps=int(told["steps"]),
            left_s=_seconds(told["left_s"]),
            preview=base64.b64decode(told.get("preview", ""), validate=True),
        )
    if state in ("compiling", "ready") and "elapsed_s" in told:
        where = job, Mode(told["mode"]), _size(told["size"])
        programs, elapsed_s = int(told["programs_compiled"]), float(told["elapsed_s"])
        if state == "ready":
            return Warmed(*where, programs, elapsed_s)
        return Warming(
            *where, _text(told["stage"]), programs, elapsed_s, _seconds(told["expected_s"])
        )
    return None


def _programs(update: Warming | Warmed) -> dict[str, str]:
    return {"mode": update.mode.value, "size": str(update.size)}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.60} is no text")
    return value


def _size(text: object) -> ImageSize:
    try:
        return ImageSize.parse(text)
    except InvalidRequestError as error:
        raise ValueError(str(error)) from error


def _seconds(value: object) -> float | None:
    if value is not None and not isinstance(value, int | float):
        raise ValueError(f"{value!r:.60} is no number")
    return value
