"""The page's layout, and which event calls which handler. No logic, no state of a visitor.

Every input goes to its handler raw (`preprocess=False`): Gradio's own check of a picker would
refuse a size in Gradio's words, and a page that outlived a restart of the server would be told so
once a second.
"""

from dataclasses import dataclass, fields
from typing import Any

import gradio as gr

from tpu_ui.dispatch.interface import Dispatcher
from tpu_ui.ui import corner, parts
from tpu_ui.ui.api import add_endpoints
from tpu_ui.ui.compare_page import Around, compare_part, wire_compare
from tpu_ui.ui.comparing import Comparing
from tpu_ui.ui.counting import PAUSE, Counter
from tpu_ui.ui.desk import Desk
from tpu_ui.ui.door import Door, usual_door
from tpu_ui.ui.files import CACHE_AGE_S, CACHE_CHECK_S, SAVE
from tpu_ui.ui.handlers import Handlers
from tpu_ui.ui.history import History
from tpu_ui.ui.labels import label
from tpu_ui.ui.listening import JOB_CONCURRENCY_ID, JOB_LISTENERS
from tpu_ui.ui.owner import Owner
from tpu_ui.ui.parts import Ask, Component, FromPicture, Pictures, Settings, WarmUps, YourPictures
from tpu_ui.ui.view import MODE_TITLES

TITLE = "TPU UI"
STATUS_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Session:
    """What belongs to one visitor; kept on the server, for her alone.

    `made`: what made the pictures in view; `past`: what made the one that is selected of them.
    """

    job: Component
    shown: Component
    info: Component
    visited: Component
    made: Component
    past: Component


def build(dispatcher: Dispatcher, door: Door | None = None) -> gr.Blocks:
    """The app. Serve it with `launch.queued` and `launch.launch_arguments`.

    `door` says who may do what; it is the same one for both.
    """
    door = door or usual_door(dispatcher.locked_at_start)
    desk = Desk(dispatcher, door)
    with gr.Blocks(
        title=TITLE, analytics_enabled=False, delete_cache=(CACHE_CHECK_S, CACHE_AGE_S)
    ) as page:
        add_endpoints(dispatcher, desk)  # first: names are given in order, and theirs are promised
        kept = parts.kept()
        session = Session(*(gr.State() for _ in fields(Session)))
        with gr.Row(elem_id="head"):
            gr.HTML(f"<h1>{TITLE}</h1>", elem_id="title", padding=False)
            now = gr.HTML(elem_id="now", padding=False)
            who = gr.HTML(elem_id="who", padding=False, visible=door.signs_in)
        with gr.Row(elem_id="page"):
            examples = parts.examples(dispatcher)
            with gr.Column(elem_id="ask"):
                ask = parts.ask(examples)
            with gr.Column(elem_id="result"):
                pictures = parts.pictures()
                with gr.Accordion(label("Your pictures"), open=False, elem_id="kept"):
                    yours = parts.your_pictures(kept)
                comparison = compare_part()
            with gr.Column(elem_id="strip"):
                sizes = parts.sizes()
            with gr.Column(elem_id="more"):
                examples.render()
                with gr.Accordion(label("Settings"), open=True, elem_id="settings"):
                    settings = parts.settings(dispatcher, sizes)
                with gr.Accordion(
                    label("Settings from a picture"), open=False, elem_id="from-picture"
                ):
                    from_picture = parts.from_picture()
                owners = corner.corner()
            strip = gr.HTML(elem_id="facts", padding=False)
        warm_ups = owners.warm_ups
        handlers = Handlers(dispatcher, desk)
        history = History(dispatcher)
        _wire_jobs(page, handlers, history, session, ask, pictures, settings, warm_ups, yours)
        _wire_history(history, handlers, session, ask, pictures, settings, yours)
        _wire_counter(Counter(dispatcher), ask, settings)
        _wire_status(page, handlers, session, now, strip, ask, settings, warm_ups)
        _wire_pictures(handlers, session, ask, pictures, settings, from_picture)
        beside = settings.warm_up, who
        corner.wire(page, Owner(dispatcher, door), owners, beside, _QUIET, _SPEAKING)
        buttons = [ask.generate, settings.warm_up, warm_ups.warm_up, ask.cancel]
        around = Around(
            load=page.load,
            form=_form(ask, settings),
            model=settings.model,
            mode=settings.mode,
            job=session.job,
            kept=yours.kept,
            progress=ask.progress,
            buttons=buttons,
            cancel=ask.cancel,
            remember=history.remember,
        )
        wire_compare(Comparing(dispatcher, desk), comparison, around)
    return page


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
        settings.styles,
    ]


def _limited(settings: Settings) -> list[Component]:
    """Those of `visited.ModelSettings`, in its order."""
    return [
        settings.negative_prompt,
        settings.steps,
        settings.guidance,
        settings.count,
        settings.lora,
        settings.lora_weight,
        settings.styles,
    ]


def _wire_jobs(
    page: gr.Blocks,
    handlers: Handlers,
    history: History,
    session: Session,
    ask: Ask,
    pictures: Pictures,
    settings: Settings,
    warm_ups: WarmUps,
    yours: YourPictures,
) -> None:
    """Generate, warm up, cancel. The outputs are those of `handlers.Run`, in order."""
    buttons = [ask.generate, settings.warm_up, warm_ups.warm_up, ask.cancel]
    results = [
        pictures.preview,
        pictures.pictures,
        pictures.result,
        session.made,
        session.past,
    ]
    jobs: tuple[tuple[list[Any], Any, list[Component], str | None], ...] = (
        ([ask.generate.click, ask.prompt.submit], handlers.generate, _form(ask, settings), None),
        (
            [settings.warm_up.click],
            handlers.warm_up,
            [settings.model, settings.mode, settings.size],
            None,
        ),
        (
            [warm_ups.warm_up.click],
            handlers.warm_up,
            [settings.model, settings.mode, warm_ups.cold_size],
            None,
        ),
        # The page may be loaded before its component has read what is kept.
        ([page.load], handlers.resume, [yours.kept], "() => readKept()"),
    )
    for triggers, handler, inputs, script in jobs:
        job = gr.on(
            triggers,
            handler,
            inputs,
            [session.job, yours.kept, ask.progress, *results, *buttons],
            js=script,
            preprocess=False,
            show_progress="hidden",
            concurrency_id=JOB_CONCURRENCY_ID,
            concurrency_limit=JOB_LISTENERS,
            trigger_mode="once",
            api_visibility="private",
        )
        # Not by the job itself, nor on `success`, which comes a moment early: until it is over,
        # Gradio takes no other click on its button.
        job.then(handlers.over, session.job, buttons, **_QUIET)
        job.failure(handlers.at_rest, None, buttons, **_QUIET)
        job.then(history.remember, yours.kept, yours.kept, **_QUIET)
    ask.cancel.click(handlers.cancel, session.job, ask.cancel, **_QUIET)


def _wire_counter(counter: Counter, ask: Ask, settings: Settings) -> None:
    """Tokens of the prompt, while it is typed."""
    gr.on(
        [ask.prompt.change, settings.styles.change, settings.model.change],
        counter.tokens,
        [ask.prompt, settings.styles, settings.model],
        ask.tokens,
        js=PAUSE,
        trigger_mode="always_last",
        **_QUIET,
    )


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
    living = [
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
    of_model = [session.visited, ask.examples, *limited, *living]
    page.load(handlers.open_page, None, [settings.model, *of_model], **_QUIET)
    left = [session.visited, settings.model, *limited]
    settings.model.input(handlers.model_changed, left, of_model, **_QUIET)
    ask.examples.click(handlers.use_example, ask.examples, ask.prompt, **_PREPROCESSED)
    settings.mode.change(handlers.mode_changed, chosen[:4], living, **_QUIET)
    timer = gr.Timer(STATUS_EVERY_S)
    gr.on(
        [timer.tick, settings.size.input, warm_ups.cold_size.change],
        handlers.refresh,
        chosen,
        living,
        **_QUIET,
    )


def _wire_history(
    history: History,
    handlers: Handlers,
    session: Session,
    ask: Ask,
    pictures: Pictures,
    settings: Settings,
    yours: YourPictures,
) -> None:
    """What this browser keeps, and what can be done with it."""
    shelf = [yours.pictures, yours.pack, yours.forget]
    shown = [pictures.pictures, pictures.result, session.made, session.past]
    yours.pictures.select(history.show, yours.kept, shown, **_SPEAKING)
    yours.kept.listed(history.shelf, yours.kept, shelf, trigger_mode="always_last", **_QUIET)
    limited = _limited(settings)
    form = [ask.prompt, settings.model, settings.mode, settings.size]
    filled = [session.visited, *form, *limited, settings.random_seed, settings.seed]
    given = [session.past, session.visited, *limited]
    yours.use.click(handlers.use_settings, given, filled, **_SPEAKING)
    yours.vary.click(handlers.vary, given, filled, **_SPEAKING)
    packed = yours.pack.click(history.zipped, yours.kept, yours.file, **_SPEAKING)
    packed.success(None, yours.file, None, js=SAVE)
    yours.forget.click(history.forget, yours.kept, yours.kept, **_QUIET)
    _wire_picture_in_view(handlers, session, pictures, yours, given, filled)


def _wire_picture_in_view(
    handlers: Handlers,
    session: Session,
    pictures: Pictures,
    yours: YourPictures,
    given: list[Component],
    filled: list[Component],
) -> None:
    """What can be done with the picture that is selected, old or new."""
    pictures.pictures.select(handlers.look_at, session.made, session.past, **_QUIET)
    offered = [pictures.reuse, yours.use, yours.vary, *pictures.again]
    session.past.change(handlers.offer, session.past, offered, **_QUIET)
    for mode, button in zip(MODE_TITLES, pictures.again, strict=True):
        sent = button.click(handlers.again_in(mode), given, [*filled, pictures.go], **_SPEAKING)
        sent.success(None, pictures.go, None, js=_GENERATE)


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
    pictures.reuse.click(handlers.reuse_seed, session.past, seed, **_QUIET)
    from_picture.file.change(
        handlers.read_picture,
        from_picture.file,
        [session.info, from_picture.about, from_picture.use],
        **_PREPROCESSED,
    )
    form = [ask.prompt, settings.model, settings.mode, settings.size]
    limited = _limited(settings)
    from_picture.use.click(
        handlers.use_settings,
        [session.info, session.visited, *limited],
        [session.visited, *form, *limited, *seed],
        **_SPEAKING,
    )


# Has the form sent, if a mode that is ready was put into it.
_GENERATE = """(go) => {
  if (go) document.querySelector("#generate:not(:disabled)")?.click();
}"""
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
