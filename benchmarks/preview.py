"""What previews cost: the same jobs with and without, in turns, through two dispatchers.

The demo model on the software TPU, compiled, followed as the page follows a job.
Usage: python -m benchmarks.preview [ROUNDS [COUNT [STEPS]]]
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.side import report
from tpu_ui import presets
from tpu_ui.dispatch.interface import Update
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.presets import Preset
from tpu_ui.protocol import Finished, Stepped
from tpu_ui.request import validate
from tpu_ui.shapes import Mode
from tpu_ui.ui.listening import PROGRESS_S

PROMPT = "a small red house left of two green trees under a night sky"


def dispatcher(preset: Preset, folder: Path) -> LocalDispatcher:
    return LocalDispatcher(
        {preset.name: preset},
        model=preset.name,
        mode=Mode.COMPILED,
        device="software-tpu",
        warm="none",
        locked=False,
        workers=1,
        outputs=folder / "outputs",
        cache=folder / "cache",
    )


def updates(app: LocalDispatcher, job: str) -> list[Update]:
    told = list(app.updates(job, PROGRESS_S))
    if not isinstance(told[-1], Finished):
        raise RuntimeError(str(told[-1]))
    return told


def timed(app: LocalDispatcher, count: int, steps: int, seed: int) -> tuple[float, int]:
    """Seconds of one job, and how many previews its listener saw."""
    limits = app.limits("demo")
    request = validate(limits, prompt=PROMPT, count=count, steps=steps, seed=seed)
    began_s = time.monotonic()
    told = updates(app, app.submit(request))
    seconds = time.monotonic() - began_s
    return seconds, sum(1 for one in told if isinstance(one, Stepped) and one.preview)


def main(rounds: int, count: int, steps: int) -> None:
    demo = presets.load_all()["demo"]
    with tempfile.TemporaryDirectory() as folder:
        # A cache each: programs that were read from one may not run as those just compiled.
        sides = {
            "without": dispatcher(demo.model_copy(update={"preview": None}), Path(folder, "1")),
            "with previews": dispatcher(demo, Path(folder, "2")),
        }
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        seen: dict[str, int] = dict.fromkeys(sides, 0)
        try:
            for app in sides.values():
                size = app.limits("demo").default_size
                updates(app, app.warm_up("demo", Mode.COMPILED, size))
                timed(app, count, steps, 0)
            for number in range(rounds):
                # In turns, and each side as often first.
                for name in sorted(sides, reverse=bool(number % 2)):
                    took_s, previews = timed(sides[name], count, steps, number)
                    seconds[name].append(took_s)
                    seen[name] += previews
            stray = [app.status().programs_compiled_since_ready for app in sides.values()]
        finally:
            for app in sides.values():
                app.close()
    figures = {
        name: {
            "median_s": statistics.median(times),
            "least_s": min(times),
            "previews_seen": seen[name] / rounds,
        }
        for name, times in seconds.items()
    }
    report(f"{count} images of {steps} steps", figures)
    both = zip(seconds["with previews"], seconds["without"], strict=True)
    by_round = statistics.median(one / other for one, other in both)
    print(json.dumps({"median_ratio_by_round": round(by_round, 4), "since_ready": stray}))


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(*[*given, *(15, 4, 30)[len(given) :]])
