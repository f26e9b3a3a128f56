"""The owner's handlers: lock, strategy, and what her corner of the page tells. Each asks first
whether she is the owner; a visitor's browser may send anything.
"""

from typing import Any, NamedTuple

import gradio as gr

from tpu_ui.dispatch.interface import Dispatcher
from tpu_ui.errors import InvalidRequestError
from tpu_ui.shapes import Strategy, shown
from tpu_ui.ui import report, view
from tpu_ui.ui.desk import Desk
from tpu_ui.ui.door import Door
from tpu_ui.ui.failures import said_plainly
from tpu_ui.ui.language import words_of
from tpu_ui.ui.sign_in import line_html
from tpu_ui.ui.words import ENGLISH

Changed = Any


class Seen(NamedTuple):
    """What of the owner's part is on her page."""

    locked: bool
    facts: str
    log: str


class Owner:
    """Bound to a dispatcher and to who owns it."""

    def __init__(self, dispatcher: Dispatcher, door: Door) -> None:
        self._dispatcher = dispatcher
        self._door = door
        self._check = Desk(dispatcher, door).check_owner

    def open_page(self, request: gr.Request) -> tuple[Changed, ...]:
        """What is the owner's alone: her corner, warm-up beside the sizes, strategy. And who it is
        that looks at the page."""
        owns = self._door.owns(request)
        shown = gr.update(visible=owns)
        who = line_html(words_of(request), self._door, request) if self._door.signs_in else ""
        return shown, shown, gr.update(interactive=owns), who

    def refresh(self, seen: Seen | None, request: gr.Request) -> tuple[Changed, ...]:
        """What has changed of the owner's part since it was `seen`. Others are told nothing."""
        if not self._door.owns(request):
            return tuple(gr.skip() for _ in (seen, *Seen._fields))
        status, known = self._dispatcher.status(), self._dispatcher.report()
        logs = [self._dispatcher.log_lines(worker.index) for worker in known.workers]
        now = Seen(
            status.locked,
            report.facts_html(words_of(request), status, known, self._dispatcher.tally()),
            report.log_html(words_of(request), logs),
        )
        before = seen or (None, None, None)
        return now, *(gr.skip() if a == b else a for a, b in zip(now, before, strict=True))

    def set_locked(self, locked: object, request: gr.Request) -> None:
        """From now on for everybody, page and API."""
        with said_plainly(words_of(request), escape=True):
            self._check(request)
            if not isinstance(locked, bool):
                raise InvalidRequestError(f"Locked is true or false, not {shown(locked)}.")
            self._dispatcher.set_locked(locked)

    def is_locked(self) -> bool:
        """What the checkbox goes back to after a refusal."""
        return self._dispatcher.status().locked

    def set_strategy(self, strategy: object, request: gr.Request) -> None:
        """How the loaded model runs from now on; it is loaded again."""
        with said_plainly(words_of(request), escape=True):
            self._check(request)
            status = self._dispatcher.status()
            known = [value for _, value in view.strategy_choices(ENGLISH, status)]
            if strategy not in known:
                raise InvalidRequestError(f"Strategy is {shown(strategy)}; choose from the list.")
            auto = strategy == view.AUTOMATIC
            self._dispatcher.set_strategy(status.model, None if auto else Strategy(str(strategy)))

    def chosen_strategy(self) -> str:
        """What the picker goes back to after a refusal."""
        return view.chosen_strategy(self._dispatcher.status())
