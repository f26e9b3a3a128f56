"""Claims about a comparison's handlers, without a browser."""

from typing import Any

import gradio as gr
import pytest

from tests.conftest import Served
from tests.ui.test_view import NASTY
from tpu_ui.grid import Grid
from tpu_ui.request import validate
from tpu_ui.ui.comparing import Comparing, Course, Outcome
from tpu_ui.ui.desk import Desk
from tpu_ui.ui.door import usual_door
from tpu_ui.ui.form import Form

FORM = Form("a tree", size="256x256", random_seed=False, seed=7)


def inputs(form: Form = FORM, *, values: object = (1, 2, 3), axis: str = "steps") -> list[Any]:
    fields = [getattr(form, name) for name in Form.__dataclass_fields__]
    return [axis, list(values) if isinstance(values, tuple) else values, "", [], *fields]


def comparing_on(server: Served) -> Comparing:
    return Comparing(server.dispatcher, Desk(server.dispatcher, usual_door(locked_at_start=False)))


def outcomes(server: Served, form: Form = FORM) -> list[Outcome]:
    return list(comparing_on(server).run(None, None, *inputs(form)))


def test_failed_cells_tell_why_and_the_others_have_their_turn(server: Served) -> None:
    before = server.dispatcher.tally().failed
    last = outcomes(server, Form("fake:broken", random_seed=True))[-1]
    assert server.dispatcher.tally().failed == before + 3
    assert last.table.count("Failed: The model made NaN values") == 3
    assert "Done: 0 pictures" in last.progress
    assert "3 failed" in last.progress
    desk = Desk(server.dispatcher, usual_door(locked_at_start=False))
    assert Comparing(server.dispatcher, desk).at_rest().start["interactive"]


def test_cells_are_made_one_after_another(server: Served) -> None:
    lengths: list[int] = []
    for _ in comparing_on(server).run(None, None, *inputs()):
        lengths.append(server.dispatcher.status().queue_length)
    assert max(lengths) <= 1


def test_a_cancel_between_two_cells_ends_the_comparison(server: Served) -> None:
    comparing = comparing_on(server)
    course: Course | None = None
    before = server.dispatcher.tally().images
    for outcome in comparing.run(None, None, *inputs()):
        course = outcome.course if isinstance(outcome.course, Course) else course
        if course is not None and course.cells:
            comparing.stop(course)
    assert course is not None
    assert server.dispatcher.tally().images == before + 1
    assert len(course.cells) < 3


def test_nothing_begins_when_one_cell_is_refused(server: Served) -> None:
    before = server.dispatcher.tally()
    comparing = comparing_on(server)
    for values, axis, words in (
        ((4, 31), "steps", "With steps 31"),
        (("256x256", "320x192"), "size", "320x192 is not ready"),
        (("compiled", "fused"), "mode", "not ready in fused mode"),
        (("demo", "sdxl"), "model", "sdxl"),
        (3, "steps", "must be a list"),
        ((3,), "colour", "There is no axis"),
        ((3,), None, "There is no axis"),
    ):
        with pytest.raises(gr.Error, match=words):
            next(comparing.run(None, None, *inputs(values=values, axis=axis)))
        assert words in comparing.estimate(None, *inputs(values=values, axis=axis))
    assert server.dispatcher.tally() == before


def test_cost_is_told_without_a_prompt_and_known_after_a_picture(server: Served) -> None:
    list(comparing_on(server).run(None, None, *inputs()))
    said = comparing_on(server).estimate(None, *inputs(Form("", size="256x256")))
    assert "3 pictures, about" in said
    assert "Nothing to load or to compile" in said


def test_page_that_waits_for_a_picture_begins_no_comparison(server: Served) -> None:
    comparing = comparing_on(server)
    job = server.dispatcher.submit(comparing._planned(*inputs(Form("fake:slow"))).cells[-1].request)
    try:
        with pytest.raises(gr.Error, match="is being made"):
            next(comparing.run(None, {"job": job}, *inputs()))
    finally:
        server.dispatcher.cancel(job)


def test_words_of_strangers_are_escaped(server: Served) -> None:
    for outcome in outcomes(server, Form(NASTY, random_seed=True)):
        assert "<script" not in f"{outcome.table} {outcome.progress}"


def test_grid_has_a_cell_for_every_picture(server: Served) -> None:
    grid = outcomes(server)[-1].grid
    assert isinstance(grid, Grid)
    assert grid.columns == ("1 step", "2 steps", "3 steps")
    infos = [cell.info for cell in grid.cells if cell.info]
    assert [info["steps"] for info in infos] == [1, 2, 3]
    assert {info["seed"] for info in infos} == {7}


def test_request_for_another_model_takes_its_loading_and_its_programs(server: Served) -> None:
    dispatcher = server.dispatcher
    here, there = (
        dispatcher.takes(validate(dispatcher.limits(model), prompt="a tree"))
        for model in ("demo", "sdxl")
    )
    assert (here.model_s, here.programs_s) == (0.0, 0.0)
    assert (there.pictures_s, there.model_s, there.programs_s) == (None, None, None)
