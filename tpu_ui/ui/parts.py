"""The page's components, by what they are for: made and named here, placed and wired in `blocks`.

Ids are for the style sheet, the script and the tests.
"""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from tpu_ui.dispatch.interface import Dispatcher
from tpu_ui.request import LORA_WEIGHT
from tpu_ui.ui import counting, view
from tpu_ui.ui.handlers import example_rows
from tpu_ui.ui.history import KEPT_PICTURES
from tpu_ui.ui.labels import label
from tpu_ui.ui.words import ENGLISH

Component = Any  # Gradio's components have no types of their own


@dataclass(frozen=True, slots=True)
class Ask:
    """The prompt, the buttons and how the job goes."""

    prompt: Component
    tokens: Component
    generate: Component
    cancel: Component
    progress: Component
    examples: Component


@dataclass(frozen=True, slots=True)
class Pictures:
    """What came of it, and what it looks like on its way. `again`: a button for each of
    view.MODE_TITLES; `go`: press Generate now."""

    preview: Component
    pictures: Component
    result: Component
    reuse: Component
    again: tuple[Component, ...]
    go: Component


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size picker. Its value is the size that is chosen, its `cards` what it shows."""

    size: Component
    warm_up: Component


@dataclass(frozen=True, slots=True)
class Settings:
    """How the picture is made."""

    model: Component
    mode: Component
    size: Component
    warm_up: Component
    negative_prompt: Component
    steps: Component
    guidance: Component
    random_seed: Component
    seed: Component
    count: Component
    lora: Component
    lora_weight: Component
    styles: Component


@dataclass(frozen=True, slots=True)
class WarmUps:
    """Every program, and a way to the ones that are not ready."""

    table: Component
    cold_size: Component
    warm_up: Component
    strategy: Component


@dataclass(frozen=True, slots=True)
class FromPicture:
    """A PNG file's settings."""

    file: Component
    about: Component
    use: Component


@dataclass(frozen=True, slots=True)
class YourPictures:
    """What this browser has made before. `kept` lies in its storage, `file` is where a ZIP is."""

    kept: Component
    pictures: Component
    use: Component
    vary: Component
    pack: Component
    forget: Component
    file: Component


def examples(dispatcher: Dispatcher) -> Component:
    """Prompts of the loaded model to start from; a press puts one into the prompt."""
    return gr.Dataset(
        components=[gr.Textbox(render=False)],
        samples=example_rows(dispatcher, dispatcher.status().model),
        type="values",
        label=label("Examples"),
        elem_id="examples",
        render=False,
    )


def ask(examples: Component) -> Ask:
    prompt = gr.Textbox(
        label=label("Prompt"),
        placeholder=label("What the picture should show; {red|green} draws one of them"),
        lines=3,
        max_lines=8,
        autofocus=True,
        elem_id="prompt",
    )
    tokens = gr.HTML(counting.NOTHING, elem_id="tokens", padding=False)
    with gr.Row(elem_id="buttons"):
        generate = gr.Button(label("Generate"), variant="primary", elem_id="generate", scale=3)
        cancel = gr.Button(
            label("Cancel"), interactive=False, elem_id="cancel", scale=1, min_width=90
        )
    progress = gr.HTML(view.progress_html(None), elem_id="progress", padding=False)
    return Ask(prompt, tokens, generate, cancel, progress, examples)


def pictures() -> Pictures:
    # `format` is for arrays, which are never given to it: files are handed out as they are.
    with gr.Column(elem_id="stage"):
        pictures = gr.Gallery(
            label=label("Pictures"),
            show_label=False,
            format="png",
            type="filepath",
            columns=4,
            preview=True,
            object_fit="contain",
            interactive=False,
            buttons=["download", "fullscreen"],
            elem_id="pictures",
        )
        preview = gr.HTML("", elem_id="preview", padding=False)
    with gr.Row(elem_id="result-line"):
        result = gr.HTML(view.result_html(ENGLISH, []), elem_id="result-facts", padding=False)
        reuse = gr.Button(
            label("Reuse seed"),
            size="sm",
            interactive=False,
            elem_id="reuse",
            scale=0,
            min_width=110,
        )
    with gr.Row(elem_id="again"):
        again = tuple(
            gr.Button(
                label(view.AGAIN_TITLES[mode]),
                size="sm",
                visible=False,
                elem_id=f"again-{mode.value}",
                scale=0,
                min_width=110,
            )
            for mode in view.MODE_TITLES
        )
    go = gr.Textbox(visible=False)
    return Pictures(preview, pictures, result, reuse, again, go)


def sizes() -> Sizes:
    """The picker, and a way to have the size that is picked compiled."""
    with gr.Column(elem_id="size-row"):
        size = gr.HTML(
            None,
            html_template="${cards}",
            cards="",
            js_on_load="pickSize(element, props, watch, () => trigger('input'))",
            elem_id="size",
            padding=False,
        )
        warm_up = gr.Button(label("Warm up"), size="sm", elem_id="warm-up", scale=0, min_width=110)
    return Sizes(size, warm_up)


def settings(dispatcher: Dispatcher, sizes: Sizes) -> Settings:
    """Built for the model that is loaded now; `open_page` and `model_changed` keep it right."""
    models = [(preset.title, name) for name, preset in dispatcher.presets.items()]
    limits = dispatcher.limits(dispatcher.status().model)
    steps, guidance = limits.steps, limits.guidance
    return Settings(
        model=gr.Dropdown(models, label=label("Model"), value=limits.model, elem_id="model"),
        mode=gr.Radio([], label=label("Mode"), elem_id="mode"),
        size=sizes.size,
        warm_up=sizes.warm_up,
        steps=gr.Slider(
            steps.minimum,
            view.slider_end(steps.minimum, steps.maximum),
            value=steps.default,
            step=1,
            label=label("Steps"),
            buttons=[],
            elem_id="steps",
        ),
        guidance=gr.Slider(
            guidance.minimum,
            view.slider_end(guidance.minimum, guidance.maximum),
            value=guidance.default,
            step=0.1,
            label=label("Guidance scale"),
            buttons=[],
            elem_id="guidance",
        ),
        styles=gr.Dropdown(
            [(style.title, style.name) for style in limits.styles],
            label=label("Styles"),
            info=label("Words that are laid over the prompt, one style after another."),
            value=[],
            multiselect=True,
            visible=bool(limits.styles),
            elem_id="styles",
        ),
        negative_prompt=gr.Textbox(
            label=label("Negative prompt"), lines=2, elem_id="negative-prompt"
        ),
        **_seed_row(),
        count=gr.Slider(
            1,
            view.slider_end(1, limits.max_count),
            value=1,
            step=1,
            label=label("Number of images"),
            buttons=[],
            elem_id="count",
        ),
        **_lora_row(),
    )


def _lora_row() -> dict[str, Component]:
    """Shown for a model that has LoRA files."""
    with gr.Row(elem_id="lora-row"):
        return {
            "lora": gr.Dropdown([""], label=label("LoRA"), value="", elem_id="lora", visible=False),
            "lora_weight": gr.Slider(
                LORA_WEIGHT.minimum,
                LORA_WEIGHT.maximum,
                value=LORA_WEIGHT.default,
                step=0.05,
                label=label("LoRA weight"),
                buttons=[],
                elem_id="lora-weight",
                visible=False,
            ),
        }


def _seed_row() -> dict[str, Component]:
    with gr.Row(elem_id="seed-row"):
        return {
            "seed": gr.Number(
                label=label("Seed"),
                precision=0,
                value=None,
                placeholder=label("drawn for each run"),
                interactive=False,
                elem_id="seed",
                scale=1,
                min_width=120,
            ),
            "random_seed": gr.Checkbox(
                label=label("Random seed"),
                value=True,
                elem_id="random-seed",
                scale=1,
                min_width=120,
            ),
        }


def warm_ups() -> WarmUps:
    table = gr.HTML(elem_id="program-table", padding=False)
    with gr.Row(elem_id="cold-row"):
        cold_size = gr.Dropdown(
            [], label=label("Size to warm up"), value=None, elem_id="cold-size", scale=1
        )
        warm_up = gr.Button(label("Warm up"), elem_id="warm-up-cold", scale=0, min_width=110)
    strategy = gr.Dropdown(
        [], label=label("Strategy of the loaded model"), interactive=False, elem_id="strategy"
    )
    return WarmUps(table, cold_size, warm_up, strategy)


def from_picture() -> FromPicture:
    # A File keeps the bytes; an Image would decode the picture and lose what it carries.
    file = gr.File(
        label=label("PNG file of TPU UI or with A1111's settings"),
        file_types=[".png"],
        height=110,
        elem_id="png-file",
    )
    about = gr.HTML(elem_id="png-info", padding=False)
    use = gr.Button(label("Use these settings"), interactive=False, elem_id="use-settings")
    return FromPicture(file, about, use)


def kept() -> Component:
    """What this browser keeps. Outside of anything closed, where it would not be read."""
    return gr.HTML(
        None,
        html_template="",
        js_on_load="keepPictures(props, watch, () => trigger('listed'))",
        most=KEPT_PICTURES,
        visible="hidden",
        elem_id="kept-list",
    )


def your_pictures(kept: Component) -> YourPictures:
    pictures = gr.Gallery(
        label=label("Your pictures"),
        show_label=False,
        columns=6,
        height="auto",
        allow_preview=False,
        object_fit="cover",
        interactive=False,
        buttons=[],
        elem_id="kept-pictures",
    )
    with gr.Row(elem_id="kept-buttons"):
        use, vary, pack, forget = (
            gr.Button(text, size="sm", interactive=False, elem_id=name, min_width=100)
            for text, name in (
                (label("Use these settings"), "kept-use"),
                (label("With another seed"), "kept-vary"),
                (label("Download all (ZIP)"), "kept-pack"),
                (label("Forget all"), "kept-forget"),
            )
        )
    file = gr.Textbox(visible=False)
    return YourPictures(kept, pictures, use, vary, pack, forget, file)
