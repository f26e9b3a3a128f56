"""The fields a request is made of, page and API alike, and the one way to a GenerationRequest.

Below `to_request` nothing is positional. No limit is checked here: `request.validate` does it, and
the dispatcher adds what depends on the moment (locked sizes, a full queue).
"""

from dataclasses import dataclass, replace

from tpu_ui.dispatch.interface import Dispatcher
from tpu_ui.errors import InvalidRequestError
from tpu_ui.request import GenerationRequest, Limits, validate
from tpu_ui.shapes import shown
from tpu_ui.wildcards import draw


@dataclass(frozen=True, slots=True)
class Form:
    """Raw values as they came, in the order of the page's inputs. None means "the default"."""

    prompt: object
    negative_prompt: object = ""
    model: object = None
    mode: object = None
    size: object = None
    steps: object = None
    guidance: object = None
    random_seed: object = True
    seed: object = None
    count: object = 1
    lora: object = None
    lora_weight: object = None
    styles: object = None


def with_choices_made(dispatcher: Dispatcher, form: Form) -> GenerationRequest:
    """The request of a form in whose prompts there may be choices. Raises InvalidRequestError."""
    request = to_request(dispatcher, form)
    prompt, negative = (draw(text, request.seed) for text in request.written)
    if (prompt, negative) == request.written:
        return request
    drawn = replace(
        form, prompt=prompt, negative_prompt=negative, random_seed=False, seed=request.seed
    )
    return to_request(dispatcher, drawn)


def to_request(dispatcher: Dispatcher, form: Form) -> GenerationRequest:
    """The request that the form asks for. Raises InvalidRequestError."""
    limits = limits_of(dispatcher, form.model)
    if not form.random_seed and form.seed is None:
        raise InvalidRequestError("There is no seed; type one, or tick Random seed.")
    return validate(
        limits,
        prompt=form.prompt,
        negative_prompt=form.negative_prompt,
        mode=form.mode,
        size=form.size,
        steps=form.steps,
        guidance=form.guidance,
        seed=None if form.random_seed else form.seed,
        count=form.count,
        lora=form.lora,
        lora_weight=form.lora_weight,
        styles=form.styles,
    )


def limits_of(dispatcher: Dispatcher, model: object) -> Limits:
    """What `model` takes; None or "" means the model that is loaded. Raises InvalidRequestError."""
    if model is None or model == "":
        model = dispatcher.status().model
    if not isinstance(model, str):
        raise InvalidRequestError(f"A model is named by text, not {shown(model)}.")
    return dispatcher.limits(model)
