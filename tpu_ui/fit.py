"""Which strategy each model gets on Google's machines, as a table for people.

`python -m tpu_ui.fit` prints the one in the README. Nothing is run: it is arithmetic on presets.
"""

from collections.abc import Iterable
from itertools import groupby

from tpu_ui.chips import CHIPS, Chip
from tpu_ui.errors import StrategyError
from tpu_ui.presets import Preset, load_all
from tpu_ui.shapes import Device
from tpu_ui.strategy import Machine, choose, need_gib

# How many chips one machine can have. Source: Google's Cloud TPU pages.
MACHINES = {
    "TPU v5e": (1, 4, 8),
    "TPU v5p": (1, 4),
    "TPU v6e": (1, 4, 8),
    "TPU v7x": (1, 4),
}


def table(presets: Iterable[Preset]) -> str:
    """Markdown: a line for each preset that says what its model weighs, a column for each chip."""
    kinds = [(chip, MACHINES[chip.name]) for chip in CHIPS.values() if chip.name in MACHINES]
    lines = [["model", *(_name(chip) for chip, _ in kinds)], ["---"] * (len(kinds) + 1)]
    for preset in presets:
        if preset.weights_gib:
            lines.append([preset.title, *(_cell(preset, *kind) for kind in kinds)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _name(chip: Chip) -> str:
    several = f"{chip.devices} × " if chip.devices > 1 else ""
    return f"{chip.name.removeprefix('TPU ')}, {several}{chip.memory_gib} GiB"


def _cell(preset: Preset, chip: Chip, counts: tuple[int, ...]) -> str:
    """One text where the number of chips makes no difference, else one for each number."""
    texts = [(count, _text(preset, chip, count)) for count in counts]
    groups: list[tuple[str, str]] = [
        (", ".join(str(count) for count, _ in same), text)
        for text, same in groupby(texts, key=lambda pair: pair[1])
    ]
    if len(groups) == 1:
        return groups[0][1]
    return "<br>".join(f"{numbers}: {text}" for numbers, text in groups)


def _text(preset: Preset, chip: Chip, count: int) -> str:
    """ "staged 24.8, text on host": GiB are what a device holds at the worst moment."""
    machine = Machine(Device.TPU, chip.memory_gib, count * chip.devices)
    try:
        placement = choose(preset, None, machine)
    except StrategyError:
        return "does not fit"
    text = f"{placement.strategy} {need_gib(preset, placement.strategy, machine):.1f}"
    return f"{text}, text on host" if placement.text_on_host else text


if __name__ == "__main__":
    print(table(load_all().values()), end="")
