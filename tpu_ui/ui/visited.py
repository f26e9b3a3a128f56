"""What a visitor has set for each model, so that she finds it again when she comes back to it.

A model has steps and guidance of its own, so another model's are of no use; the number of images
goes along if it can.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gradio as gr

from tpu_ui.request import LORA_WEIGHT, Limits
from tpu_ui.ui import view
from tpu_ui.ui.words import Words


class ModelSettings(NamedTuple):
    """The fields whose limits are the model's: their values, or gr.update(...) of each."""

    negative_prompt: Any
    steps: Any
    guidance: Any
    image_count: Any
    lora: Any
    lora_weight: Any
    styles: Any


@dataclass(frozen=True)
class Visited:
    """`model`: whose settings the page shows. `settings`: those of the models left before."""

    model: str
    settings: Mapping[str, ModelSettings] = field(default_factory=dict)

    def go_to(self, model: str, values: Sequence[object]) -> "Visited":
        """From this model, whose fields hold `values`, to another; or nowhere: a page may tell of
        a change twice, the second time with values that belong to the model before."""
        if model == self.model:
            return self
        return Visited(model, {**self.settings, self.model: ModelSettings(*values)})


def as_before(words: Words, visited: Visited, limits: Limits) -> ModelSettings:
    """Ranges of a model, and what the visitor set the last time; by default, what it proposes."""
    if (before := visited.settings.get(limits.model)) is not None:
        return filled(words, limits, before)
    counts = [one.image_count for one in visited.settings.values()][-1:]
    return filled(words, limits, proposed(limits, *(one for one in counts if isinstance(one, int))))


def proposed(limits: Limits, image_count: int = 1) -> ModelSettings:
    """A model's own values, and as many images as before if it makes so many."""
    count = image_count if 1 <= image_count <= limits.max_count else 1
    defaults = (limits.steps.default, limits.guidance.default, count)
    return ModelSettings("", *defaults, "", LORA_WEIGHT.default, [])


def filled(words: Words, limits: Limits, values: ModelSettings) -> ModelSettings:
    """Fields with a model's ranges and these values. What it has no use for is disabled, and says
    why."""
    steps, guidance, loras = limits.steps, limits.guidance, limits.loras
    return ModelSettings(
        negative_prompt=gr.update(
            value=values.negative_prompt,
            interactive=limits.takes_negative_prompt,
            info=view.negative_prompt_note(words, limits),
        ),
        steps=_slider(steps.minimum, steps.maximum, values.steps, view.steps_note(words, limits)),
        guidance=_slider(
            guidance.minimum, guidance.maximum, values.guidance, view.guidance_note(words, limits)
        ),
        image_count=_slider(
            1, limits.max_count, values.image_count, view.count_note(words, limits)
        ),
        lora=gr.update(
            choices=[(words("None"), ""), *loras], value=values.lora, visible=bool(loras)
        ),
        lora_weight=gr.update(value=values.lora_weight, visible=bool(loras)),
        styles=gr.update(
            choices=[(words.sentence(style.title), style.name) for style in limits.styles],
            value=values.styles,
            visible=bool(limits.styles),
        ),
    )


def _slider(minimum: float, maximum: float, value: object, info: str) -> dict[str, Any]:
    update: dict[str, Any] = gr.update(
        minimum=minimum,
        maximum=view.slider_end(minimum, maximum),
        value=value,
        info=info,
        interactive=minimum < maximum,
    )
    return update
