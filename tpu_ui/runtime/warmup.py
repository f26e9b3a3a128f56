"""Warm-up: run every program of an image once, so that a request compiles nothing.

The programs of a size differ in one thing that a request can change: whether guidance is on, which
doubles the batch. Prompts are padded, the schedule is made on the host, and seeds are data, so a
few steps in each state are enough. Tracing waits for what was sent to the device before, and so
hides programs that the next image needs: a state is ready when an image of it compiled nothing.
"""

from tpu_ui.presets import Preset
from tpu_ui.request import GenerationRequest
from tpu_ui.shapes import ImageSize, Mode

# The first step runs on fresh noise, the next ones on a step's result; in fused eager these are
# different programs. One step more shows that nothing is left.
STEPS = 3

# What the images of one state ask for: first a prompt with room to spare, then one that leaves
# none, for which some encoders run other programs. The last is for what the second still compiled.
PROMPTS = ("warm-up", "and again " * 800, "once more")
LEAST_IMAGES = 2


def requests(preset: Preset, mode: Mode, size: ImageSize) -> list[GenerationRequest]:
    """The requests that together run every program of `size`: one for each state of guidance."""
    return [
        GenerationRequest(
            prompt=PROMPTS[0],
            negative_prompt="",
            model=preset.name,
            mode=mode,
            size=size,
            steps=min(max(STEPS, preset.steps.minimum), preset.steps.maximum),
            guidance=_guidance(preset, guided),
            seed=0,
            count=1,
        )
        for guided in preset.guidance_states()
    ]


def _guidance(preset: Preset, guided: bool) -> float:
    """A guidance scale in the preset's range that turns guidance on, or off."""
    off = preset.guidance.off
    if off is None:
        return preset.guidance.default
    if not guided:
        return min(off, preset.guidance.maximum)
    return preset.guidance.default if preset.guidance.default > off else preset.guidance.maximum
