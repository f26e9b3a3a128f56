"""The README's tables of models, machines and options say what the code does."""

import subprocess
import sys

import pytest

from tests.launching import ROOT
from tpu_ui import fit, settings
from tpu_ui.presets import Preset, load_all

README = (ROOT / "README.md").read_text("utf-8")
BIG = [preset for preset in load_all().values() if not preset.is_local]


def test_readme_has_the_table_of_what_fits_where() -> None:
    assert f"\n\n{fit.table(load_all().values())}\n" in README


def test_table_is_printed_by_its_module() -> None:
    command = [sys.executable, "-m", "tpu_ui.fit"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == fit.table(load_all().values())


def test_table_names_chip_counts_only_where_they_matter() -> None:
    cells = {
        line.split(" | ")[0].removeprefix("| "): line.removesuffix(" |").split(" | ")[1:]
        for line in fit.table(load_all().values()).splitlines()
    }
    assert cells["model"] == ["v5e, 16 GiB", "v5p, 95 GiB", "v6e, 32 GiB", "v7x, 2 × 96 GiB"]
    assert cells["Stable Diffusion XL"] == ["resident 9.0"] * 4
    assert cells["FLUX.2 [dev]"][0] == "does not fit"
    assert cells["FLUX.1 [dev]"][2] == (
        "1: staged 24.8, text on host<br>4: sharded 12.8<br>8: sharded 10.8"
    )
    assert "demo" not in cells


@pytest.mark.parametrize("preset", BIG, ids=lambda preset: preset.name)
def test_readme_says_where_a_model_is_and_under_which_licence(preset: Preset) -> None:
    link = f"[{preset.repository}](https://huggingface.co/{preset.repository})"
    gated = "yes" if preset.gated else "no"
    assert f"\n| {preset.title} | {link} | {preset.licence} | {gated} | " in README


def test_readme_names_every_option_and_every_field_of_a_preset() -> None:
    options = settings._parser(hosted=False)._actions
    names = {name for action in options for name in action.option_strings} - {"-h", "--help"}
    assert {name for name in names if f"`{name}`" not in README} == {
        "--no-share",
        "--no-log-prompts",
    }
    assert [field for field in Preset.model_fields if f"`{field}`" not in README] == ["folder"]
