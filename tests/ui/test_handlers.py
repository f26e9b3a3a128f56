"""What the page's handlers refuse, whoever calls them: a browser may send anything."""

import gradio as gr
import pytest

from tests.conftest import Served
from tests.ui.test_view import status
from tpu_ui.dispatch.interface import Status
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.shapes import Strategy
from tpu_ui.ui.handlers import Handlers


class Chooser(LocalDispatcher):
    """An unlocked dispatcher without workers, which remembers what was chosen."""

    def __init__(self) -> None:
        self.chosen: list[tuple[str, Strategy | None]] = []

    def status(self) -> Status:
        return status(locked=False)

    def set_strategy(self, model: str, strategy: Strategy | None) -> None:
        self.chosen.append((model, strategy))


def test_strategy_of_a_locked_app_is_refused_with_what_to_do(server: Served) -> None:
    before = server.dispatcher.status()
    with pytest.raises(gr.Error, match="locked; start the app with --strategy instead"):
        Handlers(server.dispatcher).set_strategy("offload")
    assert server.dispatcher.status() == before


def test_strategy_is_chosen_for_the_loaded_model() -> None:
    dispatcher = Chooser()
    for strategy in ("staged", "auto"):
        Handlers(dispatcher).set_strategy(strategy)
    assert dispatcher.chosen == [("demo", Strategy.STAGED), ("demo", None)]


@pytest.mark.parametrize("strategy", ["sharded", "tiled", None, ["staged"], 3])
def test_strategy_that_is_not_on_the_list_is_refused(strategy: object) -> None:
    dispatcher = Chooser()
    with pytest.raises(gr.Error, match="choose from the list"):
        Handlers(dispatcher).set_strategy(strategy)
    assert dispatcher.chosen == []
