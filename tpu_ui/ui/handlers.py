"""What happens on each event of the page: inputs -> request -> dispatcher -> outputs.

A handler belongs to nobody: what a visitor has running is in her gr.State, what runs is the
dispatcher's. A generator below only listens. When its visitor leaves, Gradio drops it, and the job
goes on to its end: its pictures stay in the outputs folder, and the queue moves on.
"""

import html
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from tpu_ui.dispatch.interface import Dispatcher, ImageSaved
from tpu_ui.errors import InvalidRequestError, MetadataError, TpuUiError
from tpu_ui.protocol import Ending, Failed, Finished, Stepped, Warmed
from tpu_ui.request import Limits, check_mode, check_size
from tpu_ui.shapes import Mode, ProgramState
from tpu_ui.ui import view
from tpu_ui.ui.desk import Desk
from tpu_ui.ui.failures import said_plainly
from tpu_ui.ui.files import handed_out
from tpu_ui.ui.form import Form, limits_of, with_choices_made
from tpu_ui.ui.history import Kept, change, name_of
from tpu_ui.ui.language import words_of
from tpu_ui.ui.listening import PROGRESS_S
from tpu_ui.ui.live import Chosen, Live, Picker, Sizes, live
from tpu_ui.ui.previews import preview_html
from tpu_ui.ui.restoring import restored, settings_in
from tpu_ui.ui.visited import ModelSettings, Visited, as_before, filled
from tpu_ui.ui.words import Words

Changed = Any  # a component's new value, gr.update(...) or gr.skip(): Gradio has no type for it


class Run(NamedTuple):
    """Outputs of a job, in the order `blocks` wires them."""

    job: Changed
    kept: Changed
    progress: Changed
    preview: Changed
    pictures: Changed
    result: Changed
    made: Changed
    past: Changed
    generate: Changed
    warm_up: Changed
    warm_up_cold: Changed
    cancel: Changed


class Buttons(NamedTuple):
    """The last four of `Run`."""

    generate: Changed
    warm_up: Changed
    warm_up_cold: Changed
    cancel: Changed


class LiveParts(NamedTuple):
    """Outputs that follow the status. `shown` remembers, for this visitor, what is on her page."""

    shown: Changed
    now: Changed
    strip: Changed
    table: Changed
    mode: Changed
    size: Changed
    cold_size: Changed
    strategy: Changed


class Handlers:
    """The page's handlers, bound to a dispatcher and its desk, and to nothing else."""

    def __init__(self, dispatcher: Dispatcher, desk: Desk) -> None:
        self._dispatcher = dispatcher
        self._desk = desk

    # The page as a whole

    def open_page(self, visit: gr.Request | None) -> tuple[Changed, ...]:
        """The model that is loaded, its limits, and the state of the app."""
        model = self._dispatcher.status().model
        words = words_of(visit)
        settings = as_before(words, Visited(model), self._dispatcher.limits(model))
        examples = gr.update(samples=example_rows(self._dispatcher, model))
        living = self._live_parts(words, None, Chosen(model))
        # Those of another app may not have been known when the page was built.
        known = [(preset.title, name) for name, preset in self._dispatcher.presets.items()]
        models = gr.update(choices=known, value=model)
        return models, Visited(model), examples, *settings, *living

    def model_changed(
        self, visit: gr.Request | None, visited: Visited | None, model: object, *values: object
    ) -> tuple[Changed, ...]:
        """`values`: those of `ModelSettings`, as set for the model that is left."""
        words = words_of(visit)
        with said_plainly(words, escape=True):
            limits = limits_of(self._dispatcher, model)
            visited = self._at(visited).go_to(limits.model, values)
            examples = gr.update(samples=example_rows(self._dispatcher, limits.model))
            living = self._live_parts(words, None, Chosen(limits.model))
            return visited, examples, *as_before(words, visited, limits), *living

    def _at(self, visited: Visited | None) -> Visited:
        """A page that was never opened, or too long ago, shows the loaded model's settings."""
        return visited or Visited(self._dispatcher.status().model)

    def use_example(self, row: list[str] | None) -> Changed:
        """The prompt of the example that was pressed."""
        return row[0] if row else gr.skip()

    def refresh(self, visit: gr.Request | None, shown: Live | None, *chosen: object) -> LiveParts:
        """Once a second, and whenever the visitor chooses another size."""
        return self._live_parts(words_of(visit), shown, Chosen(*chosen))

    def mode_changed(
        self,
        visit: gr.Request | None,
        shown: Live | None,
        model: object,
        mode: object,
        size: object,
    ) -> LiveParts:
        """Each mode has its own sizes: the one to warm up is proposed anew."""
        return self._live_parts(words_of(visit), shown, Chosen(model, mode, size))

    def _live_parts(self, words: Words, shown: Live | None, chosen: Chosen) -> LiveParts:
        now = live(words, self._dispatcher, chosen)
        return LiveParts(
            shown=gr.skip() if now == shown else now,
            now=gr.skip() if shown and shown.now == now.now else now.now,
            strip=gr.skip() if shown and shown.strip == now.strip else now.strip,
            table=gr.skip() if shown and shown.table == now.table else now.table,
            mode=_picked(shown.mode if shown else None, now.mode, chosen.mode),
            size=_picked_size(shown.size if shown else None, now.size, chosen.size),
            cold_size=_picked(shown.cold_size if shown else None, now.cold_size, chosen.cold_size),
            strategy=_picked(shown.strategy if shown else None, now.strategy, None),
        )

    # Jobs

    def generate(self, visit: gr.Request | None, *inputs: object) -> Iterator[Run]:
        """Submit what the form asks for and show how it goes."""
        words = words_of(visit)
        with said_plainly(words, escape=True):
            asked = with_choices_made(self._dispatcher, Form(*inputs))
            job = self._desk.submit(asked, visit)
            yield _begun(job, words("Sent."))._replace(result=view.result_html(words, []))
            yield from self._follow(words, job)

    def resume(self, visit: gr.Request | None, stored: object) -> Iterator[Run]:
        """After a reload: follow the job that this browser had begun, if it still goes on."""
        job = Kept.read(stored).job
        if not self._goes_on(job):
            yield NOTHING
            return
        words = words_of(visit)
        with said_plainly(words, escape=True):
            yield _begun(job, words("Going on."))
            yield from self._follow(words, job)

    def warm_up(
        self, visit: gr.Request | None, model: object, mode: object, size: object
    ) -> Iterator[Run]:
        """Compile one size of one mode, in view. None stands for the model's default."""
        words = words_of(visit)
        with said_plainly(words, escape=True):
            limits = limits_of(self._dispatcher, model)
            wanted = check_size(limits, size)
            job = self._desk.warm_up(limits.model, check_mode(limits, mode), wanted, visit)
            yield _begun(job, words("Asked to compile {size}.", size=wanted))
            yield from self._follow(words, job)

    def _follow(self, words: Words, job: str) -> Iterator[Run]:
        """A job's updates as outputs, to its ending. Raises TpuUiError if it failed."""
        saved: list[ImageSaved] = []
        preview = b""
        warmed: view.Progress | None = None  # a warm-up's last words: what is ready, what it took
        for update in self._dispatcher.updates(job, PROGRESS_S):
            now = view.progress(words, update)
            if isinstance(update, Warmed):
                warmed = replace(now, running=False)
            elif isinstance(update, Finished):
                now = warmed or now
            else:
                warmed = None
            run = NOTHING._replace(progress=view.progress_html(now))
            if isinstance(update, Stepped) and update.preview:
                preview = update.preview
                run = run._replace(preview=preview_html(words, preview, update.image))
            if isinstance(update, ImageSaved):
                run = run._replace(preview=preview_html(words, preview, update.image, done=True))
                preview = b""
                saved.append(update)
                infos = [one.info.to_dict() for one in saved]
                run = run._replace(
                    kept=change(job, [name_of(update.path)]),
                    pictures=_pictures(words, saved),
                    result=view.result_html(words, [one.info for one in saved]),
                    made=infos,
                    past=infos[-1],
                )
            if isinstance(update, Ending) and not isinstance(update, Finished):
                run = run._replace(preview="")
            yield run
            if isinstance(update, Failed):
                raise TpuUiError(update.message)

    def at_rest(self) -> Buttons:
        """The buttons after a job that ended in a way nobody foresaw."""
        return AT_REST

    def over(self, job: str | None) -> Buttons:
        """The buttons when a job is over. They are left alone if there was none to go on with at
        the page's opening, and if another one has begun."""
        if job is None or self._goes_on(job):
            return Buttons(*(gr.skip() for _ in Buttons._fields))
        return AT_REST

    def _goes_on(self, job: str) -> bool:
        try:
            so_far = self._dispatcher.recorded(job)
        except KeyError:
            return False
        return not any(isinstance(one, Ending) for one in so_far)

    def cancel(self, visit: gr.Request | None, job: str | None) -> Changed:
        """Cancel the visitor's own job. Its ending arrives where the job is followed."""
        with said_plainly(words_of(visit), escape=True):
            if job:
                self._dispatcher.cancel(job)
            return gr.update(interactive=False)

    def seed_field(self, random_seed: object) -> Changed:
        """A seed is typed only where it is used."""
        return gr.update(interactive=not random_seed)

    # With a picture that is in view

    def look_at(self, made: list[dict[str, Any]] | None, event: gr.SelectData) -> Changed:
        """What made the picture that is selected among those in view."""
        at = event.index
        return made[at] if made and isinstance(at, int) and at < len(made) else gr.skip()

    def offer(self, info: dict[str, Any] | None) -> tuple[Changed, ...]:
        """What can be done with it: seed, settings, and again in another mode."""
        able = gr.update(interactive=info is not None)
        preset = self._dispatcher.presets.get(str(info.get("model"))) if info else None
        modes = self._dispatcher.limits(preset.name).modes if preset else ()
        again = (
            gr.update(visible=mode in modes and info is not None and info.get("mode") != mode.value)
            for mode in view.MODE_TITLES
        )
        return able, able, able, *again

    def reuse_seed(self, info: dict[str, Any] | None) -> tuple[Changed, ...]:
        """Random seed off, and the picture's seed in its field."""
        return (gr.skip(), gr.skip()) if info is None else (False, info.get("seed"))

    def again_in(self, mode: Mode) -> Callable[..., tuple[Changed, ...]]:
        """A handler that fills the form with the picture's settings, in another mode."""

        def again(
            visit: gr.Request | None,
            info: dict[str, Any] | None,
            visited: Visited | None,
            *values: object,
        ) -> tuple[Changed, ...]:
            """Ends with "go" if nothing is left to compile, so that Generate can follow at once."""
            other = None if info is None else {**info, "mode": mode.value}
            filled_in = self.use_settings(visit, other, visited, *values)
            return *filled_in, "go" if self._is_ready(other, mode) else ""

        return again

    def _is_ready(self, info: dict[str, Any] | None, mode: Mode) -> bool:
        status = self._dispatcher.status()
        if info is None or info.get("model") != status.model:
            return False
        known = {str(size): one.state for size, one in status.sizes.get(mode, {}).items()}
        return known.get(str(info.get("size"))) is ProgramState.READY

    # Settings from a picture

    def read_picture(self, visit: gr.Request | None, path: str | None) -> tuple[Changed, ...]:
        """What made the dropped file: shown, and kept for `use_settings`."""
        off = gr.update(interactive=False)
        words = words_of(visit)
        with said_plainly(words, escape=True):
            if path is None:
                return None, "", off
            try:
                info = settings_in(Path(path))
            except MetadataError as error:
                return None, view.note_html(words.sentence(str(error)), "failed"), off
            return info, view.info_html(words, info), gr.update(interactive=True)

    def use_settings(
        self,
        visit: gr.Request | None,
        info: dict[str, Any] | None,
        visited: Visited | None,
        *values: object,
    ) -> tuple[Changed, ...]:
        """Fill the form with what made the picture, and say what is not to be had here."""
        words = words_of(visit)
        with said_plainly(words, escape=True):
            if info is None:
                raise InvalidRequestError("Drop a picture first.")
            visited = self._at(visited)
            request, lost = restored(words, self._dispatcher, info, visited.model)
            limits = limits_of(self._dispatcher, request.model)
            if lost:
                told = words("Not restored: {what}.", what=", ".join(lost))
                gr.Warning(html.escape(told), title=words("Note"))
            if limits.model != visited.model:
                visited = visited.go_to(limits.model, values)
            prompt, negative_prompt = request.written
            settings = ModelSettings(
                negative_prompt,
                request.steps,
                request.guidance,
                1,
                request.lora or "",
                request.lora_weight,
                list(request.styles),
            )
            size = self._size_from_picture(words, limits, request.mode.value, str(request.size))
            form = (prompt, request.model, request.mode.value, size)
            return visited, *form, *filled(words, limits, settings), False, request.seed

    def vary(
        self,
        visit: gr.Request | None,
        info: dict[str, Any] | None,
        visited: Visited | None,
        *values: object,
    ) -> tuple[Changed, ...]:
        """The same, but for the seed, which is drawn for each run."""
        *others, _, _ = self.use_settings(visit, info, visited, *values)
        return *others, True, None

    def _size_from_picture(self, words: Words, limits: Limits, mode: str, size: str) -> Changed:
        """The size, if it can be chosen now; else the picker is left alone and a line says so."""
        picker = live(words, self._dispatcher, Chosen(limits.model, mode, size)).size
        if picker.value == size:
            return gr.update(cards=picker.cards, value=size)
        told = words("{size} is not ready yet; the size is left as it was.", size=size)
        gr.Warning(told, title=words("Note"))
        return gr.skip()


_ON, _OFF = gr.update(interactive=True), gr.update(interactive=False)
AT_REST = Buttons(_ON, _ON, _ON, _OFF)
AT_WORK = Buttons(_OFF, _OFF, _OFF, _ON)
NOTHING = Run(*(gr.skip() for _ in Run._fields))


def example_rows(dispatcher: Dispatcher, model: str) -> list[list[str]]:
    """A model's example prompts, as rows of one column."""
    return [[prompt] for prompt in dispatcher.presets[model].examples]


def _begun(job: str, text: str) -> Run:
    told = view.progress_html(view.Progress(text))
    sent = NOTHING._replace(job=job, kept=change(job), progress=told, preview="")
    return sent._replace(**AT_WORK._asdict())


def _pictures(words: Words, saved: list[ImageSaved]) -> Changed:
    """The gallery's value, with the newest picture in view."""
    captioned: list[tuple[str, str | None]] = [
        (handed_out(one.path), words("Seed {seed}", seed=one.info.seed)) for one in saved
    ]
    if len(saved) == 1:  # its seed stands in the line below
        captioned = [(captioned[0][0], None)]
    return gr.update(value=captioned, selected_index=len(saved) - 1)


def _picked(shown: Picker | None, now: Picker, chosen: object) -> Changed:
    """A picker's update. The visitor's choice is replaced only when it is not on offer any more."""
    if now == shown:
        return gr.skip()
    update = gr.update(choices=list(now.choices), info=now.note)
    if now.value != chosen:
        update["value"] = now.value
    return update


def _picked_size(shown: Sizes | None, now: Sizes, chosen: object) -> Changed:
    """The same for the size picker."""
    if now == shown:
        return gr.skip()
    return gr.update(cards=now.cards, **({"value": now.value} if now.value != chosen else {}))
