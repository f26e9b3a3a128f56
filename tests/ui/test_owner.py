"""What only the owner may do, whoever calls: a browser may send anything."""

from typing import Any

import gradio as gr
import pytest

from tests.ui.test_view import a_report, status
from tpu_ui.dispatch.interface import Report, Status, Tally
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.passwords import known_logins
from tpu_ui.shapes import Strategy
from tpu_ui.ui.door import Door, door_of
from tpu_ui.ui.owner import Owner

LOGIN = ("me", "a-long-password")
OPEN = door_of(locked_at_start=False)
SHARED = door_of(locked_at_start=True)
WITH_LOGIN = door_of(owner="me", logins=known_logins(LOGIN, None), closed=True)


class Chooser(LocalDispatcher):
    """A dispatcher without workers, which remembers what was chosen."""

    def __init__(self) -> None:
        self.chosen: list[Any] = []

    def status(self) -> Status:
        return status()

    def report(self) -> Report:
        return a_report()

    def tally(self) -> Tally:
        return Tally()

    def log_lines(self, worker: int) -> list[str]:
        return ["a secret line"]

    def set_strategy(self, model: str, strategy: Strategy | None) -> None:
        self.chosen.append((model, strategy))

    def set_locked(self, locked: bool) -> None:
        self.chosen.append(locked)


def seen_as(user: str | None) -> gr.Request:
    return gr.Request(username=user, headers={"host": "localhost"})


@pytest.mark.parametrize(
    ("door", "user", "owns"),
    [
        (OPEN, None, True),
        (SHARED, None, False),
        (WITH_LOGIN, None, False),
        (WITH_LOGIN, "somebody", False),
        (WITH_LOGIN, "me", True),
    ],
)
def test_only_the_owner_locks_chooses_the_strategy_and_reads_the_log(
    door: Door, user: str | None, owns: bool
) -> None:
    dispatcher = Chooser()
    owner, request = Owner(dispatcher, door), seen_as(user)
    for act in (
        lambda: owner.set_locked(False, request),
        lambda: owner.set_strategy("auto", request),
    ):
        if owns:
            act()
        else:
            with pytest.raises(gr.Error, match="Only the owner can do this"):
                act()
    assert dispatcher.chosen == ([False, ("demo", None)] if owns else [])
    assert ("a secret line" in str(owner.refresh(None, request))) is owns
    whole, warm_up, strategy, _ = owner.open_page(request)
    assert whole["visible"] is warm_up["visible"] is strategy["interactive"] is owns


def test_what_has_not_changed_is_not_sent_again() -> None:
    owner, request = Owner(Chooser(), OPEN), seen_as(None)
    seen, *first = owner.refresh(None, request)
    assert first == list(seen)
    assert owner.refresh(seen, request)[1:] == (gr.skip(),) * 3


def test_strategy_is_chosen_for_the_loaded_model() -> None:
    dispatcher = Chooser()
    for strategy in ("staged", "auto"):
        Owner(dispatcher, OPEN).set_strategy(strategy, seen_as(None))
    assert dispatcher.chosen == [("demo", Strategy.STAGED), ("demo", None)]


@pytest.mark.parametrize("strategy", ["sharded", "tiled", None, ["staged"], 3])
def test_strategy_that_is_not_on_the_list_is_refused(strategy: object) -> None:
    dispatcher = Chooser()
    with pytest.raises(gr.Error, match="choose from the list"):
        Owner(dispatcher, OPEN).set_strategy(strategy, seen_as(None))
    assert dispatcher.chosen == []


@pytest.mark.parametrize("locked", ["yes", 1, None])
def test_a_lock_that_is_neither_on_nor_off_is_refused(locked: object) -> None:
    dispatcher = Chooser()
    with pytest.raises(gr.Error, match="true or false"):
        Owner(dispatcher, OPEN).set_locked(locked, seen_as(None))
    assert dispatcher.chosen == []
