"""The command: `python -m tpu_ui.plan MODEL --chip v6e --chips 1 --size 1024x1024`.

Needs no TPU, no weights and no network. Ends with 0 if every size fits, 3 if one does not, 2 if the
arguments are wrong, 130 or 143 if it is stopped.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from tpu_ui import plans
from tpu_ui.chips import BY_NAME
from tpu_ui.errors import PlanError, PresetError, StrategyError, TpuUiError
from tpu_ui.folders import make_writable
from tpu_ui.plan import report
from tpu_ui.plan.compiler import TOPOLOGIES, topology
from tpu_ui.plan.making import Bench, planned
from tpu_ui.plans import Plan, Way
from tpu_ui.presets import Preset, load_all
from tpu_ui.shapes import ImageSize, Mode, Strategy
from tpu_ui.strategy import BY_LEAST_MOVED, choose, need_gib, unavailable_strategy
from tpu_ui.timeline import timeline

FITS, WRONG_ARGUMENTS, DOES_NOT_FIT = 0, 2, 3
STOPPED = 128  # and the signal's number, as a shell has it
BAR = 24
KEPT = "By the plan kept with the app; compile seconds are another machine's (yours: --fresh)."


def main(arguments: Sequence[str]) -> int:
    """Print the plan; returns the exit status."""
    parser = _parser()
    given = parser.parse_args(arguments)
    bar = Bar(sys.stderr)
    try:
        preset = _preset(given.model)
        sizes = _sizes(preset, given.size)
        wanted = _strategy(preset, given.strategy)
        chip, compiles = BY_NAME[given.chip], not given.no_compile
        bench = Bench(chip, given.chips, given.cache, bar, compiles, given.fresh)
        topology(bench.chip, bench.chips)
        _check_writable(given.json, given.cache)
        if given.mode != Mode.COMPILED:
            raise PlanError(
                f"Mode {given.mode} cannot be planned: its programs are made as operations come."
                " Use --mode compiled."
            )
        if wanted and (why := unavailable_strategy(wanted, bench.machine)):
            raise PlanError(f"{wanted} does not run on {given.chips} {given.chip}: {why}.")
    except TpuUiError as error:
        parser.error(str(error))
    try:
        plan = planned(preset, wanted, sizes, bench)
    except PlanError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    finally:
        bar.close()
    if given.json is not None:
        plans.write(plan, given.json)
    print(f"{preset.title} on {given.chips} x {bench.chip.name}, {_versions(plan)}.")
    if not given.fresh and plan == plans.usable(preset, bench.chip.short_name):
        print(KEPT)
    print(report.SIZES)
    fits = [_print_size(preset, wanted, size, bench, plan) for size in sizes]
    return FITS if all(fits) else DOES_NOT_FIT


def _print_size(
    preset: Preset, wanted: Strategy | None, size: ImageSize, bench: Bench, plan: Plan
) -> bool:
    """Print what is known of one size; returns whether it fits."""
    way = _way(preset, wanted, size, bench, plan)
    image = timeline(preset, plan, way, size)
    judged = report.verdict(preset, image, bench.machine, plan)
    parts = [
        f"\n{size}",
        report.program_table(preset, image, bench.chip),
        "",
        report.timeline_table(preset, image),
        "",
        report.traffic(image),
        report.least_time(preset, image, bench.chip),
        judged.text,
    ]
    print("\n".join(part for place, part in enumerate(parts) if part or place in (2, 4)))
    return judged.fits


def _way(preset: Preset, wanted: Strategy | None, size: ImageSize, bench: Bench, plan: Plan) -> Way:
    """How the size is made: as the app would choose for it, or with the least that it needs."""
    only = preset.model_copy(update={"sizes": (str(size),)})
    machine = bench.machine
    try:
        return choose(only, wanted, machine, plan).way
    except StrategyError:
        able = [
            one
            for one in BY_LEAST_MOVED
            if one in preset.strategies and unavailable_strategy(one, machine) is None
        ]
        least = min(able, key=lambda one: need_gib(only, one, machine, plan))
        return choose(only, least, machine, plan).way


def _check_writable(json: Path | None, cache: Path) -> None:
    """Before hours of work, not after them. Raises PlanError."""
    try:
        make_writable(cache)
    except OSError as error:
        raise PlanError(f"--cache {cache} cannot be written: {error.strerror}.") from error
    if json is None:
        return
    try:
        if json.exists():
            json.open("a").close()
        else:
            make_writable(json.parent)
    except OSError as error:
        raise PlanError(f"--json {json} cannot be written: {error.strerror}.") from error


def _versions(plan: Plan) -> str:
    return ", ".join(f"{name} {version}" for name, version in plan.versions.items())


def _preset(name: str) -> Preset:
    presets = load_all()
    if name not in presets:
        raise PresetError(f"There is no model {name!r}; choose from {', '.join(presets)}.")
    return presets[name]


def _sizes(preset: Preset, texts: Sequence[str] | None) -> list[ImageSize]:
    if not texts:
        return [preset.image_sizes[0]]
    sizes = [ImageSize.parse(text) for text in texts]
    for size in sizes:
        if size not in preset.image_sizes:
            names = ", ".join(preset.sizes)
            raise PlanError(f"{preset.title} has no size {size}; choose from {names}.")
    return sizes


def _strategy(preset: Preset, name: str) -> Strategy | None:
    if name == "auto":
        return None
    if Strategy(name) not in preset.strategies:
        raise PlanError(
            f"{preset.title} is not offered {name}; choose from {', '.join(preset.strategies)}."
        )
    return Strategy(name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tpu_ui.plan",
        description="What an image takes on a TPU that is not here, as the TPU's compiler says.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="name of a preset")
    add("--chip", choices=list(TOPOLOGIES), default="v6e", help="generation (default: v6e)")
    add("--chips", type=int, default=1, help="chips in the machine (default: 1)")
    add("--size", action="append", help="WIDTHxHEIGHT; may be given again (default: the first)")
    add(
        "--mode",
        choices=[str(mode) for mode in Mode],
        default="compiled",
        help="only compiled can be planned",
    )
    add("--strategy", choices=["auto", *map(str, Strategy)], default="auto", help="default: auto")
    add("--json", type=Path, metavar="FILE", help="write the plan to a file")
    add("--fresh", action="store_true", help="do not take the plan that is kept with the app")
    add("--no-compile", action="store_true", help="compute what no earlier plan has compiled")
    add("--cache", type=Path, default=Path("cache") / "plans", help="folder for kept results")
    return parser


class Bar:
    """A progress bar; on what is no terminal, a line for each new thing that is done."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last = ""

    def __call__(self, done: int, count: int, what: str, seconds: float) -> None:
        if not self._stream.isatty():
            if what != self._last:
                print(f"[{done}/{count}] {what}" if count else what, file=self._stream, flush=True)
            self._last = what
            return
        filled = BAR * done // count if count else 0
        known = f"[{'#' * filled}{'.' * (BAR - filled)}] {done}/{count} " if count else ""
        line = f"{known}{what}, {seconds:.0f} s"
        self._stream.write("\r" + line.ljust(len(self._last)))
        self._stream.flush()
        self._last = line

    def close(self) -> None:
        """Leave the line."""
        if self._stream.isatty() and self._last:
            self._stream.write("\r" + " " * len(self._last) + "\r")


def _stop(number: int, _: object) -> None:
    """What is going on ends its processes on the way out."""
    sys.exit(STOPPED + number)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    sys.exit(main(sys.argv[1:]))
