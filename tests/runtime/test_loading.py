"""Claims about where a model comes from: what is wrong with its files, the hub, the network or the
disk is told in a sentence with the remedy, and the app stays up on the model it had."""

import errno
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import diffusers
import pytest
import torch
import transformers
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from tests.dispatch.driving import ask, ending_of, saved_by, wait_for
from tests.runtime import hub as hubs
from tests.runtime.conftest import READY_S, Start
from tests.runtime.hub import COMMIT, TOKEN, Hub
from tests.runtime.twins.large import small_and_large
from tpu_ui.errors import LoadError
from tpu_ui.presets import LoraTable, Preset
from tpu_ui.protocol import Failed
from tpu_ui.runtime import checkpoint, placement, repository
from tpu_ui.runtime.device import OpenDevice, open_device
from tpu_ui.runtime.loading import Course
from tpu_ui.shapes import Mode, ProgramState
from tpu_ui.strategy import RESIDENT

NOBODY = "http://127.0.0.1:9"  # the port of "discard", where nobody listens
DENOISER = "transformer/diffusion_pytorch_model.safetensors"
ENCODER = "text_encoder/model.safetensors"
LOADED_S = 60.0

Spoil = Callable[[Path], None]


@pytest.fixture(scope="module")
def cpu() -> OpenDevice:
    return open_device("cpu")


@pytest.fixture(scope="module")
def sharded(tiny_sd3: Preset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The twin with its denoiser and an encoder in several files each."""
    folder = tmp_path_factory.mktemp("sharded") / "tiny-sd3"
    shutil.copytree(tiny_sd3.source, folder)
    kinds = {
        "transformer": (diffusers.SD3Transformer2DModel, "60KB"),
        "text_encoder": (transformers.CLIPTextModelWithProjection, "30KB"),
    }
    for name, (kind, size) in kinds.items():
        component = kind.from_pretrained(folder / name)
        shutil.rmtree(folder / name)
        component.save_pretrained(folder / name, max_shard_size=size)
    return folder


@pytest.fixture
def hub(tiny_sd3: Preset) -> Iterator[Hub]:
    with hubs.serving() as served:
        served.repositories["org/tiny"] = Path(tiny_sd3.source)
        yield served


@pytest.fixture
def cache(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process's Hugging Face cache, empty, and filled from the stand-in."""
    folder = tmp_path / "home" / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    ask_at(hub.url, monkeypatch)
    return folder


def ask_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


def from_hub(twin: Preset, repository: str = "org/tiny", revision: str | None = None) -> Preset:
    return twin.model_copy(update={"repository": repository, "revision": revision})


def loaded(preset: Preset, device: OpenDevice) -> list[str]:
    """The components, in the order in which they came into place."""
    return [one.component for one in placement.load_pipeline(preset, device, RESIDENT)]


def told(preset: Preset, device: OpenDevice) -> str:
    """Why the preset cannot be loaded."""
    with pytest.raises(LoadError) as error:
        loaded(preset, device)
    return str(error.value)


# From a folder


def cut(name: str) -> Spoil:
    def spoil(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return spoil


def written(name: str, content: bytes) -> Spoil:
    return lambda folder: (folder / name).write_bytes(content) and None


def gone(name: str) -> Spoil:
    return lambda folder: next(folder.glob(name)).unlink()


def no_folder(name: str) -> Spoil:
    return lambda folder: shutil.rmtree(folder / name)


def renamed(name: str, other: str) -> Spoil:
    return lambda folder: (folder / name).rename((folder / name).with_name(other)) and None


def configured(name: str, **changes: int) -> Spoil:
    def spoil(folder: Path) -> None:
        path = folder / name / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return spoil


def without_weights(name: str, beginning: str) -> Spoil:
    def spoil(folder: Path) -> None:
        weights = load_file(folder / name)
        left = {key: one for key, one in weights.items() if not key.startswith(beginning)}
        save_file(left, folder / name, {"format": "pt"})

    return spoil


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n"
FLAWS: dict[str, tuple[Spoil, str, str]] = {
    "denoiser cut": (cut(DENOISER), f"{DENOISER} is cut short or damaged", "complete"),
    "encoder cut": (cut(ENCODER), f"{ENCODER} is cut short or damaged", "complete"),
    "denoiser noise": (written(DENOISER, b"\xff" * 999), f"{DENOISER} is cut short", "complete"),
    "encoder noise": (written(ENCODER, b"\xff" * 999), f"{ENCODER} is cut short", "complete"),
    "pointer": (written(ENCODER, POINTER), f"{ENCODER} is a pointer of git-lfs", "git lfs pull"),
    "file gone": (gone(DENOISER), f"{DENOISER} is missing", "complete"),
    "folder gone": (no_folder("vae"), "there is no folder vae", "complete"),
    "config gone": (gone("vae/config.json"), "vae/config.json is missing", "complete"),
    "config": (written("vae/config.json", b"{"), "vae/config.json cannot be read", "complete"),
    "index": (written("model_index.json", b"{"), "model_index.json cannot be read", "complete"),
    "vocabulary": (gone("tokenizer/tokenizer.json"), "tokenizer has no vocabulary", "complete"),
    "pickle": (
        renamed(ENCODER, "pytorch_model.bin"),
        "text_encoder/pytorch_model.bin, a pickle",
        f"{ENCODER} is needed",
    ),
    "denoiser shape": (
        configured("transformer", caption_projection_dim=64),
        "context_embedder.bias of transformer has the shape [64], and in its file it is [32]",
        "do not belong together",
    ),
    "encoder shape": (
        configured("text_encoder", intermediate_size=8),
        "mlp.fc1.bias of text_encoder has the shape [8], and in its file it is [64]",
        "do not belong together",
    ),
    "denoiser lacks": (
        without_weights(DENOISER, "transformer_blocks.0.attn.to_q"),
        "transformer lack transformer_blocks.0.attn.to_q.bias, transformer_blocks.0.attn.to_q.wei",
        "do not belong together",
    ),
    "denoiser of fewer blocks": (
        configured("transformer", num_layers=0),
        "the files of transformer hold transformer_blocks.0.",
        "do not belong together",
    ),
    "encoder of fewer blocks": (
        configured("text_encoder", num_hidden_layers=1),
        "the files of text_encoder hold text_model.encoder.layers.1.",
        "do not belong together",
    ),
    "index is a list": (written("model_index.json", b"[]"), "is not a JSON object", "complete"),
    "config is a pointer": (
        written("vae/config.json", POINTER),
        "vae/config.json is a pointer of git-lfs",
        "git lfs pull",
    ),
    "shard elsewhere": (
        written(
            "vae/diffusion_pytorch_model.safetensors.index.json",
            b'{"weight_map": {"a": "../../other.safetensors"}}',
        ),
        "names ../../other.safetensors, which is not beside it",
        "complete",
    ),
    "encoder lacks": (
        configured("text_encoder", num_hidden_layers=4),
        "text_encoder lack text_model.encoder.layers.3.layer_norm1.bias",
        "and 13 more",
    ),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_flaw_of_a_folder_is_told_with_the_file_and_the_remedy(
    flaw: str, tiny_sd3: Preset, tmp_path: Path, cpu: OpenDevice
) -> None:
    spoil, what, remedy = FLAWS[flaw]
    shutil.copytree(tiny_sd3.source, tmp_path / "tiny-sd3")
    spoil(tmp_path / "tiny-sd3")
    message = told(tiny_sd3.model_copy(update={"folder": tmp_path}), cpu)
    assert message.startswith("Model tiny-sd3 cannot be loaded: ")
    assert what in message
    assert remedy in message
    assert str(tmp_path) not in message
    assert "\n" not in message


def test_code_that_lies_beside_the_weights_is_never_run(
    tiny_sd3: Preset, tmp_path: Path, cpu: OpenDevice
) -> None:
    folder, ran = tmp_path / "tiny-sd3", tmp_path / "it ran"
    shutil.copytree(tiny_sd3.source, folder)
    theirs = dict.fromkeys(("AutoModel", "AutoTokenizer", "AutoConfig"), "theirs.Theirs")
    for config in [*folder.rglob("*config.json"), folder / "model_index.json"]:
        told = json.loads(config.read_text())
        config.write_text(json.dumps({**told, "auto_map": theirs, "custom_pipeline": "theirs"}))
        code = f"open({str(ran)!r}, 'w')\nclass Theirs: pass\n"
        (config.parent / "theirs.py").write_text(code)
        (config.parent / "pipeline.py").write_text(code)
    assert len(loaded(tiny_sd3.model_copy(update={"folder": tmp_path}), cpu)) == 7
    assert not ran.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"call": {"nonsense": 3}}, "has no nonsense. Correct call.nonsense in tiny-sd3.toml"),
        ({"on_host": ("no_such",)}, "has no no_such. Correct on_host in tiny-sd3.toml"),
        ({"pipeline": "FluxPipeline"}, "FluxPipeline has no text_encoder_3, and the model has"),
    ],
)
def test_field_that_the_pipeline_does_not_know_is_named(
    change: dict[str, object], words: str, tiny_sd3: Preset, cpu: OpenDevice
) -> None:
    assert words in told(tiny_sd3.model_copy(update=change), cpu)


def test_argument_of_guidance_that_the_pipeline_does_not_know_is_named(
    tiny_sd3: Preset, cpu: OpenDevice
) -> None:
    guidance = tiny_sd3.guidance.model_copy(update={"argument": "no_such_scale"})
    message = told(tiny_sd3.model_copy(update={"guidance": guidance}), cpu)
    assert "StableDiffusion3Pipeline has no no_such_scale. Correct guidance.argument" in message


LORAS: dict[str, tuple[bytes | None, str, str]] = {
    "one.safetensors": (None, "there is no such file beside the preset", "Correct file"),
    "pickle.bin": (b"x", "only safetensors files are read", "Convert it"),
    "cut.safetensors": (b"\xff" * 99, "cut.safetensors is cut short or damaged", "anew"),
    "pointer.safetensors": (POINTER, "it is a pointer of git-lfs", "git lfs pull"),
    "folder/pytorch_lora_weights.bin": (b"x", "the folder holds pytorch_lora", "one safetensors"),
}


@pytest.mark.parametrize("file", LORAS)
def test_flaw_of_a_lora_file_is_told_with_the_remedy(
    file: str, tiny_sd3: Preset, tmp_path: Path, cpu: OpenDevice
) -> None:
    content, what, remedy = LORAS[file]
    (tmp_path / file).parent.mkdir(exist_ok=True)
    if content is not None:
        (tmp_path / file).write_bytes(content)
    named = file.partition("/")[0]
    lora = LoraTable(name="x", file=f"./{named}", folder=tmp_path)
    message = told(tiny_sd3.model_copy(update={"loras": (lora,)}), cpu)
    assert message.startswith(f"LoRA x (./{named}) cannot be used: ")
    assert what in message
    assert remedy in message
    assert str(tmp_path) not in message


@pytest.mark.parametrize("name", ["transformer", "text_encoder"])
def test_missing_shard_is_named(
    name: str, sharded: Path, tiny_sd3: Preset, tmp_path: Path, cpu: OpenDevice
) -> None:
    shutil.copytree(sharded, tmp_path / "tiny-sd3")
    preset = tiny_sd3.model_copy(update={"folder": tmp_path})
    assert len(loaded(preset, cpu)) == 7
    gone(f"{name}/*-00002-of-*")(tmp_path / "tiny-sd3")
    assert f"{name}/" in (message := told(preset, cpu))
    assert "-00002-of-" in message
    assert "is missing. Check that ./tiny-sd3 beside the preset is complete." in message


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_weights_that_no_file_has_are_told_wherever_they_go(
    device: str, tiny_sd3: Preset, tmp_path: Path
) -> None:
    """With a device to go to, diffusers itself stumbles over them, and says less."""
    from tpu_ui.runtime import weights

    shutil.copytree(tiny_sd3.source, tmp_path / "tiny-sd3")
    without_weights(DENOISER, "proj_out")(tmp_path / "tiny-sd3")
    files = checkpoint.Files(tiny_sd3, tmp_path / "tiny-sd3", frozenset())
    there = {"device_map": {"": torch.device("cpu")}} if device == "meta" else {}
    with pytest.raises(LoadError, match="the files of transformer lack"):
        weights.read(files, "transformer", diffusers.SD3Transformer2DModel, there)


@pytest.mark.parametrize("device", ["cpu", "software-tpu"])
def test_weights_are_never_twice_in_memory(device: str, tmp_path: Path) -> None:
    """The files are in float32 and the model in bfloat16, so each weight is converted too."""
    files = small_and_large(tmp_path)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.runtime.load_watched", device, *map(str, files)],
        env={
            **os.environ,
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            "MALLOC_MMAP_THRESHOLD_": "65536",  # what is freed goes back at once
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    watched = json.loads(ran.stdout)
    assert watched["devices"] == ["cpu" if device == "cpu" else "tpu"]
    assert watched["dtypes"] == ["torch.bfloat16"]
    assert 0.9 * watched["all"] < watched["peak"] < watched["all"] + watched["largest"]


# From the hub


def test_repository_is_downloaded_once_and_then_needs_no_network(
    hub: Hub, cache: Path, tiny_sd3: Preset, cpu: OpenDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = Path(tiny_sd3.source, "transformer", "notes.bin")
    notes.write_bytes(b"nobody needs this")
    for revision in (None, COMMIT):
        assert len(loaded(from_hub(tiny_sd3, revision=revision), cpu)) == 7
        assert DENOISER in hub.asked
        assert "transformer/notes.bin" not in hub.asked
        ask_at(NOBODY, monkeypatch)
        hub.asked.clear()
        began_s = time.monotonic()
        assert len(loaded(from_hub(tiny_sd3, revision=revision), cpu)) == 7
        assert time.monotonic() - began_s < 5
        ask_at(hub.url, monkeypatch)
        shutil.rmtree(cache)
    notes.unlink()


def test_cache_of_an_older_library_does_without_a_network_too(
    cache: Path, tiny_sd3: Preset, cpu: OpenDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(from_hub(tiny_sd3, revision=COMMIT), cpu)
    for listing in cache.rglob("trees"):
        shutil.rmtree(listing)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert len(loaded(from_hub(tiny_sd3, revision=COMMIT), cpu)) == 7


@pytest.mark.parametrize("revision", [None, COMMIT])
def test_hub_that_cannot_be_reached_is_told_at_once(
    revision: str | None,
    cache: Path,
    tiny_sd3: Preset,
    cpu: OpenDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    preset = from_hub(tiny_sd3, revision=revision)
    ask_at(NOBODY, monkeypatch)
    began_s = time.monotonic()
    assert "hub cannot be reached, and org/tiny has not been downloaded" in told(preset, cpu)
    assert time.monotonic() - began_s < 5
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE is set" in (message := told(preset, cpu))
    assert "Unset it" in message


def test_half_a_download_is_not_taken_for_a_model(
    hub: Hub, cache: Path, tiny_sd3: Preset, cpu: OpenDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    preset = from_hub(tiny_sd3)
    loaded(preset, cpu)
    next(cache.rglob("snapshots/*/vae/*.safetensors")).unlink()
    ask_at(NOBODY, monkeypatch)
    assert "has not been downloaded completely" in told(preset, cpu)
    ask_at(hub.url, monkeypatch)
    assert len(loaded(preset, cpu)) == 7


@pytest.mark.parametrize(
    ("repository", "revision", "token", "what", "remedy"),
    [
        ("org/gated", None, "", "accepted its licence", "Accept it at {url}/org/gated, and set HF"),
        ("org/gated", None, "hf_other", "may not read org/gated", "with that account"),
        ("org/none", None, "", "has no repository org/none", "Correct repository in tiny-sd3.toml"),
        ("org/tiny", "v9", "", "org/tiny has no revision v9", "Correct revision in tiny-sd3.toml"),
        ("org/pickled", None, "", "vae/diffusion_pytorch_model.bin, a pickle", "is needed"),
        ("org/torn", None, "", "has no text_encoder/model-00002-of-", "Name another repository"),
        ("org/cut", None, "", f"{DENOISER} is cut short", "hf cache rm model/org/cut"),
        ("org/bare", None, "", "org/bare has no model_index.json", "Name another repository"),
    ],
)
def test_refusal_of_the_hub_is_told_with_the_remedy(
    repository: str,
    revision: str | None,
    token: str,
    what: str,
    remedy: str,
    hub: Hub,
    cache: Path,
    sharded: Path,
    tiny_sd3: Preset,
    cpu: OpenDevice,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spoilt: dict[str, tuple[Path, Spoil]] = {
        "org/gated": (sharded, lambda folder: None),
        "org/pickled": (
            Path(tiny_sd3.source),
            renamed("vae/diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.bin"),
        ),
        "org/torn": (sharded, gone("text_encoder/*-00002-of-*")),
        "org/cut": (Path(tiny_sd3.source), cut(DENOISER)),
        "org/bare": (Path(tiny_sd3.source), gone("model_index.json")),
    }
    if repository in spoilt:
        source, spoil = spoilt[repository]
        shutil.copytree(source, tmp_path / "served")
        spoil(tmp_path / "served")
        hub.repositories[repository] = tmp_path / "served"
    hub.gated.add("org/gated")
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    message = told(from_hub(tiny_sd3, repository, revision), cpu)
    assert what in message
    assert remedy.format(url=hub.url) in message
    assert str(tmp_path) not in message
    if repository == "org/gated":
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        assert len(loaded(from_hub(tiny_sd3, repository), cpu)) == 7


def test_hub_that_is_out_of_order_is_told(
    hub: Hub, cache: Path, tiny_sd3: Preset, cpu: OpenDevice
) -> None:
    hub.status = 501
    assert "the hub answered 501 for org/tiny. Try again" in told(from_hub(tiny_sd3), cpu)


def test_download_that_does_not_fit_the_disk_is_refused_before_it_begins(
    hub: Hub, cache: Path, tiny_sd3: Preset, cpu: OpenDevice
) -> None:
    hub.huge[DENOISER] = 10**15
    message = told(from_hub(tiny_sd3), cpu)
    assert "1000000.0 GB are to be downloaded" in message
    assert "free there. Make room, or set HF_HOME to a folder on a larger disk." in message
    assert DENOISER not in hub.asked


def test_disk_that_fills_up_during_a_download_is_told(
    cache: Path, tiny_sd3: Preset, cpu: OpenDevice
) -> None:
    """A limit to the size of files stops a write as a full disk does, with another number."""
    assert {errno.ENOSPC, errno.EFBIG} <= set(repository.NO_ROOM)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        message = told(from_hub(tiny_sd3), cpu)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "is full. Make room, or set HF_HOME" in message
    assert len(loaded(from_hub(tiny_sd3), cpu)) == 7


def test_download_tells_its_bytes(hub: Hub, cache: Path, tiny_sd3: Preset, cpu: OpenDevice) -> None:
    course = Course(None)
    reached = []
    begins = course.downloads

    def downloads(folder: Path, total_bytes: int) -> None:
        begins(folder, total_bytes)
        reached.append(course.reached())

    course.downloads = downloads  # type: ignore[method-assign]
    for _ in placement.load_pipeline(from_hub(tiny_sd3), cpu, RESIDENT, course=course):
        reached.append(course.reached())
    assert [one.component for one in reached[:2]] == ["", ""]
    assert [one.index for one in reached[2:]] == list(range(1, 8))
    downloaded_bytes = sum(path.stat().st_size for path in cache.rglob("blobs/*"))
    assert reached[1].total_bytes == pytest.approx(downloaded_bytes, rel=0.01)


# In the app


def test_model_from_the_hub_is_downloaded_in_view_and_makes_a_picture(
    hub: Hub, start: Start, tiny_sd3: Preset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    hub.held.add(DENOISER)
    dispatcher = start(from_hub(tiny_sd3), device="cpu")
    status = wait_for(dispatcher, lambda now: now.detail.startswith("Downloading"), LOADED_S)
    assert re.fullmatch(
        r"Downloading Tiny Stable Diffusion 3: \d+ MB of \d+ MB\.", status.detail
    ), status.detail
    hub.go_on.set()
    picture = dispatcher.submit(ask(dispatcher, model="tiny-sd3"))
    assert len(saved_by(dispatcher, picture)) == 1


def test_app_stays_on_its_model_when_the_hub_refuses_another(
    hub: Hub, start: Start, tiny_sd3: Preset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    hub.repositories["org/gated"] = Path(tiny_sd3.source)
    hub.gated.add("org/gated")
    gated = from_hub(tiny_sd3, "org/gated").model_copy(update={"name": "gated"})
    cache = tmp_path / "cache"
    dispatcher = start(tiny_sd3, gated, device="cpu", warm="default", cache=cache)
    size = tiny_sd3.image_sizes[0]

    def ready(now: object) -> bool:
        sizes = dispatcher.status().sizes
        return sizes[Mode.EAGER][size].state is ProgramState.READY

    wait_for(dispatcher, ready, READY_S)
    ending = ending_of(dispatcher, dispatcher.warm_up("gated", Mode.EAGER, size), READY_S)
    assert isinstance(ending, Failed)
    assert "org/gated is only for those who have accepted its licence" in ending.message
    assert "Traceback" not in ending.message
    wait_for(dispatcher, ready, READY_S)
    assert dispatcher.status().model == "tiny-sd3"
    logs = "".join(path.read_text() for path in (cache / "logs").iterdir())
    assert "GatedRepoError" in logs
    assert "Traceback" in logs
    assert len(saved_by(dispatcher, dispatcher.submit(ask(dispatcher, model="tiny-sd3")))) == 1
