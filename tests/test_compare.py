"""Claims about comparisons: what is made, in which order, at what cost, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dispatch.driving import make_preset
from tests.test_request import ANYTHING
from tests.ui.test_view import status
from tpu_ui.compare import MAX_CELLS, Axis, Comparison, Line, cost, offered, planned
from tpu_ui.dispatch.interface import SizeStatus, Status, Takes
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.errors import InvalidRequestError, LockedError
from tpu_ui.presets import Preset
from tpu_ui.request import GenerationRequest, Limits
from tpu_ui.shapes import Device, ImageSize, Mode, ProgramState

SMALL, WIDE = ImageSize(64, 64), ImageSize(96, 64)
READY, COLD = SizeStatus(ProgramState.READY), SizeStatus(ProgramState.COLD)
SIZES = {
    Mode.EAGER: {SMALL: READY, WIDE: COLD},
    Mode.FUSED: {SMALL: COLD, WIDE: COLD},
    Mode.COMPILED: {SMALL: READY, WIDE: READY},
}


class Still(LocalDispatcher):
    """Two models, of which "demo" is loaded; no workers. A picture takes a second a step in
    compiled mode, and nobody knows what one takes in another."""

    def __init__(self, folder: Path, locked: bool) -> None:
        self.models = {name: make_preset(folder, name) for name in ("demo", "other")}
        self.models["other"] = self.models["other"].model_copy(
            update={"negative_prompt": False, "guidance": self.models["demo"].guidance}
        )
        self.locked = locked

    @property
    def presets(self) -> dict[str, Preset]:
        return self.models

    def limits(self, model: str) -> Limits:
        if model not in self.models:
            raise InvalidRequestError(f"There is no model {model}.")
        return self.models[model].limits(Device.SOFTWARE_TPU)

    def status(self) -> Status:
        return status(self.locked, model="demo", sizes=SIZES)

    def takes(self, request: GenerationRequest) -> Takes:
        pictures_s = float(request.steps) if request.mode is Mode.COMPILED else None
        if request.model != "demo":
            return Takes(pictures_s, 20.0, None)
        ready = SIZES[request.mode][request.size].state is ProgramState.READY
        return Takes(pictures_s, 0.0, 0.0 if ready else 100.0)


@pytest.fixture
def locked(tmp_path: Path) -> Still:
    return Still(tmp_path, True)


@pytest.fixture
def free(tmp_path: Path) -> Still:
    return Still(tmp_path, False)


def compare(
    dispatcher: Still, *lines: tuple[Axis, tuple[object, ...]], **fields: Any
) -> Comparison:
    return planned(
        dispatcher, {"prompt": "a hill", **fields}, [Line(axis, values) for axis, values in lines]
    )


def test_all_cells_differ_along_the_axes_alone(free: Still) -> None:
    comparison = compare(free, (Axis.STEPS, ("2", 4)), (Axis.GUIDANCE, ("1", "2.5", 4.0)))
    asked = {
        (cell.column, cell.row): (cell.request.steps, cell.request.guidance)
        for cell in comparison.cells
    }
    assert asked == {
        (column, row): (steps, scale)
        for column, steps in enumerate((2, 4))
        for row, scale in enumerate((1.0, 2.5, 4.0))
    }
    assert len({cell.request.seed for cell in comparison.cells}) == 1
    assert {cell.request.prompt for cell in comparison.cells} == {"a hill"}


def test_choices_in_the_prompt_are_drawn_once_for_all_cells(free: Still) -> None:
    fields = {"prompt": "a {red|green|blue|black} hill", "seed": None}
    for _ in range(5):
        cells = compare(free, (Axis.SEED, ("1", "2", "3")), **fields).cells
        assert {cell.request.seed for cell in cells} == {1, 2, 3}
        (prompt,) = {cell.request.prompt for cell in cells}
        assert "{" not in prompt


def test_no_model_is_loaded_twice_and_no_mode_is_left_twice(free: Still) -> None:
    lines = (Axis.MODEL, ("other", "demo")), (Axis.MODE, ("eager", "compiled"))
    order = [(cell.request.model, cell.request.mode) for cell in compare(free, *lines).cells]
    assert order == [
        ("demo", Mode.EAGER),
        ("demo", Mode.COMPILED),
        ("other", Mode.EAGER),
        ("other", Mode.COMPILED),
    ]
    lines = (Axis.STEPS, ("1", "2")), (Axis.SIZE, ("64x64", "96x64"))
    sizes = [cell.request.size for cell in compare(free, *lines).cells]
    assert sizes == [SMALL, SMALL, WIDE, WIDE]


def test_other_models_take_their_own_steps_and_guidance(free: Still) -> None:
    made = compare(free, (Axis.MODEL, ("demo", "other")), steps=9, guidance=7.0).cells
    assert [(one.request.steps, one.request.guidance) for one in made] == [(9, 7.0), (2, 4.0)]
    made = compare(free, (Axis.MODEL, ("demo", "other")), (Axis.STEPS, ("5",)), guidance=7.0).cells
    assert [(one.request.steps, one.request.guidance) for one in made] == [(5, 7.0), (5, 4.0)]


def test_cost_adds_up_what_is_known_and_counts_what_is_not(free: Still) -> None:
    here = cost(free, compare(free, (Axis.STEPS, ("2", "4")), mode="compiled"))
    assert (here.pictures, here.loads, here.compiles) == (2, (), ())
    assert (here.seconds, here.unknown) == (6.0, 0)
    modes = cost(free, compare(free, (Axis.MODE, ("compiled", "fused")), steps=3))
    assert modes.compiles == (("demo", Mode.FUSED, SMALL),)
    assert (modes.seconds, modes.unknown) == (103.0, 1)
    lines = (Axis.MODEL, ("demo", "other")), (Axis.SEED, ("1", "2"))
    models = cost(free, compare(free, *lines, mode="compiled", steps=2))
    assert models.loads == ("other",)
    assert models.compiles == (("other", Mode.COMPILED, SMALL),)
    assert (models.seconds, models.unknown) == (4 * 2 + 20.0, 1)


@pytest.mark.parametrize(
    ("lines", "fields", "words"),
    [
        ([], {}, "one axis"),
        ([(Axis.STEPS, ())], {}, "Choose the values of steps"),
        ([(Axis.STEPS, ("1",)), (Axis.STEPS, ("2",))], {}, "Both axes are steps"),
        ([(Axis.STEPS, ("1",)), (Axis.SEED, ("2",)), (Axis.MODE, ("eager",))], {}, "or two"),
        ([(Axis.STEPS, ("2", 2.0))], {}, "there twice"),
        ([(Axis.STEPS, ("2", "many"))], {}, "'many' is not a number for steps"),
        ([(Axis.STEPS, ("2", "99"))], {}, "With steps 99: Steps must be"),
        ([(Axis.GUIDANCE, ("nan",))], {}, "With guidance nan: Guidance scale"),
        ([(Axis.SEED, tuple(range(MAX_CELLS + 1)))], {}, "17 pictures; at most 16"),
        ([(Axis.STEPS, range(1, 6)), (Axis.SEED, range(4))], {}, "20 pictures"),
        ([(Axis.SIZE, ("64x64", "100x100"))], {}, "With size 100x100: Model demo has no size"),
        ([(Axis.MODE, ("warp",))], {}, "There is no mode 'warp'"),
        ([(Axis.MODEL, ("demo", "none"))], {}, "There is no model none"),
        ([(Axis.MODEL, (3,))], {}, "named by text"),
        ([(Axis.MODEL, ("other",))], {"negative_prompt": "fog"}, "takes no negative prompt"),
        ([(Axis.STEPS, ("2",))], {"prompt": " "}, "The prompt is empty"),
        ([(Axis.STEPS, ("2",))], {"prompt": "{ | }"}, "The prompt is empty"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_the_reason(
    free: Still, lines: list[Any], fields: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        compare(free, *((axis, tuple(values)) for axis, values in lines), **fields)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ((Axis.SIZE, ("64x64", "96x64")), "96x64 is not ready in eager mode"),
        ((Axis.MODE, ("compiled", "fused")), "64x64 is not ready in fused mode"),
        ((Axis.MODEL, ("demo", "other")), "model other is not loaded"),
    ],
)
def test_locked_only_what_is_ready_is_compared(
    locked: Still, line: tuple[Axis, tuple[object, ...]], words: str
) -> None:
    with pytest.raises(LockedError) as caught:
        compare(locked, line, mode="eager")
    assert words in str(caught.value)
    assert len(compare(locked, (Axis.SIZE, ("64x64", "96x64")), mode="compiled").cells) == 2


def test_offer_is_what_can_be_chosen_and_can_be_compared_at_once(
    locked: Still, free: Still
) -> None:
    limits = locked.limits("demo")
    ready = offered(locked, Axis.MODE, limits, Mode.COMPILED)
    assert ready == (Mode.COMPILED, Mode.EAGER)
    assert offered(locked, Axis.SIZE, limits, Mode.EAGER) == ("64x64",)
    assert offered(free, Axis.SIZE, limits, Mode.EAGER) == ("64x64", "96x64")
    assert offered(locked, Axis.MODEL, limits, Mode.EAGER) == ("demo",)
    assert offered(free, Axis.MODEL, limits, Mode.EAGER) == ("demo", "other")
    for axis in (Axis.STEPS, Axis.GUIDANCE, Axis.SEED, Axis.MODE):
        values = offered(locked, axis, limits, Mode.COMPILED)
        assert len(compare(locked, (axis, values)).cells) == len(values) > 1


@given(st.lists(st.tuples(st.sampled_from(Axis), st.lists(ANYTHING, max_size=3)), max_size=3))
def test_whatever_comes_is_valid_cells_or_a_refusal(lines: list[Any]) -> None:
    dispatcher = Still.__new__(Still)
    dispatcher.models, dispatcher.locked = MODELS, False
    try:
        comparison = compare(dispatcher, *((axis, tuple(values)) for axis, values in lines))
    except InvalidRequestError:
        return
    assert all(isinstance(cell.request, GenerationRequest) for cell in comparison.cells)


@pytest.fixture(autouse=True, scope="module")
def _models(tmp_path_factory: pytest.TempPathFactory) -> None:
    MODELS.update(Still(tmp_path_factory.mktemp("models"), False).models)


MODELS: dict[str, Preset] = {}
