"""The pictures of one browser: kept by name in its storage, so that a reload or another day finds
them.

A picture's name holds its job's id, which nobody can guess: whoever knows the name may have the
file, and nobody else. What a browser sends is not trusted; it may name pictures and nothing else.
"""

import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import gradio as gr
from gradio.processing_utils import save_file_to_cache
from gradio.utils import get_upload_folder
from PIL import Image

from tpu_ui.dispatch.interface import Dispatcher, ImageSaved
from tpu_ui.errors import InvalidRequestError, MetadataError
from tpu_ui.metadata import read_png
from tpu_ui.ui import view
from tpu_ui.ui.api import file_data, file_url
from tpu_ui.ui.failures import said_plainly
from tpu_ui.ui.files import handed_out

Changed = Any

KEPT_PICTURES = 60
THUMBNAIL_PX = 192
NAME = re.compile(r"\d{4}-\d\d-\d\d/[0-9a-f]{32}-\d{1,4}-\d{1,10}\.png", re.ASCII)
JOB = re.compile(r"[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Kept:
    """What a browser keeps. `job`: what it waits for, or waited for last. Newest picture first."""

    job: str = ""
    pictures: tuple[str, ...] = ()

    @classmethod
    def read(cls, stored: object) -> "Kept":
        """From a browser; what is not ours is left out."""
        fields = stored if isinstance(stored, Mapping) else {}
        job, names = fields.get("job"), fields.get("pictures")
        right = [one for one in names if _fits(NAME, one)] if isinstance(names, list) else []
        right_job = job if isinstance(job, str) and _fits(JOB, job) else ""
        return cls(right_job, tuple(dict.fromkeys(right))[:KEPT_PICTURES])

    def with_job(self, job: str) -> "Kept":
        return Kept(job, self.pictures)

    def with_pictures(self, names: list[str]) -> "Kept":
        return Kept(self.job, tuple(dict.fromkeys([*names, *self.pictures]))[:KEPT_PICTURES])

    def to_dict(self) -> dict[str, Any]:
        return {"job": self.job, "pictures": list(self.pictures)}


class History:
    """The handlers of "Your pictures", bound to a dispatcher and to nothing else."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def remember(self, stored: object) -> tuple[Changed, ...]:
        """With the pictures that the browser's job has made by now; those that are gone go."""
        kept = Kept.read(stored)
        kept = kept.with_pictures(self._made(kept.job))
        there = [name for name in kept.pictures if self._path(name).is_file()]
        kept = Kept(kept.job, tuple(there))
        thumbnails = [thumbnail(self._path(name)) for name in there]
        some = gr.update(interactive=bool(there))
        return kept.to_dict(), gr.update(value=thumbnails, selected_index=None), some, some

    def show(self, stored: object, event: gr.SelectData) -> tuple[Changed, ...]:
        """A kept picture in the place of the new ones, with what made it."""
        with said_plainly(escape=True):
            path = self._nth(Kept.read(stored), event.index)
            try:
                info = read_png(path)
            except MetadataError as error:
                raise InvalidRequestError(f"The picture cannot be read: {error}") from error
            picture = gr.update(value=[(handed_out(path), None)], selected_index=0)
            able = gr.update(interactive=True)
            return picture, view.past_html(info), info.get("seed"), able, info, able, able

    def zipped(self, stored: object) -> str:
        """Where this server has all of them in one file, each as it was written."""
        with said_plainly(escape=True):
            paths = [self._path(name) for name in Kept.read(stored).pictures]
            there = [path for path in paths if path.is_file()]
            if not there:
                raise InvalidRequestError("There is no picture yet.")
            with NamedTemporaryFile(suffix=".zip") as packed:
                with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
                    for path in there:
                        archive.write(path, path.name)
                packed.flush()
                kept = save_file_to_cache(packed.name, cache_dir=get_upload_folder())
            return file_url(file_data(Path(kept)))

    def forget(self) -> tuple[Changed, ...]:
        """The browser forgets; the files stay in the outputs folder."""
        none = gr.update(interactive=False)
        return Kept().to_dict(), gr.update(value=[], selected_index=None), none, none

    def _made(self, job: str) -> list[str]:
        try:
            updates = self._dispatcher.recorded(job)
        except KeyError:
            return []
        saved = [one.path for one in updates if isinstance(one, ImageSaved)]
        return [name_of(path) for path in reversed(saved)]

    def _path(self, name: str) -> Path:
        return self._dispatcher.outputs / name

    def _nth(self, kept: Kept, index: object) -> Path:
        if not isinstance(index, int) or not 0 <= index < len(kept.pictures):
            raise InvalidRequestError("That picture is not there any more.")
        path = self._path(kept.pictures[index])
        if not path.is_file():
            raise InvalidRequestError("That picture is not in the outputs folder any more.")
        return path


def name_of(path: Path) -> str:
    """A picture's name below the outputs folder."""
    return f"{path.parent.name}/{path.name}"


def _fits(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def thumbnail(path: Path, side_px: int = THUMBNAIL_PX) -> str:
    """A small copy, made once: sixty pictures of full size are much for a phone."""
    small = Path(get_upload_folder()) / "thumbnails" / f"{path.stem}-{side_px}.webp"
    if not small.is_file():
        small.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(path) as picture:
            picture.thumbnail((side_px, side_px))
            picture.save(small, "webp", quality=80)
    return str(small)
