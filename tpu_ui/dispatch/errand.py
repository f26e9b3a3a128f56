"""One job that another TPU UI does: a thread that follows it there and keeps what comes of it.

The far app's id of the job is its id here, so that a picture, which is kept byte for byte, has the
same name. The picture itself does not tell its job.
"""

import io
import logging
import re
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from PIL import Image

from tpu_ui.dispatch.far import FILE, Far
from tpu_ui.dispatch.interface import ImageSaved, Queued, Update
from tpu_ui.dispatch.jobs import Job
from tpu_ui.dispatch.outputs import place, why_unwritable
from tpu_ui.dispatch.wire import UNREADABLE, read_progress
from tpu_ui.errors import AwayError, BrokenImageError, JobCancelledError, MetadataError, TpuUiError
from tpu_ui.folders import write_whole
from tpu_ui.metadata import ImageInfo, read_png
from tpu_ui.protocol import Cancelled, Failed, Finished
from tpu_ui.request import GenerationRequest
from tpu_ui.shapes import ImageSize

JOB = re.compile(r"[0-9a-f]{32}", re.ASCII)

log = logging.getLogger(__name__)


class Errand(threading.Thread):
    """`begun` is the job, once the far app has taken it, or why it has not.

    `adopt` gives the job of the far app's id, and whether it is a new one. `made` is told of each
    picture, `missed` when the far app cannot be reached.
    """

    def __init__(
        self,
        far: Far,
        outputs: Path,
        *,
        endpoint: str,
        inputs: Sequence[object],
        caller: str,
        adopt: Callable[[str], tuple[Job, bool]],
        made: Callable[[Job, ImageInfo], None],
        missed: Callable[[], None],
    ) -> None:
        super().__init__(name="errand", daemon=True)
        self.begun: Future[Job] = Future()
        self._far = far
        self._outputs = outputs
        self._what = endpoint, inputs, caller
        self._adopt = adopt
        self._made = made
        self._missed = missed
        self._dropped = threading.Event()
        self._saved: set[int] = set()
        self._last: Update | None = None
        self._has_turn = False

    def drop(self) -> None:
        """Nobody waits for it any more: if the far app takes it yet, it is cancelled there."""
        self._dropped.set()

    def run(self) -> None:
        job: Job | None = None
        answers = self._far.follow(*self._what)
        try:
            job, is_new = self._begin(next(answers))
            if not is_new:
                return
            for answer in answers:
                self._take(job, answer)
            job.record(Finished(job.id))
        except UNREADABLE as error:
            log.warning("an answer of %s cannot be read: %r", self._far.host, error)
            self._end(job, self._far.unreadable())
        except TpuUiError as error:
            self._end(job, error)
        except OSError as error:
            log.warning("an image could not be written: %s", error)
            self._end(job, TpuUiError(why_unwritable(error)))
        finally:
            answers.close()

    def _begin(self, answer: Any) -> tuple[Job, bool]:
        """From the first answer, which comes at once and holds the job's id."""
        told = _told(answer)
        if not JOB.fullmatch(told["job"]):
            raise ValueError("the job has no id")
        job, is_new = self._adopt(told["job"])
        if is_new and self._dropped.is_set():
            cancelled(self._far, job.id)
        self.begun.set_result(job)
        return job, is_new

    def _take(self, job: Job, answer: Any) -> None:
        told = _told(answer)
        if told["job"] != job.id:
            raise ValueError("it is of another job")
        if job.request is not None and answer[0]:  # the last answer: its pictures
            for image, file in enumerate(answer[0], start=1):
                self._save(job, job.request, image, file["path"])
            return
        if (update := read_progress(told)) is not None and update != self._last:
            self._last = update
            job.record(update)
            self._see_to_its_turn(job, update)
        if job.request is not None and "url" in told:
            path = unquote(told["url"].removeprefix(FILE))
            self._save(job, job.request, int(told["image"]), path)

    def _see_to_its_turn(self, job: Job, update: Update) -> None:
        """If all its listeners have gone it is cancelled now, unless its images are to be kept."""
        if not self._has_turn and not isinstance(update, Queued):
            self._has_turn = True
            if job.abandoned:
                job.cancel_asked = True
                cancelled(self._far, job.id)

    def _save(self, job: Job, request: GenerationRequest, image: int, path: str) -> None:
        if image in self._saved or not 1 <= image <= request.count:
            return
        content = self._far.fetch(path)
        info = _checked(job.id, content, request, image)
        file = place(self._outputs, job.id, image, info.seed)
        write_whole(file, content)
        self._saved.add(image)
        job.record(ImageSaved(job.id, image, file, info))
        self._made(job, info)

    def _end(self, job: Job | None, error: TpuUiError) -> None:
        host = self._far.host
        if isinstance(error, AwayError):
            self._missed()
        if job is None:
            self.begun.set_exception(error)
            return
        log.info("job %s ended at %s: %s", job.id, host, error)
        if isinstance(error, JobCancelledError) and job.cancel_asked:
            job.record(Cancelled(job.id))
            return
        said = str(error)
        if isinstance(error, JobCancelledError):
            said = f"The job was cancelled at {host}."
        elif isinstance(error, AwayError):
            said = f"{said.rstrip('.')}. This job is lost; ask again when {host} is back."
        if job.record(Failed(job.id, type(error).__name__, said)):
            cancelled(self._far, job.id)


def cancelled(far: Far, job: str) -> str:
    """Cancel a job at the far app; the state that it has there. "unknown" if that cannot be told:
    then the job ends by itself, with the reason."""
    try:
        return str(far.ask("cancel", job)["state"])
    except (TpuUiError, KeyError, TypeError) as error:
        log.info("job %s is not cancelled at %s: %s", job, far.host, error)
        return "unknown"


def _told(answer: Any) -> Mapping[str, Any]:
    """What an answer of `/generate` or `/warm_up` says of the job."""
    last = answer[-1]
    told = last[-1] if isinstance(last, list) else last
    if not isinstance(told, dict):
        raise ValueError("it tells nothing")
    return told


def _checked(job: str, content: bytes, request: GenerationRequest, image: int) -> ImageInfo:
    """What made the picture, by the file itself. Raises BrokenImageError if it is not what was
    asked for."""
    try:
        with tempfile.NamedTemporaryFile(suffix=".png") as file:
            file.write(content)
            file.flush()
            info = ImageInfo.from_dict({**read_png(Path(file.name)), "job": job})
        with Image.open(io.BytesIO(content), formats=["PNG"]) as picture:
            size = ImageSize(*picture.size)
    except (MetadataError, OSError, *UNREADABLE) as error:
        raise BrokenImageError("The picture did not arrive whole. It was thrown away.") from error
    if size != request.size or info.seed != request.seeds[image - 1]:
        raise BrokenImageError(
            f"A picture of {size} with seed {info.seed} arrived, which is another than was asked"
            " for. It was thrown away."
        )
    return info
