"""Claims about the remembered costs: a convenience that never stands in the way."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tpu_ui.dispatch.costs import FILE_NAME, Cost, Costs, RunsOn
from tpu_ui.dispatch.jobs import Target
from tpu_ui.shapes import Device, ImageSize, Mode, Strategy

TARGET = Target("demo", Mode.COMPILED, ImageSize(256, 256))
V5E = RunsOn(Device.TPU, "v5e", Strategy.RESIDENT)


def test_costs_are_kept_for_the_next_start(tmp_path: Path) -> None:
    Costs(tmp_path / "new").remember(TARGET, V5E, Cost(61.5, 12))
    assert Costs(tmp_path / "new").get(TARGET, V5E) == Cost(61.5, 12)
    assert [path.name for path in (tmp_path / "new").iterdir()] == [FILE_NAME]


def test_another_size_mode_chip_or_strategy_costs_something_else(tmp_path: Path) -> None:
    costs = Costs(tmp_path)
    costs.remember(TARGET, V5E, Cost(61.5, 12))
    assert costs.get(TARGET, replace(V5E, chip="v6e")) is None
    assert costs.get(TARGET, replace(V5E, device=Device.SOFTWARE_TPU)) is None
    assert costs.get(TARGET, replace(V5E, strategy=Strategy.OFFLOAD)) is None
    assert costs.get(Target("demo", Mode.EAGER, TARGET.size), V5E) is None
    assert costs.get(Target("demo", TARGET.mode, ImageSize(256, 320)), V5E) is None


@pytest.mark.parametrize("text", ["", "[1]", '{"a": {"seconds": "x"}}', '{"a": 1}', "\x00", "{}}"])
def test_damaged_file_costs_a_warning_and_is_replaced(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    costs = Costs(tmp_path)
    assert costs.get(TARGET, V5E) is None
    assert "left out" in caplog.text
    costs.remember(TARGET, V5E, Cost(1.0, 2))
    assert len(json.loads((tmp_path / FILE_NAME).read_text())) == 1


def test_folder_that_cannot_be_written_costs_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    costs = Costs(tmp_path / "cache")
    costs.remember(TARGET, V5E, Cost(1.0, 2))
    assert "cannot be kept" in caplog.text
    assert costs.get(TARGET, V5E) == Cost(1.0, 2)
