"""The components of "Compare", and which event calls which of its handlers. No logic."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.i18n import I18nData

from tpu_ui.ui import compare_view
from tpu_ui.ui.comparing import Comparing
from tpu_ui.ui.files import SAVE
from tpu_ui.ui.labels import label
from tpu_ui.ui.listening import JOB_CONCURRENCY_ID, JOB_LISTENERS
from tpu_ui.ui.words import ENGLISH

Component = Any
ESTIMATE_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class ComparePart:
    """`course` and `grid` belong to one visitor; `file` is where a grid's file is."""

    section: Component
    first: Component
    first_values: Component
    second: Component
    second_values: Component
    cost: Component
    start: Component
    table: Component
    pack: Component
    file: Component
    course: Component
    grid: Component


@dataclass(frozen=True, slots=True)
class Around:
    """What of the rest of the page a comparison reads and changes. `load` is its opening, `form`
    that of `form.Form`, `buttons` the last four of `handlers.Run`, `remember` what is done when a
    job has ended."""

    load: Any
    form: Sequence[Component]
    model: Component
    mode: Component
    job: Component
    kept: Component
    progress: Component
    buttons: Sequence[Component]
    cancel: Component
    remember: Callable[[object], Any]


def compare_part() -> ComparePart:
    titles = compare_view.axis_titles(ENGLISH)
    nothing = compare_view.NO_AXIS_TITLE, compare_view.NO_AXIS
    with gr.Accordion(label("Compare"), open=False, elem_id="compare") as section:
        first, first_values = _axis_row(label("Along"), titles, "mode", "first")
        second, second_values = _axis_row(label("And along"), [nothing, *titles], "", "second")
        cost = gr.HTML(elem_id="compare-cost", padding=False)
        with gr.Row(elem_id="compare-buttons"):
            start = gr.Button(label("Compare"), size="sm", elem_id="compare-start", min_width=100)
            pack = gr.Button(
                label("Download the grid (PNG)"),
                size="sm",
                interactive=False,
                elem_id="compare-pack",
                min_width=100,
            )
        table = gr.HTML(compare_view.NOTHING, elem_id="compare-table", padding=False)
    return ComparePart(
        section,
        first,
        first_values,
        second,
        second_values,
        cost,
        start,
        table,
        pack,
        gr.Textbox(visible=False),
        gr.State(),
        gr.State(),
    )


def _axis_row(
    title: I18nData, titles: list[tuple[str, str]], value: str, name: str
) -> tuple[Component, Component]:
    with gr.Row(elem_classes="compare-axis"):
        axis = gr.Dropdown(
            titles, label=title, value=value, elem_id=f"compare-{name}", scale=1, min_width=140
        )
        values = gr.Dropdown(
            [],
            label=label(compare_view.VALUES),
            value=[],
            multiselect=True,
            allow_custom_value=True,
            visible=bool(value),
            elem_id=f"compare-{name}-values",
            scale=3,
            min_width=180,
        )
    return axis, values


def wire_compare(comparing: Comparing, part: ComparePart, page: Around) -> None:
    page.load(comparing.axes, None, [part.first, part.second], **_QUIET)
    axes = [part.first, part.first_values, part.second, part.second_values]
    asked = [*axes, *page.form]
    timer = gr.Timer(ESTIMATE_EVERY_S, active=False)
    for axis, values in ((part.first, part.first_values), (part.second, part.second_values)):
        axis.input(comparing.values, [axis, page.model, page.mode], values, **_QUIET)
        values.change(comparing.estimate, asked, part.cost, trigger_mode="always_last", **_QUIET)
    gr.on(
        [part.section.expand, page.model.input, page.mode.input],
        comparing.values_of_both,
        [part.first, part.second, page.model, page.mode],
        [part.first_values, part.second_values],
        **_QUIET,
    )
    timer.tick(comparing.estimate, asked, part.cost, **_QUIET)
    # Only an open section keeps its cost up to date.
    part.section.expand(lambda: gr.Timer(active=True), None, timer, **_QUIET)
    part.section.collapse(lambda: gr.Timer(active=False), None, timer, **_QUIET)
    resting = [part.start, *page.buttons]
    run = part.start.click(
        comparing.run,
        [page.kept, *asked],
        [
            page.job,
            page.kept,
            page.progress,
            part.course,
            part.table,
            part.grid,
            part.pack,
            *resting,
        ],
        preprocess=False,
        show_progress="hidden",
        concurrency_id=JOB_CONCURRENCY_ID,
        concurrency_limit=JOB_LISTENERS,
        trigger_mode="once",
        api_visibility="private",
    )
    # Not by the run itself: until it is over, Gradio takes no other click on its button.
    run.then(comparing.at_rest, None, resting, **_QUIET)
    run.failure(comparing.at_rest, None, resting, **_QUIET)
    run.then(page.remember, page.kept, page.kept, **_QUIET)
    page.cancel.click(comparing.stop, part.course, None, **_QUIET)
    packed = part.pack.click(comparing.packed, part.grid, part.file, **{**_QUIET, "queue": True})
    packed.success(None, part.file, None, js=SAVE)


_QUIET: dict[str, Any] = {
    "queue": False,
    "preprocess": False,
    "show_progress": "hidden",
    "api_visibility": "private",
}
