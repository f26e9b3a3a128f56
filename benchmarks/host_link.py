"""Bytes over the host link for an image, by the plan: the guide's recipe against TPU UI's choice.

The guide offloads the model (enable_model_cpu_offload) and keeps no embeddings, so that each image
moves all the weights. Nothing is compiled here and nothing runs: the plan that is kept says it.
Usage: python -m benchmarks.host_link [MODEL [CHIP]]
"""

import sys

from benchmarks.side import report
from tpu_ui import plans
from tpu_ui.chips import BY_NAME
from tpu_ui.plans import GIB, Way
from tpu_ui.presets import load_all
from tpu_ui.shapes import Device, Strategy
from tpu_ui.strategy import Machine, choose
from tpu_ui.timeline import Traffic, timeline


def main(model: str = "flux1-schnell", chip: str = "v6e") -> None:
    preset, plan = load_all()[model], plans.read(model, chip)
    size = preset.image_sizes[0]
    kind = BY_NAME[chip]
    machine = Machine(Device.TPU, kind.memory_gib, kind.devices, chip)
    guide = timeline(preset, plan, Way(Strategy.OFFLOAD), size).new_prompt
    placed = choose(preset, None, machine, plan)
    ours = timeline(preset, plan, placed.way, size)

    def total_gib(traffic: Traffic) -> float:
        return (traffic.to_chip_bytes + traffic.to_host_bytes) / GIB

    theirs = {"new_prompt_gib": total_gib(guide), "same_prompt_gib": total_gib(guide)}
    mine = {
        "new_prompt_gib": total_gib(ours.new_prompt),
        "same_prompt_gib": total_gib(ours.same_prompt),
    }
    report(
        f"host link, {model}, {chip}",
        {"guide: offload": theirs, f"TPU UI: {placed.way.strategy}": mine},
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
