"""Claims about presets: a wrong file stops the start, and says which field of which file."""

import re
from pathlib import Path

import pytest

from tests.dispatch.driving import TOML, make_preset
from tpu_ui.errors import PresetError
from tpu_ui.presets import load, load_all, unavailable_mode
from tpu_ui.shapes import Device, ImageSize, Mode, Strategy

STAGED_TWICE = '["staged", "resident", "staged"]'
GOOD = TOML.format(name="demo", description="A fake.")


def wrong(folder: Path, old: str, new: str, name: str = "demo.toml") -> str:
    """The message about a preset in which `old` has become `new`."""
    assert old in GOOD
    path = folder / name
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(PresetError) as caught:
        load(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('title = "Model demo"', "", "title"),
        ('title = "Model demo"', "title = 3", "title"),
        ('title = "Model demo"', 'title = "a"\ncolour = "red"', "colour"),
        ('"64x64", "96x64"', '"64x64", "big"', "sizes"),
        ('"64x64", "96x64"', "", "sizes"),
        ('"64x64", "96x64"', "64", "sizes"),
        ("minimum = 1\n", "minimum = 0\n", "steps.minimum"),
        ("maximum = 30", "maximum = 30.0", "steps.maximum"),
        ("maximum = 30", 'maximum = "30"', "steps.maximum"),
        ("default = 2\n", "default = 31\n", "steps"),
        ("default = 4.0", "default = 9.0", "guidance"),
        ("maximum = 8.0", "maximum = 99.0", "guidance.maximum"),
        ('dtype = "float32"', 'dtype = "float8"', "dtype"),
        ('pipeline = "StableDiffusion3Pipeline"', 'pipeline = "os.system"', "pipeline"),
        ("negative_prompt = true", 'negative_prompt = "yes"', "negative_prompt"),
        ("text_tokens = 40", "text_tokens = 0", "text_tokens"),
        ('vae = "vae"', "", "components.vae"),
        ('text_encoders = ["text_encoder"]', "text_encoders = []", "components.text_encoders"),
        ("off = 1.0", 'off = 1.0\nargument = "true cfg"', "guidance.argument"),
        ("text_tokens = 40", "text_tokens = 40\nstrategies = []", "strategies"),
        ("text_tokens = 40", 'text_tokens = 40\nstrategies = ["tiled"]', "strategies"),
        ("text_tokens = 40", f"text_tokens = 40\nstrategies = {STAGED_TWICE}", "strategies"),
        ("text_tokens = 40", "text_tokens = 40\nworking_gib = -0.1", "working_gib"),
        ("text_tokens = 40", "text_tokens = 40\nworking_gib = inf", "working_gib"),
        ('name = "demo"', 'name = "Demo model"', "name"),
        ('title = "Model demo"', 'title = ""', "title"),
        ('title = "Model demo"', 'title = "a"\nrevision = ""', "revision"),
        ('title = "Model demo"', 'title = "a"\nfolder = "/etc"', "folder"),
        ('repository = "./demo"', 'repository = "/tmp/nowhere"', "repository"),
        ('repository = "./demo"', 'repository = "a/b/c/../d e"', "repository"),
        ("off = 1.0", "off = nan", "guidance.off"),
        ("off = 1.0", "off = 99.0", "guidance.off"),
        ("text_tokens = 40", "text_tokens = 40\ntemplate_tokens = 40", "the file"),
        ("[components]", "[call]\nnum_inference_steps = 3\n[components]", "call"),
        ("[components]", "[call]\nguidance_scale = 3\n[components]", "call"),
    ],
)
def test_wrong_field_is_named_with_its_file(tmp_path: Path, old: str, new: str, field: str) -> None:
    message = wrong(tmp_path, old, new)
    assert message.startswith("demo.toml: ")
    assert re.match(rf"demo\.toml: {re.escape(field)}(\.\d+)?: ", message)


def test_unknown_field_is_called_unknown(tmp_path: Path) -> None:
    message = wrong(tmp_path, "[steps]", "[steps]\nmiddle = 3")
    assert message == "demo.toml: steps.middle: there is no such field."


def test_size_given_twice_is_told(tmp_path: Path) -> None:
    assert "names a size twice" in wrong(tmp_path, '"96x64"', '"64x64"')


WEIGHTS = "\n[weights_gib]\ntransformer = 2\ntext_encoder = 0.5\nvae = 0.25\n"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("vae = 0.25", "vae = 0", "weights_gib.vae: "),
        ("vae = 0.25", "vae = nan", "weights_gib.vae: "),
        ("vae = 0.25", 'vae = "0.25"', "weights_gib.vae: "),
        ("vae = 0.25", "", "weights_gib: Value error, vae is missing."),
        ("text_encoder = 0.5", "", "weights_gib: Value error, text_encoder is missing."),
        ("transformer = 2", "", "weights_gib: Value error, transformer is missing."),
        ("vae", "vea", "weights_gib: Value error, vea is not one of the components."),
    ],
)
def test_weights_are_of_all_components_or_of_none(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    (tmp_path / "demo.toml").write_text(GOOD + WEIGHTS.replace(old, new))
    with pytest.raises(PresetError, match=rf"^demo\.toml: {re.escape(problem)}"):
        load(tmp_path / "demo.toml")


SHARED = GOOD.replace("[components]", '[components]\nsharded = ["transformer"]')
WHOLE = f"{WEIGHTS}\n[whole_gib]\ntransformer = 0.5\n"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("[whole_gib]\ntransformer = 0.5", "", "whole_gib: Value error, transformer is missing."),
        ("transformer = 0.5", "transformer = 0", "whole_gib.transformer: "),
        ("transformer = 0.5", "", "whole_gib: Value error, transformer is missing."),
        ("transformer = 0.5", "vae = 0.1", "whole_gib: Value error, vae is not one of "),
    ],
)
def test_what_each_device_holds_whole_is_said_of_all_that_is_sharded(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    path = tmp_path / "demo.toml"
    path.write_text(SHARED + WHOLE)
    assert load(path).whole_gib == {"transformer": 0.5}
    path.write_text(SHARED + WHOLE.replace(old, new))
    with pytest.raises(PresetError, match=rf"^demo\.toml: {re.escape(problem)}"):
        load(path)


LORAS = '\n[[loras]]\nname = "ink"\nfile = "./ink.safetensors"\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (LORAS.replace('"ink"', '"In K"'), "loras.0.name: "),
        (LORAS.replace('file = "./ink.safetensors"', ""), "loras.0.file: "),
        (f"{LORAS}rank = 4\n", "loras.0.rank: there is no such field."),
        (LORAS * 2, "loras: Value error, names a LoRA twice."),
        ("\n[loras]\nname = 1\n", "loras: "),
        (f'{LORAS}weight_name = "x.bin"\n', "loras.0.weight_name: "),
        (f'{LORAS}folder = "/etc"\n', "folder: there is no such field."),
        (LORAS.replace("./ink.safetensors", "/etc/passwd"), "loras.0.file: "),
    ],
)
def test_wrong_lora_is_told(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "demo.toml"
    path.write_text(GOOD + LORAS)
    (ink,) = load(path).loras
    assert ink.source == str(tmp_path / "ink.safetensors")
    path.write_text(GOOD + text)
    with pytest.raises(PresetError, match=rf"^demo\.toml: {re.escape(problem)}"):
        load(path)


def test_weights_are_read_and_are_optional(tmp_path: Path) -> None:
    assert make_preset(tmp_path).weights_gib == {}
    (tmp_path / "demo.toml").write_text(GOOD + WEIGHTS)
    weights = {"transformer": 2.0, "text_encoder": 0.5, "vae": 0.25}
    assert load(tmp_path / "demo.toml").weights_gib == weights


def test_model_stays_on_the_chip_unless_its_preset_says_more(tmp_path: Path) -> None:
    assert make_preset(tmp_path).strategies == (Strategy.RESIDENT,)
    more = 'text_tokens = 40\nstrategies = ["offload", "resident"]'
    (tmp_path / "demo.toml").write_text(GOOD.replace("text_tokens = 40", more))
    preset = load(tmp_path / "demo.toml")
    assert preset.strategies == (Strategy.OFFLOAD, Strategy.RESIDENT)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("rgb = [[1.0, 0.5, 0.0]]\nbias = [0.1, 0.2]", "bias"),
        ("rgb = []", "rgb"),
        ("rgb = [[1.0, nan, 0.0]]", "rgb.0.1"),
        ("colours = 3", "rgb"),
        ("rgb = [[", "not valid TOML"),
        (None, "cannot be read"),
    ],
)
def test_wrong_preview_map_is_told(tmp_path: Path, text: str | None, problem: str) -> None:
    (tmp_path / "previews").mkdir()
    if text is not None:
        (tmp_path / "previews" / "small.toml").write_text(text)
    said = wrong(tmp_path, "text_tokens = 40", 'text_tokens = 40\npreview = "small"')
    assert said.startswith("demo.toml: preview: previews/small.toml")
    assert problem in said


def test_preview_map_lies_beside_the_presets_and_nowhere_else(tmp_path: Path) -> None:
    said = wrong(tmp_path, "text_tokens = 40", 'text_tokens = 40\npreview = "../secret"')
    assert said == "demo.toml: preview: '../secret' is not a name."


def test_every_shipped_preset_has_a_preview() -> None:
    assert {preset.name for preset in load_all().values() if preset.preview is None} == set()


def test_name_that_is_not_the_file_s_is_told(tmp_path: Path) -> None:
    message = wrong(tmp_path, "A fake.", "A fake.", name="other.toml")
    assert message == "other.toml: name: is 'demo'; it must be 'other'."


@pytest.mark.parametrize("data", [b"name = ", b"\xff\xfe", b"[a]\n[a]"])
def test_file_that_is_no_toml_is_told(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "demo.toml").write_bytes(data)
    with pytest.raises(PresetError, match=r"demo\.toml: not valid TOML"):
        load(tmp_path / "demo.toml")


def test_missing_file_and_empty_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(PresetError, match=r"demo\.toml: cannot be read"):
        load(tmp_path / "demo.toml")
    with pytest.raises(PresetError, match="holds no preset"):
        load_all(tmp_path)


def test_one_wrong_file_stops_them_all(tmp_path: Path) -> None:
    make_preset(tmp_path, "good")
    (tmp_path / "wrong.toml").write_text("")
    with pytest.raises(PresetError, match=r"wrong\.toml: "):
        load_all(tmp_path)


def test_shipped_presets_are_right_and_demo_is_among_them() -> None:
    presets = load_all()
    assert "demo" in presets
    assert [name for name, preset in presets.items() if name != preset.name] == []


def test_first_size_is_the_default_and_its_folder_is_beside_the_file(tmp_path: Path) -> None:
    preset = make_preset(tmp_path)
    limits = preset.limits(Device.SOFTWARE_TPU)
    assert limits.default_size == ImageSize(64, 64)
    assert limits.sizes == (ImageSize(64, 64), ImageSize(96, 64))
    assert preset.source == str(tmp_path.resolve() / "demo")
    assert preset.is_local


@pytest.mark.parametrize("device", list(Device))
def test_modes_are_either_on_offer_or_have_a_reason(tmp_path: Path, device: Device) -> None:
    limits = make_preset(tmp_path).limits(device)
    assert {*limits.modes, *(mode for mode, _ in limits.unavailable_modes)} == set(Mode)
    assert all(unavailable_mode(mode, device) is None for mode in limits.modes)
    assert all(reason for _, reason in limits.unavailable_modes)
    assert limits.default_mode in limits.modes


def test_plain_cpu_runs_strict_eager_only(tmp_path: Path) -> None:
    limits = make_preset(tmp_path).limits(Device.CPU)
    assert (limits.modes, limits.default_mode) == ((Mode.EAGER,), Mode.EAGER)


@pytest.mark.parametrize(
    ("line", "states"),
    [("off = 1.0", (True, False)), ("off = 0.5", (True,)), ("off = 8.0", (False,)), ("", (False,))],
)
def test_guidance_states_are_those_the_range_can_give(
    tmp_path: Path, line: str, states: tuple[bool, ...]
) -> None:
    (tmp_path / "demo.toml").write_text(GOOD.replace("off = 1.0", line))
    assert load(tmp_path / "demo.toml").guidance_states() == states
