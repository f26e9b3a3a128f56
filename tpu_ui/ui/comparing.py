"""The handlers of a comparison: its cost, its cells one job after another, its grid as a file.

Every cell is a job like any other, submitted when the one before has ended, so that a comparison
keeps nobody else waiting for all of it. A visitor who leaves takes the rest of it along: what is
being made is finished and kept, and no further cell begins.
"""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import gradio as gr
from gradio.processing_utils import save_file_to_cache
from gradio.utils import get_upload_folder

from tpu_ui.compare import OF_NUMBERS, Axis, Cell, Comparison, Line, cost, offered, planned
from tpu_ui.dispatch.interface import Dispatcher, ImageSaved
from tpu_ui.errors import InvalidRequestError, TpuUiError
from tpu_ui.grid import Grid, GridCell, encode_grid
from tpu_ui.protocol import Cancelled, Ending, Failed, Warmed
from tpu_ui.request import check_mode
from tpu_ui.shapes import shown
from tpu_ui.ui import compare_view, view
from tpu_ui.ui.api import file_data, file_url
from tpu_ui.ui.desk import Desk
from tpu_ui.ui.failures import said_plainly
from tpu_ui.ui.form import Form, limits_of
from tpu_ui.ui.handlers import AT_REST, AT_WORK
from tpu_ui.ui.history import Kept, change, name_of, thumbnail
from tpu_ui.ui.language import words_of
from tpu_ui.ui.listening import PROGRESS_S
from tpu_ui.ui.words import ENGLISH, Words

Changed = Any
SHOWN_PX = 384
FILE_NAME = "comparison.png"  # under which a browser saves it
FIRST_CHOSEN = 4  # values of an axis that are chosen to begin with


@dataclass
class Course:
    """One comparison while it goes on; its visitor's alone. Whoever cancels sets `stopped`."""

    comparison: Comparison
    began_s: float
    visit: gr.Request | None = None
    words: Words = ENGLISH
    job: str = ""
    untold: list[str] = field(default_factory=list)  # pictures that the browser has yet to keep
    stopped: threading.Event = field(default_factory=threading.Event)
    cells: list[GridCell] = field(default_factory=list)
    shown: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    notes: dict[tuple[int, int], str] = field(default_factory=dict)  # in the page's language


class Outcome(NamedTuple):
    """Outputs of a comparison, in the order `compare_page` wires them."""

    job: Changed
    kept: Changed
    progress: Changed
    course: Changed
    table: Changed
    grid: Changed
    pack: Changed
    start: Changed
    generate: Changed
    warm_up: Changed
    warm_up_cold: Changed
    cancel: Changed


class Resting(NamedTuple):
    """The last five of `Outcome`."""

    start: Changed
    generate: Changed
    warm_up: Changed
    warm_up_cold: Changed
    cancel: Changed


_ON, _OFF = gr.update(interactive=True), gr.update(interactive=False)
NOTHING = Outcome(*(gr.skip() for _ in Outcome._fields))


class Comparing:
    """Bound to a dispatcher and its desk, and to nothing else."""

    def __init__(self, dispatcher: Dispatcher, desk: Desk) -> None:
        self._dispatcher = dispatcher
        self._desk = desk

    # Before it begins

    def axes(self, visit: gr.Request | None) -> tuple[Changed, Changed]:
        """The axes on offer, in the page's language."""
        words = words_of(visit)
        titles = compare_view.axis_titles(words)
        nothing = words(compare_view.NO_AXIS_TITLE), compare_view.NO_AXIS
        return gr.update(choices=titles), gr.update(choices=[nothing, *titles])

    def values(
        self, visit: gr.Request | None, axis: object, model: object, mode: object
    ) -> Changed:
        """The values on offer for an axis; without an axis the field is not there."""
        words = words_of(visit)
        with said_plainly(words, escape=True):
            if axis == compare_view.NO_AXIS:
                return gr.update(choices=[], value=[], visible=False)
            along, limits = _axis(axis), limits_of(self._dispatcher, model)
            known = mode if mode in limits.modes else None
            choices = offered(self._dispatcher, along, limits, check_mode(limits, known))
            chosen = [limits.model] if along is Axis.MODEL else list(choices[:FIRST_CHOSEN])
            titles = self._titles()
            named = [
                one if along in OF_NUMBERS else compare_view.value_title(words, along, one, titles)
                for one in choices
            ]
            return gr.update(
                choices=list(zip(named, choices, strict=True)),
                value=[one for one in chosen if one in choices],
                visible=True,
                label=words(compare_view.NUMBERS if along in OF_NUMBERS else compare_view.VALUES),
            )

    def values_of_both(
        self,
        visit: gr.Request | None,
        first: object,
        second: object,
        model: object,
        mode: object,
    ) -> tuple[Changed, Changed]:
        """Another model or mode has other values on offer."""
        return self.values(visit, first, model, mode), self.values(visit, second, model, mode)

    def estimate(self, visit: gr.Request | None, *inputs: object) -> str:
        """What it would cost now, or why it cannot begin."""
        words = words_of(visit)
        with said_plainly(words, escape=True):
            try:
                # What the prompt says costs nothing.
                comparison = self._planned(*inputs, any_prompt=True)
                return view.note_html(
                    compare_view.cost_text(
                        words, cost(self._dispatcher, comparison), self._titles()
                    )
                )
            except InvalidRequestError as error:
                return view.note_html(words.sentence(str(error)), "failed")

    # While it goes on

    def run(self, visit: gr.Request | None, stored: object, *inputs: object) -> Iterator[Outcome]:
        """All cells, one after another. `stored`: what the browser keeps."""
        words = words_of(visit)
        with said_plainly(words, escape=True):
            self._refuse_while_busy(Kept.read(stored).job)
            course = Course(self._planned(*inputs), time.monotonic(), visit, words)
            yield self._now(course, words("Sent."), running=True)._replace(
                course=course, grid=None, pack=_OFF, **_at_work()
            )
            for number, cell in enumerate(course.comparison.cells, start=1):
                if course.stopped.is_set():
                    break
                yield from self._cell(course, cell, number)
            count = len(course.comparison.cells)
            elapsed_s = time.monotonic() - course.began_s
            stopped = course.stopped.is_set()
            last = compare_view.ended(words, course.cells, count, stopped, elapsed_s)
            yield self._now(course, last, running=False)._replace(grid=self._grid(course), pack=_ON)

    def stop(self, course: Course | None) -> None:
        """No further cell, and the one that is being made is cancelled."""
        if course is not None:
            course.stopped.set()
            self._dispatcher.cancel(course.job)

    def at_rest(self) -> Resting:
        """The buttons after a comparison, however it ended."""
        return Resting(_ON, *AT_REST)

    # After it

    def packed(self, visit: gr.Request | None, grid: Grid | None) -> str:
        """Where this server has the grid in one file."""
        with said_plainly(words_of(visit), escape=True):
            if grid is None:
                raise InvalidRequestError("Compare something first.")
            with TemporaryDirectory() as folder:
                file = Path(folder, FILE_NAME)
                file.write_bytes(encode_grid(grid))
                kept = save_file_to_cache(file, cache_dir=get_upload_folder())
            return file_url(file_data(Path(kept)))

    def _planned(
        self,
        first: object,
        first_values: object,
        second: object,
        second_values: object,
        *inputs: object,
        any_prompt: bool = False,
    ) -> Comparison:
        form = Form(*inputs)
        if not form.random_seed and form.seed is None:
            raise InvalidRequestError("There is no seed; type one, or tick Random seed.")
        fields = {
            "prompt": form.prompt,
            "negative_prompt": form.negative_prompt,
            "model": form.model,
            "mode": form.mode,
            "size": form.size,
            "steps": form.steps,
            "guidance": form.guidance,
            "seed": None if form.random_seed else form.seed,
            "lora": form.lora,
            "lora_weight": form.lora_weight,
            "styles": form.styles,
        }
        if any_prompt and not str(form.prompt or "").strip():
            fields["prompt"] = "any"
        lines = [_line(first, first_values)]
        if second not in (None, compare_view.NO_AXIS):
            lines.append(_line(second, second_values))
        return planned(self._dispatcher, fields, lines)

    def _refuse_while_busy(self, job: str) -> None:
        """A page has one job at a time: what its Cancel stops must be plain."""
        try:
            so_far = self._dispatcher.recorded(job)
        except KeyError:
            return
        if not any(isinstance(one, Ending) for one in so_far):
            raise InvalidRequestError("A picture of yours is being made; wait, or cancel it.")

    def _cell(self, course: Course, cell: Cell, number: int) -> Iterator[Outcome]:
        """One cell to its end. A failure is its note, and the next cell's turn comes."""
        words = course.words
        place = {
            "number": number,
            "count": len(course.comparison.cells),
            "name": compare_view.named(
                words, course.comparison, cell.column, cell.row, self._titles()
            ),
        }

        def told(what: str) -> str:
            return words("Picture {number} of {count} ({name}): {what}", what=what, **place)

        try:
            course.job = self._desk.submit(cell.request, course.visit)
        except TpuUiError as error:
            _lost(course, cell, Failed("", "", str(error)))
            return
        if course.stopped.is_set():  # in the moment before
            self._dispatcher.cancel(course.job)
        yield self._now(course, told(words("sent")), running=True)
        warmed: Warmed | None = None
        for update in self._dispatcher.updates(course.job, PROGRESS_S):
            if isinstance(update, Warmed):
                warmed = update
            if isinstance(update, ImageSaved):
                self._keep(course, cell, update, warmed)
            if isinstance(update, Failed | Cancelled):
                _lost(course, cell, update)
            if isinstance(update, Cancelled):
                course.stopped.set()
            if not isinstance(update, Ending):
                now = view.progress(words, update)
                progress = view.Progress(told(words.within(now.text)), now.done)
                yield NOTHING._replace(progress=view.progress_html(progress), kept=_told(course))

    def _keep(self, course: Course, cell: Cell, saved: ImageSaved, warmed: Warmed | None) -> None:
        course.untold.append(name_of(saved.path))
        took = (warmed.programs_compiled, warmed.elapsed_s) if warmed else (0, 0.0)
        note = compare_view.note(ENGLISH, saved.info, *took)
        info = saved.info.to_dict()
        course.cells.append(GridCell(cell.column, cell.row, saved.path, note, info))
        place = cell.column, cell.row
        course.notes[place] = compare_view.note(course.words, saved.info, *took)
        small = file_url({"path": thumbnail(saved.path, SHOWN_PX)})
        course.shown[place] = small, file_url(file_data(saved.path))

    def _now(self, course: Course, text: str, *, running: bool) -> Outcome:
        """The whole grid as it is."""
        progress = view.Progress(text, None if running else 1.0, running)
        return NOTHING._replace(
            job=course.job or None,
            kept=_told(course),
            progress=view.progress_html(progress),
            table=compare_view.grid_html(
                course.words,
                course.comparison,
                course.cells,
                course.shown,
                course.notes,
                self._titles(),
            ),
        )

    def _grid(self, course: Course) -> Grid:
        """For a file, which is in English: it goes anywhere, and its font has no other letters."""
        lines = [one for one in (course.comparison.columns, course.comparison.rows) if one]
        titles = self._titles()
        return Grid(
            compare_view.value_titles(ENGLISH, course.comparison.columns, titles),
            compare_view.value_titles(ENGLISH, course.comparison.rows, titles),
            {line.axis.value: [_plain(value) for value in line.values] for line in lines},
            tuple(course.cells),
        )

    def _titles(self) -> dict[str, str]:
        return {name: preset.title for name, preset in self._dispatcher.presets.items()}


def _lost(course: Course, cell: Cell, ending: Failed | Cancelled) -> None:
    """A cell without a picture."""
    note = view.progress(ENGLISH, ending).text
    course.cells.append(GridCell(cell.column, cell.row, None, note, None))
    course.notes[cell.column, cell.row] = view.progress(course.words, ending).text


def _told(course: Course) -> Changed:
    """What the browser is to keep that it has not been told."""
    if not course.job:
        return gr.skip()
    news, course.untold = course.untold, []
    return change(course.job, news)


def _line(axis: object, values: object) -> Line:
    if values is not None and not isinstance(values, list | tuple):
        raise InvalidRequestError(f"The values to compare must be a list, not {shown(values)}.")
    return Line(_axis(axis), tuple(values or ()))


def _axis(axis: object) -> Axis:
    if axis not in list(Axis):
        names = ", ".join(Axis)
        raise InvalidRequestError(f"There is no axis {shown(axis)}; choose from {names}.")
    return Axis(str(axis))


def _at_work() -> dict[str, Changed]:
    return Resting(_OFF, *AT_WORK)._asdict()


def _plain(value: object) -> object:
    return value if isinstance(value, int | float) else str(value)
