"""Programs compiled after the warm-up, by 200 requests: the guide's recipe against TPU UI's.

The demo model on the software TPU, each size warmed up first. Both sides get the same requests in
compiled mode: any prompt, negative prompt or none, any step count and guidance scale, one to four
images, sizes mixed. TPU UI's other modes follow, each by itself.
Usage: python -m benchmarks.zero_after_ready [REQUESTS]
"""

import json
import random
import sys
from typing import Any

from benchmarks.side import Figures, demo_runtime, measure, report
from tpu_ui import presets
from tpu_ui.presets import Preset
from tpu_ui.protocol import Generate, WarmUp
from tpu_ui.request import GenerationRequest, Limits, validate
from tpu_ui.shapes import Device, Mode

WORDS = [
    "a",
    "small",
    "big",
    "red",
    "house",
    "tree",
    "boat",
    "under",
    "night",
    "sky",
    "two",
    "snow",
]


def requests(limits: Limits, count: int, mode: str = "compiled") -> list[GenerationRequest]:
    """Seeded random requests, anything that the preset allows."""
    chance = random.Random(2026)
    return [
        validate(
            limits,
            prompt=" ".join(chance.choices(WORDS, k=chance.randint(1, 60))),
            negative_prompt=chance.choice(["", "fog", "mountains and clouds"]),
            mode=mode,
            size=str(chance.choice(limits.sizes)),
            steps=chance.randint(limits.steps.minimum, limits.steps.maximum),
            guidance=chance.choice([1.0, limits.guidance.default, chance.uniform(1.0, 8.0)]),
            seed=chance.randrange(2**31),
            count=chance.randint(1, limits.max_count),
        )
        for _ in range(count)
    ]


def ours(count: int, mode: str, cache: str) -> Figures:
    runtime, preset = demo_runtime(cache)
    limits = preset.limits(Device.SOFTWARE_TPU)
    for size in limits.sizes:
        for _ in runtime.warm_up(WarmUp("warm", Mode(mode), size)):
            pass
    warm = runtime.programs_compiled()
    for request in requests(limits, count, mode):
        for _ in runtime.generate(Generate("image", request)):
            pass
    return {"warm_up_programs": warm, "programs_after": runtime.programs_compiled() - warm}


def guide(count: int, cache: str) -> Figures:
    """The guide's recipe: to("tpu"), compile the transformer, one call a size, then requests."""
    from tpu_ui.runtime import device  # noqa: PLC0415 - the children's alone

    opened = device.open_device("software-tpu")
    preset = presets.load_all()["demo"]
    limits = preset.limits(Device.SOFTWARE_TPU)
    pipeline = guide_pipeline(preset)
    for size in limits.sizes:
        call = {"num_inference_steps": limits.steps.default, "prompt": "warmup"}
        pipeline(height=size.height_px, width=size.width_px, **call)
    warm = opened.programs_compiled()
    for request in requests(limits, count):
        for seed in request.seeds:
            guide_image(pipeline, request, seed)
    return {"warm_up_programs": warm, "programs_after": opened.programs_compiled() - warm}


def guide_pipeline(preset: Preset) -> Any:
    import torch  # noqa: PLC0415
    from diffusers import StableDiffusion3Pipeline  # noqa: PLC0415

    omitted = dict.fromkeys(preset.components.omitted)
    pipeline = StableDiffusion3Pipeline.from_pretrained(
        preset.source, dtype=torch.float32, **omitted
    )
    pipeline.to("tpu")
    pipeline.transformer.compile(backend="tpu", fullgraph=True, dynamic=False)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def guide_image(pipeline: Any, request: GenerationRequest, seed: int) -> Any:
    import torch  # noqa: PLC0415

    return pipeline(
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        height=request.size.height_px,
        width=request.size.width_px,
        num_inference_steps=request.steps,
        guidance_scale=request.guidance,
        generator=torch.Generator("cpu").manual_seed(seed),
    ).images[0]


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    module = "benchmarks.zero_after_ready"
    by_mode = {mode: measure(f"{module}:ours", count=wanted, mode=mode) for mode in list(Mode)}
    theirs = measure(f"{module}:guide", count=wanted)
    report(f"{wanted} requests", {"guide's recipe": theirs, "TPU UI": by_mode[Mode.COMPILED]})
    print(json.dumps({"benchmark": f"{wanted} requests in each mode", **by_mode}))
