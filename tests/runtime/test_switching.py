"""Claims about going from model to model and from mode to mode: no memory stays behind."""

from pathlib import Path

import pytest

from tests.dispatch.driving import alive, ask, ending_of, saved_by
from tests.runtime import twins
from tests.runtime.conftest import READY_S, Start
from tests.runtime.memory import anonymous_bytes
from tpu_ui.presets import Preset, load_all
from tpu_ui.protocol import Finished
from tpu_ui.runtime.start import SHARED_MEMORY, shared_memory_name
from tpu_ui.shapes import Mode

ROUND = (("a", Mode.EAGER), ("a", Mode.COMPILED), ("b", Mode.COMPILED), ("b", Mode.EAGER))
SWITCHES = [*ROUND * 2, *ROUND[:3]]  # the first one only starts
SLACK_BYTES = 16 * 2**20


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Preset]:
    folder, shipped = tmp_path_factory.mktemp("models"), load_all()
    made = {"a": twins.sd3(folder), "b": twins.of(shipped["flux1-schnell"], folder)}
    return [preset.model_copy(update={"name": name}) for name, preset in made.items()]


def test_ten_switches_give_back_the_memory_of_device_and_host(
    start: Start, models: list[Preset], tmp_path: Path
) -> None:
    """The software TPU's memory is the host's: a worker's memory is that of both."""
    cache = tmp_path / "cache"
    dispatcher = start(*models, cache=cache)
    before: set[int] = set()
    app = []
    taken: dict[tuple[str, Mode], list[int]] = {}
    for model, mode in SWITCHES:
        size = dispatcher.limits(model).sizes[0]
        ending = ending_of(dispatcher, dispatcher.warm_up(model, mode, size), READY_S)
        assert isinstance(ending, Finished), ending
        picture = dispatcher.submit(ask(dispatcher, model=model, mode=mode, size=str(size)))
        assert saved_by(dispatcher, picture)[0].info.programs_compiled == 0
        workers = set(dispatcher.worker_pids())
        assert not any(alive(pid) for pid in before - workers), "the old model is still there"
        taken.setdefault((model, mode), []).append(sum(map(anonymous_bytes, workers)))
        assert len(shared_caches(cache)) <= 1
        before = workers
        app.append(anonymous_bytes())
    assert app[-1] < app[len(ROUND)] + SLACK_BYTES, app
    for first, *later in taken.values():  # the first one compiled its programs
        assert max(later) < min(first, later[0] + SLACK_BYTES), taken


def shared_caches(cache: Path) -> list[Path]:
    """What torch_tpu keeps in shared memory for programs of this cache."""
    names = [shared_memory_name(folder) for folder in (cache / "programs").iterdir()]
    return [found for name in names for found in SHARED_MEMORY.glob(f"{name}-*")]
