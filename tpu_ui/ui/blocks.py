"""The page's layout, and which event calls which handler. No logic, no state of a visitor.

Ids are for the style sheet, the script and the tests. Every input goes to its handler raw
(`preprocess=False`): Gradio's own check of a picker would refuse a size in Gradio's words, and a
page that outlived a restart of the server would be told so once a second.
"""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from tpu_ui.dispatch.interface import Dispatcher
from tpu_ui.request import LORA_WEIGHT
from tpu_ui.ui import view
from tpu_ui.ui.api import add_endpoints
from tpu_ui.ui.handlers import Handlers, example_rows
from tpu_ui.ui.launch import (
    CACHE_AGE_S,
    CACHE_CHECK_S,
    JOB_CONCURRENCY_ID,
    JOB_LISTENERS,
)

TITLE = "TPU UI"
STATUS_EVERY_S = 1.0

Component = Any  # Gradio's components have no types of their own


@dataclass(frozen=True, slots=True)
class Ask:
    """The prompt, the buttons and how the job goes."""

    prompt: Component
    generate: Component
    cancel: Component
    progress: Component
    examples: Component


@dataclass(frozen=True, slots=True)
class Pictures:
    """What came of it."""

    pictures: Component
    result: Component
    reuse: Component


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
class Session:
    """What belongs to one visitor; kept on the server, for her alone."""

    job: Component
    seed: Component
    shown: Component
    info: Component


def build(dispatcher: Dispatcher) -> gr.Blocks:
    """The app. Serve it with `launch.queue_arguments` and `launch.launch_arguments`."""
    with gr.Blocks(
        title=TITLE, analytics_enabled=False, delete_cache=(CACHE_CHECK_S, CACHE_AGE_S)
    ) as page:
        add_endpoints(dispatcher)  # first: names are given in order, and theirs are promised
        session = Session(gr.State(), gr.State(), gr.State(), gr.State())
        with gr.Row(elem_id="head"):
            gr.HTML(f"<h1>{TITLE}</h1>", elem_id="title", padding=False)
            now = gr.HTML(elem_id="now", padding=False)
        with gr.Row(elem_id="page"):
            strip = gr.HTML(elem_id="strip", padding=False)
            examples = _examples(dispatcher)
            with gr.Column(elem_id="ask"):
                ask = _ask(examples)
            with gr.Column(elem_id="result"):
                pictures = _pictures()
            with gr.Column(elem_id="more"):
                examples.render()
                with gr.Accordion("Settings", open=True, elem_id="settings"):
                    settings = _settings(dispatcher)
                with gr.Accordion("Programs and warm-up", open=False, elem_id="programs"):
                    warm_ups = _warm_ups(dispatcher.status().locked)
                with gr.Accordion("Settings from a picture", open=False, elem_id="from-picture"):
                    from_picture = _from_picture()
        handlers = Handlers(dispatcher)
        _wire_jobs(handlers, session, ask, pictures, settings, warm_ups)
        _wire_status(page, handlers, session, now, strip, ask, settings, warm_ups)
        _wire_pictures(handlers, session, ask, pictures, settings, from_picture)
    return page


def _examples(dispatcher: Dispatcher) -> Component:
    """Prompts of the loaded model to start from; a press puts one into the prompt."""
    return gr.Dataset(
        components=[gr.Textbox(render=False)],
        samples=example_rows(dispatcher, dispatcher.status().model),
        type="values",
        label="Examples",
        elem_id="examples",
        render=False,
    )


def _ask(examples: Component) -> Ask:
    prompt = gr.Textbox(
        label="Prompt",
        placeholder="What the picture should show",
        lines=3,
        max_lines=8,
        autofocus=True,
        elem_id="prompt",
    )
    with gr.Row(elem_id="buttons"):
        generate = gr.Button("Generate", variant="primary", elem_id="generate", scale=3)
        cancel = gr.Button("Cancel", interactive=False, elem_id="cancel", scale=1, min_width=90)
    progress = gr.HTML(view.progress_html(None), elem_id="progress", padding=False)
    return Ask(prompt, generate, cancel, progress, examples)


def _pictures() -> Pictures:
    # `format` is for arrays, which are never given to it: files are handed out as they are.
    pictures = gr.Gallery(
        label="Pictures",
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
    with gr.Row(elem_id="result-line"):
        result = gr.HTML(view.result_html([]), elem_id="result-facts", padding=False)
        reuse = gr.Button(
            "Reuse seed", size="sm", interactive=False, elem_id="reuse", scale=0, min_width=110
        )
    return Pictures(pictures, result, reuse)


def _settings(dispatcher: Dispatcher) -> Settings:
    """Built for the model that is loaded now; `open_page` and `model_changed` keep it right."""
    models = [(preset.title, name) for name, preset in dispatcher.presets.items()]
    limits = dispatcher.limits(dispatcher.status().model)
    steps, guidance = limits.steps, limits.guidance
    return Settings(
        model=gr.Dropdown(models, label="Model", value=limits.model, elem_id="model"),
        mode=gr.Radio([], label="Mode", elem_id="mode"),
        **_size_row(),
        steps=gr.Slider(
            steps.minimum,
            view.slider_end(steps.minimum, steps.maximum),
            value=steps.default,
            step=1,
            label="Steps",
            buttons=[],
            elem_id="steps",
        ),
        guidance=gr.Slider(
            guidance.minimum,
            view.slider_end(guidance.minimum, guidance.maximum),
            value=guidance.default,
            step=0.1,
            label="Guidance scale",
            buttons=[],
            elem_id="guidance",
        ),
        negative_prompt=gr.Textbox(label="Negative prompt", lines=2, elem_id="negative-prompt"),
        **_seed_row(),
        count=gr.Slider(
            1,
            view.slider_end(1, limits.max_count),
            value=1,
            step=1,
            label="Number of images",
            buttons=[],
            elem_id="count",
        ),
        **_lora_row(),
    )


def _lora_row() -> dict[str, Component]:
    """Shown for a model that has LoRA files."""
    with gr.Row(elem_id="lora-row"):
        return {
            "lora": gr.Dropdown([], label="LoRA", value="", elem_id="lora", visible=False),
            "lora_weight": gr.Slider(
                LORA_WEIGHT.minimum,
                LORA_WEIGHT.maximum,
                value=LORA_WEIGHT.default,
                step=0.05,
                label="LoRA weight",
                buttons=[],
                elem_id="lora-weight",
                visible=False,
            ),
        }


def _size_row() -> dict[str, Component]:
    with gr.Row(elem_id="size-row"):
        return {
            "size": gr.Dropdown([], label="Size", value=None, elem_id="size", scale=1),
            "warm_up": gr.Button("Warm up", elem_id="warm-up", scale=0, min_width=110),
        }


def _seed_row() -> dict[str, Component]:
    with gr.Row(elem_id="seed-row"):
        return {
            "seed": gr.Number(
                label="Seed",
                precision=0,
                value=None,
                placeholder="drawn for each run",
                interactive=False,
                elem_id="seed",
                scale=1,
                min_width=120,
            ),
            "random_seed": gr.Checkbox(
                label="Random seed", value=True, elem_id="random-seed", scale=1, min_width=120
            ),
        }


def _warm_ups(locked: bool) -> WarmUps:
    table = gr.HTML(elem_id="program-table", padding=False)
    with gr.Row(elem_id="cold-row"):
        cold_size = gr.Dropdown(
            [], label="Size to warm up", value=None, elem_id="cold-size", scale=1
        )
        warm_up = gr.Button("Warm up", elem_id="warm-up-cold", scale=0, min_width=110)
    strategy = gr.Dropdown(
        [], label="Strategy of the loaded model", interactive=not locked, elem_id="strategy"
    )
    return WarmUps(table, cold_size, warm_up, strategy)


def _from_picture() -> FromPicture:
    # A File keeps the bytes; an Image would decode the picture and lose what it carries.
    file = gr.File(
        label="PNG file made by TPU UI", file_types=[".png"], height=110, elem_id="png-file"
    )
    about = gr.HTML(elem_id="png-info", padding=False)
    use = gr.Button("Use these settings", interactive=False, elem_id="use-settings")
    return FromPicture(file, about, use)


def _form(ask: Ask, settings: Settings) -> list[Component]:
    """The inputs of `form.Form`, in its order."""
    return [
        ask.prompt,
        settings.negative_prompt,
        settings.model,
        settings.mode,
        settings.size,
        settings.steps,
        settings.guidance,
        settings.random_seed,
        settings.seed,
        settings.count,
        settings.lora,
        settings.lora_weight,
    ]


def _limited(settings: Settings) -> list[Component]:
    """The outputs of `handlers.ModelSettings`, in its order."""
    return [
        settings.negative_prompt,
        settings.steps,
        settings.guidance,
        settings.count,
        settings.lora,
        settings.lora_weight,
    ]


def _wire_jobs(
    handlers: Handlers,
    session: Session,
    ask: Ask,
    pictures: Pictures,
    settings: Settings,
    warm_ups: WarmUps,
) -> None:
    """Generate, warm up, cancel. The outputs are those of `handlers.Run`, in order."""
    buttons = [ask.generate, settings.warm_up, warm_ups.warm_up, ask.cancel]
    results = [pictures.pictures, pictures.result, session.seed, pictures.reuse]
    jobs: tuple[tuple[list[Any], Any, list[Component]], ...] = (
        ([ask.generate.click, ask.prompt.submit], handlers.generate, _form(ask, settings)),
        (
            [settings.warm_up.click],
            handlers.warm_up,
            [settings.model, settings.mode, settings.size],
        ),
        (
            [warm_ups.warm_up.click],
            handlers.warm_up,
            [settings.model, settings.mode, warm_ups.cold_size],
        ),
    )
    for triggers, handler, inputs in jobs:
        job = gr.on(
            triggers,
            handler,
            inputs,
            [session.job, ask.progress, *results, *buttons],
            preprocess=False,
            show_progress="hidden",
            concurrency_id=JOB_CONCURRENCY_ID,
            concurrency_limit=JOB_LISTENERS,
            trigger_mode="once",
            api_visibility="private",
        )
        job.failure(handlers.at_rest, None, buttons, **_QUIET)
    ask.cancel.click(handlers.cancel, session.job, ask.cancel, **_QUIET)


def _wire_status(
    page: gr.Blocks,
    handlers: Handlers,
    session: Session,
    now: Component,
    strip: Component,
    ask: Ask,
    settings: Settings,
    warm_ups: WarmUps,
) -> None:
    """What follows the status. Out of the queue: many tabs ask, and a job must not hold them up."""
    chosen = [session.shown, settings.model, settings.mode, settings.size, warm_ups.cold_size]
    parts = [
        session.shown,
        now,
        strip,
        warm_ups.table,
        settings.mode,
        settings.size,
        warm_ups.cold_size,
        warm_ups.strategy,
    ]
    limited = _limited(settings)
    of_model = [ask.examples, *limited, *parts]
    page.load(handlers.open_page, None, [settings.model, *of_model], **_QUIET)
    settings.model.input(handlers.model_changed, settings.model, of_model, **_QUIET)
    ask.examples.click(handlers.use_example, ask.examples, ask.prompt, **_PREPROCESSED)
    settings.mode.change(handlers.mode_changed, chosen[:4], parts, **_QUIET)
    change = warm_ups.strategy.input(handlers.set_strategy, warm_ups.strategy, None, **_SPEAKING)
    change.failure(handlers.chosen_strategy, None, warm_ups.strategy, **_QUIET)
    timer = gr.Timer(STATUS_EVERY_S)
    gr.on(
        [timer.tick, settings.size.change, warm_ups.cold_size.change],
        handlers.refresh,
        chosen,
        parts,
        **_QUIET,
    )


def _wire_pictures(
    handlers: Handlers,
    session: Session,
    ask: Ask,
    pictures: Pictures,
    settings: Settings,
    from_picture: FromPicture,
) -> None:
    """Seeds and settings taken from pictures."""
    seed = [settings.random_seed, settings.seed]
    settings.random_seed.change(handlers.seed_field, settings.random_seed, settings.seed, **_QUIET)
    pictures.reuse.click(handlers.reuse_seed, session.seed, seed, **_QUIET)
    from_picture.file.change(
        handlers.read_picture,
        from_picture.file,
        [session.info, from_picture.about, from_picture.use],
        **_PREPROCESSED,
    )
    form = [ask.prompt, settings.model, settings.mode, settings.size]
    limited = _limited(settings)
    from_picture.use.click(
        handlers.use_settings, session.info, [*form, *limited, *seed], **_SPEAKING
    )


# Events that only ask or tell: out of the queue, unseen in the API, no spinner over the page.
_QUIET: dict[str, Any] = {
    "queue": False,
    "preprocess": False,
    "show_progress": "hidden",
    "api_visibility": "private",
}
_PREPROCESSED: dict[str, Any] = {**_QUIET, "preprocess": True}
# Only what runs in the queue can warn or refuse in words that the page shows.
_SPEAKING: dict[str, Any] = {**_QUIET, "queue": True}
