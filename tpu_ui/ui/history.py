"""The pictures of one browser: kept by name in its storage, so that a reload or another day finds
them. All its tabs share the list: each is told what to add and what to drop, and never the whole.

Nobody can guess a picture's name: whoever knows it may have the file, and nobody else. What a
browser sends is not trusted; it may name pictures and nothing else.
"""

import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gradio as gr
from gradio.processing_utils import save_file_to_cache
from gradio.utils import get_upload_folder
from PIL import Image

from tpu_ui.dispatch.interface import Dispatcher, ImageSaved
from tpu_ui.errors import InvalidRequestError, MetadataError
from tpu_ui.ui import view
from tpu_ui.ui.api import file_data, file_url
from tpu_ui.ui.failures import said_plainly
from tpu_ui.ui.files import handed_out
from tpu_ui.ui.language import words_of
from tpu_ui.ui.restoring import settings_in

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


def change(job: str, add: Sequence[str] = (), drop: Sequence[str] = ()) -> dict[str, Any]:
    """What `keepPictures` in page.js does to the list: newest first in `add`."""
    return {"job": job, "add": list(add), "drop": list(drop)}


class History:
    """The handlers of "Your pictures", bound to a dispatcher and to nothing else."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def remember(self, stored: object) -> Changed:
        """With the pictures that the browser's job has made by now; those that are gone go."""
        kept = Kept.read(stored)
        new = [one for one in self._made(kept.job) if one not in kept.pictures]
        return change(kept.job, new, [one for one in kept.pictures if not self._is_there(one)])

    def shelf(self, stored: object) -> tuple[Changed, ...]:
        """The list as it is now. Nothing else draws it, so that no older one comes last."""
        there = [name for name in Kept.read(stored).pictures if self._is_there(name)]
        thumbnails = [thumbnail(self._path(name)) for name in there]
        some = gr.update(interactive=bool(there))
        return gr.update(value=thumbnails, selected_index=None), some, some

    def show(
        self, visit: gr.Request | None, stored: object, event: gr.SelectData
    ) -> tuple[Changed, ...]:
        """A kept picture in the place of the new ones, with what made it."""
        words = words_of(visit)
        with said_plainly(words, escape=True):
            path = self._shown_as(Kept.read(stored), event.value)
            try:
                info = settings_in(path)
            except MetadataError as error:
                raise InvalidRequestError(f"The picture cannot be read: {error}") from error
            picture = gr.update(value=[(handed_out(path), None)], selected_index=0)
            return picture, view.past_html(words, info), [info], info

    def zipped(self, visit: gr.Request | None, stored: object) -> str:
        """Where this server has all of them in one file, each as it was written."""
        with said_plainly(words_of(visit), escape=True):
            paths = [self._path(name) for name in Kept.read(stored).pictures]
            there = [path for path in paths if path.is_file()]
            if not there:
                raise InvalidRequestError("There is no picture yet.")
            with TemporaryDirectory() as folder:
                # A browser saves it under this name.
                packed = Path(folder, f"tpu-ui-{datetime.now().astimezone():%Y-%m-%d}.zip")
                with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
                    for path in there:
                        archive.write(path, path.name)
                kept = save_file_to_cache(packed, cache_dir=get_upload_folder())
            return file_url(file_data(Path(kept)))

    def forget(self, stored: object) -> Changed:
        """The browser forgets; the files stay in the outputs folder."""
        return change("", drop=Kept.read(stored).pictures)

    def _made(self, job: str) -> list[str]:
        try:
            updates = self._dispatcher.recorded(job)
        except KeyError:
            return []
        saved = [one.path for one in updates if isinstance(one, ImageSaved)]
        return [name_of(path) for path in reversed(saved)]

    def _path(self, name: str) -> Path:
        return self._dispatcher.outputs / name

    def _is_there(self, name: str) -> bool:
        return self._path(name).is_file()

    def _shown_as(self, kept: Kept, item: object) -> Path:
        """The picture of a thumbnail, by its name: the list may have grown since it was drawn."""
        image = item.get("image") if isinstance(item, Mapping) else None
        small = image.get("path") if isinstance(image, Mapping) else None
        stem = Path(small).stem if isinstance(small, str) else ""
        known = {f"{Path(one).stem}-{THUMBNAIL_PX}": self._path(one) for one in kept.pictures}
        path = known.get(stem)
        if path is None:
            raise InvalidRequestError("That picture is not there any more.")
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
