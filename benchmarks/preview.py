"""What previews cost: the same jobs with and without them, in turns, by the same programs.

The demo model on the software TPU, compiled. One process, since of two that are alike one may run
slower than the other by more than previews cost. CPU seconds tell more than wall seconds on a
machine with other work to do.
Usage: python -m benchmarks.preview [ROUNDS [COUNT [STEPS]]]
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.side import Figures, demo_runtime, measure, report
from tpu_ui.protocol import Generate, Stepped, WarmUp
from tpu_ui.request import validate
from tpu_ui.shapes import Mode

PROMPT = "a small red house left of two green trees under a night sky"
SIDES = ("without", "with previews")


def in_turns(rounds: int, count: int, steps: int, cache: str) -> Figures:
    """Both sides' seconds, as "SIDE/figure"; each side as often first."""
    runtime, preset = demo_runtime(cache)
    from tpu_ui.runtime.preview import Preview  # noqa: PLC0415 - imports torch

    look, spent_s = Preview.after, [0.0]

    def timed(*arguments: Any) -> bytes:
        began_s = time.monotonic()
        shown = look(*arguments)
        spent_s[0] += time.monotonic() - began_s
        return shown

    looks: dict[str, Callable[..., bytes]] = {"without": lambda *_: b"", "with previews": timed}
    limits = preset.limits(runtime.started().device)
    for _ in runtime.warm_up(WarmUp("warm", Mode.COMPILED, limits.default_size)):
        pass
    taken: dict[str, list[tuple[float, float, int]]] = {name: [] for name in SIDES}
    before = runtime.programs_compiled()
    for number in range(rounds):
        for name in SIDES if number % 2 else reversed(SIDES):
            Preview.after = looks[name]  # type: ignore[method-assign]
            request = validate(limits, prompt=PROMPT, count=count, steps=steps, seed=number)
            wall_s, cpu_s = time.monotonic(), time.process_time()
            events = list(runtime.generate(Generate("job", request)))
            shown = sum(1 for event in events if isinstance(event, Stepped) and event.preview)
            taken[name].append((time.monotonic() - wall_s, time.process_time() - cpu_s, shown))
    figures: Figures = {"programs_compiled": runtime.programs_compiled() - before}
    for name, jobs in taken.items():
        walls, cpus, previews = zip(*jobs, strict=True)
        figures[f"{name}/median_s"] = statistics.median(walls)
        figures[f"{name}/least_s"] = min(walls)
        figures[f"{name}/cpu_median_s"] = statistics.median(cpus)
        figures[f"{name}/previews"] = statistics.mean(previews)
        figures[f"{name}/all_s"] = sum(walls)
    figures["in_previews_s"] = spent_s[0]
    return figures


def main(rounds: int, count: int, steps: int) -> None:
    function = "benchmarks.preview:in_turns"
    figures = measure(function, rounds=rounds, count=count, steps=steps)
    sides: dict[str, Figures] = {
        side: {
            name.partition("/")[2]: value
            for name, value in figures.items()
            if name.startswith(f"{side}/")
        }
        for side in SIDES
    }
    report(f"{count} images of {steps} steps", sides)
    share = figures["in_previews_s"] / figures["with previews/all_s"]
    compiled = figures["programs_compiled"]
    print(json.dumps({"share_of_the_time": round(share, 4), "programs_compiled": compiled}))


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(*[*given, *(15, 4, 30)[len(given) :]])
