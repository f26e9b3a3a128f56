"""A model's files in a folder: which ones a component needs, and whether they are there and whole.

Looked at before anything is loaded, so that what is wrong is told by the name of the file. Knows
nothing of the network; `repository` is what brings a folder about.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diffusers
import torch
from safetensors import SafetensorError, safe_open

from tpu_ui.errors import LoadError
from tpu_ui.presets import Preset

INDEX = "model_index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt")
VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "tekken.json")
LFS_POINTER = b"version https://git-lfs"


@dataclass(frozen=True)
class Files:
    """The files of a preset's model, under `folder`.

    `names`: all that its repository has, there or not. Names begin at `folder` and have slashes.
    """

    preset: Preset
    folder: Path
    names: frozenset[str]

    def index(self) -> dict[str, Any]:
        """What model_index.json says. Raises LoadError."""
        return self._json(INDEX)

    def check(self, component: str, kind: type) -> None:
        """Raises LoadError that names a file which `component` needs and which is not right."""
        if not (self.folder / component).is_dir():
            raise self.failure(f"there is no folder {component}")
        if issubclass(kind, torch.nn.Module):
            self._json(f"{component}/config.json")
            for file in self._weights(component, weights_name(kind)):
                self._check_weights(file)
        elif component.startswith("tokenizer") and not any(self._vocabulary(component)):
            raise self.failure(f"{component} has no vocabulary, such as tokenizer.json")

    def failure(self, what: str, remedy: str = "") -> LoadError:
        """The error that says `what` is wrong, and what to do; by default, get the files anew."""
        return failure(self.preset, what, remedy or self._remedy())

    def without_path(self, text: str) -> str:
        """`text` with names of files in place of paths of this machine."""
        return text.replace(f"{self.folder}/", "").replace(str(self.folder), self.preset.repository)

    def _remedy(self) -> str:
        name = self.preset.repository
        if self.preset.is_local:
            return f"Check that {name} beside the preset is complete."
        return (
            f"Run `hf cache rm model/{name}`, and it is downloaded again; `hf cache verify {name}`"
            " tells what is damaged."
        )

    def _missing(self, file: str) -> LoadError:
        if self.preset.is_local or file in self.names:
            return self.failure(f"{file} is missing")
        return self.failure(
            f"{self.preset.repository} has no {file}",
            f"Name another repository or revision in {self.preset.name}.toml.",
        )

    def _json(self, file: str) -> dict[str, Any]:
        self._check_no_pointer(file)
        try:
            read = json.loads((self.folder / file).read_text())
        except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise self.failure(f"{file} cannot be read as JSON") from error
        if not isinstance(read, dict):
            raise self.failure(f"{file} is not a JSON object")
        return read

    def _weights(self, component: str, name: str) -> Iterator[str]:
        """The files that hold the weights, whether they are there or not."""
        listing = f"{component}/{name}.safetensors.index.json"
        whole = f"{component}/{name}.safetensors"
        if (self.folder / listing).is_file():
            shards = self._json(listing).get("weight_map")
            if not isinstance(shards, dict):
                raise self.failure(f"{listing} lists no weights")
            for shard in sorted(set(map(str, shards.values()))):
                if "/" in shard:
                    raise self.failure(f"{listing} names {shard}, which is not beside it")
                yield f"{component}/{shard}"
            return
        if not (self.folder / whole).is_file():
            mine = sorted(one for one in self.names if one.startswith(f"{component}/"))
            for pickle in (one for one in mine if one.endswith(PICKLES)):
                raise self.failure(
                    f"{component} has its weights only in {pickle}, a pickle, which may run any"
                    " code when it is read",
                    f"This app reads safetensors files: {whole} is needed.",
                )
        yield whole

    def _check_weights(self, file: str) -> None:
        self._check_no_pointer(file)
        if (damage := damage_of(self.folder / file)) is not None:
            raise self.failure(f"{file} {damage}")

    def _check_no_pointer(self, file: str) -> None:
        """Raises LoadError also if there is no such file."""
        path = self.folder / file
        if not path.is_file():
            raise self._missing(file)
        if is_pointer(path):
            raise self.failure(
                f"{file} is a pointer of git-lfs in place of the file",
                f"Run `git lfs pull` in {self.preset.repository}.",
            )

    def _vocabulary(self, component: str) -> Iterator[Path]:
        for path in (self.folder / component).iterdir():
            if path.name in VOCABULARIES or path.suffix == ".model":
                yield path


def is_pointer(path: Path) -> bool:
    """Whether git left a pointer where git-lfs would put the file."""
    with path.open("rb") as opened:
        return opened.read(len(LFS_POINTER)) == LFS_POINTER


def damage_of(path: Path) -> str | None:
    """What is wrong with a safetensors file, by its header; None if nothing is."""
    try:
        with safe_open(path, framework="pt"):
            return None
    except (SafetensorError, OSError) as error:
        return f"is cut short or damaged ({error})"


def names_in(folder: Path) -> frozenset[str]:
    """The names of all files under `folder`."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return frozenset(path.relative_to(folder).as_posix() for path in files)


def weights_name(kind: type) -> str:
    """What the library that `kind` is of calls its files of weights."""
    return "diffusion_pytorch_model" if issubclass(kind, diffusers.ModelMixin) else "model"


def patterns(component: str, kind: type) -> list[str]:
    """Which files of a repository `component` needs. It may have them in other formats too."""
    if not issubclass(kind, torch.nn.Module):
        return [f"{component}/*"]
    name = f"{component}/{weights_name(kind)}"
    return [f"{component}/*.json", f"{name}.safetensors", f"{name}-*-of-*.safetensors"]


def failure(preset: Preset, what: str, remedy: str) -> LoadError:
    """Every sentence about a model that cannot be loaded begins in the same way."""
    return LoadError(f"Model {preset.name} cannot be loaded: {what}. {remedy}")
