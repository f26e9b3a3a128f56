"""Kept plans: what each program of an image takes on a chip, as the chip's compiler says.

One JSON file for a model and a chip, in presets/plans; `python -m tpu_ui.plan` makes it. Knows
nothing of torch: the page and the queue read plans too. What was not compiled is computed from what
was, and says so.
"""

import json
import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Literal, assert_never

from pydantic import BaseModel, ConfigDict, ValidationError

from tpu_ui.presets import PRESETS_FOLDER, Preset
from tpu_ui.shapes import ImageSize, Strategy

FOLDER = PRESETS_FOLDER / "plans"
GIB = 2**30
SAME_WEIGHTS = 0.01  # presets give theirs to three places

# Distributions whose versions decide what is compiled, and into what.
VERSIONED = ("torch", "torch_tpu", "libtpu", "diffusers", "transformers")

How = Literal["compiled", "computed", "failed"]

log = logging.getLogger(__name__)


class Layout(StrEnum):
    """Which form of the denoiser is compiled."""

    WHOLE = "whole"
    BLOCKS = "blocks"  # its repeated blocks, one by one
    SHARDED = "sharded"  # a device's share


@dataclass(frozen=True, slots=True)
class Way:
    """How a model's weights live: a strategy, on so many devices, with text encoders that are not
    sharded on the host or not."""

    strategy: Strategy
    devices: int = 1
    text_on_host: bool = False

    @property
    def layout(self) -> Layout:
        match self.strategy:
            case Strategy.RESIDENT | Strategy.STAGED:
                return Layout.WHOLE
            case Strategy.OFFLOAD:
                return Layout.BLOCKS
            case Strategy.SHARDED:
                return Layout.SHARDED
            case _:
                assert_never(self.strategy)


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Program(_Record):
    """One program of an image, on each device that runs it.

    `part` is the class that is compiled; `copies` of them share the program, and an image of one
    step runs it `runs` times. `how`: the compiler says so; computed from what it says of others; or
    it refused, for the reason in `error`. Sizes are bytes of the chip's memory: arguments
    (weights included), results, what is worked with in between, the program itself; `peak_bytes`
    is what the compiler expects at the worst moment. `accessed_bytes` are read and written.
    `devices`: on how many the program runs as one; it sums what they have.
    """

    component: str
    part: str
    copies: int = 1
    runs: int = 1
    how: How = "compiled"
    digest: str = ""
    devices: int = 1
    compile_s: float | None = None
    argument_bytes: int = 0
    output_bytes: int = 0
    temporary_bytes: int = 0
    code_bytes: int = 0
    peak_bytes: int = 0
    flop: float = 0.0
    accessed_bytes: float = 0.0
    error: str = ""

    @property
    def working_bytes(self) -> int:
        """Beside its arguments and the loaded programs. Allocated whole, though the compiler may
        know that not all of it is used at one time."""
        return max(self.temporary_bytes + self.output_bytes, self.peak_bytes - self.argument_bytes)


class Image(_Record):
    """The programs of one image. `guided`: with classifier-free guidance.

    `kept_bytes`: embeddings of recent prompts that the runtime keeps on the device, of which one
    prompt's are `embedding_bytes`.
    """

    layout: Layout
    devices: int = 1
    size: str
    guided: bool
    embedding_bytes: int = 0
    kept_bytes: int = 0
    programs: tuple[Program, ...]


class Plan(_Record):
    """What is known of a model on a chip. `weights_bytes`: of each component, in its dtype."""

    model: str
    chip: str
    versions: dict[str, str]
    weights_bytes: dict[str, int]
    images: tuple[Image, ...] = ()

    def stale(self) -> tuple[str, ...]:
        """What is installed in other versions than those that made the plan: "torch 2.13.0, and
        2.12.0 is installed". Empty for a plan that can be relied on."""
        here = versions()
        return tuple(
            f"{name} {made_with}, and {here.get(name, 'none')} is installed"
            for name, made_with in self.versions.items()
            if here.get(name) != made_with
        )

    def compiled(self, layout: Layout, devices: int, size: ImageSize) -> tuple[Image, ...]:
        """The images of this kind that were compiled for; one for each state of guidance."""
        wanted = (layout, devices, str(size))
        return tuple(
            image for image in self.images if (image.layout, image.devices, image.size) == wanted
        )

    def with_images(self, images: Iterable[Image]) -> "Plan":
        """The plan with these in place of those of the same kind."""
        known = {_kind(image): image for image in (*self.images, *images)}
        return self.model_copy(update={"images": tuple(known.values())})


def _kind(image: Image) -> tuple[str, int, str, bool]:
    return image.layout, image.devices, image.size, image.guided


def versions() -> dict[str, str]:
    """What is installed here. Of torch 2.13.0+cpu, +cpu makes no difference to a TPU."""
    found = {}
    for name in VERSIONED:
        try:
            found[name] = metadata.version(name).partition("+")[0]
        except metadata.PackageNotFoundError:
            continue
    return found


def path(model: str, chip: str) -> Path:
    """Where the plan of a model for a chip is kept."""
    return FOLDER / f"{model}-{chip}.json"


def read(model: str, chip: str) -> Plan | None:
    """The kept plan; None if there is none that can be read. Each file is read once."""
    return _read(path(model, chip))


@cache
def _read(file: Path) -> Plan | None:
    try:
        return Plan.model_validate_json(file.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        log.warning("%s cannot be used: %s", file.name, error)
        return None


def usable(preset: Preset, chip: str | None) -> Plan | None:
    """The kept plan of the preset for the chip, if it was made with what is installed, and for
    a model of these weights: a person's own may have the name of another."""
    plan = read(preset.name, chip) if chip else None
    if plan is None or plan.stale():
        return None
    weights = {name: plan.weights_bytes.get(name, 0) / GIB for name in preset.weights_gib}
    same = all(
        math.isclose(weights[name], given, rel_tol=SAME_WEIGHTS)
        for name, given in preset.weights_gib.items()
    )
    return plan if same else None


def write(plan: Plan, file: Path) -> None:
    """Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    content = plan.model_dump(mode="json", exclude_defaults=True)
    file.write_text(json.dumps(content, indent=1) + "\n")
