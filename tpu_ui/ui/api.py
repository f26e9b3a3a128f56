"""The endpoints that programs depend on; design.md fixes their names and inputs.

Each takes plain values, so that a refusal is always `request.validate`'s or the dispatcher's own
sentence. The docstrings below are the API's documentation.
"""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import gradio as gr
from gradio.components.api_component import Api
from gradio.context import get_blocks_context
from gradio.route_utils import API_PREFIX
from gradio.utils import get_function_description
from gradio_client.utils import is_file_obj_with_meta

from tpu_ui.dispatch.interface import Dispatcher, ImageSaved, Update
from tpu_ui.dispatch.wire import model_dict, reader_dict, status_dict, update_dict
from tpu_ui.errors import InvalidRequestError, JobCancelledError, TpuUiError
from tpu_ui.protocol import Cancelled, Failed, Finished
from tpu_ui.request import check_mode, check_size
from tpu_ui.shapes import shown
from tpu_ui.ui.desk import Desk
from tpu_ui.ui.failures import said_plainly
from tpu_ui.ui.files import handed_out
from tpu_ui.ui.form import Form, limits_of, to_request
from tpu_ui.ui.listening import (
    ANSWER_S,
    JOB_CONCURRENCY_ID,
    JOB_LISTENERS,
    PROGRESS_S,
    REPEAT_S,
)
from tpu_ui.ui.restoring import settings_in

Generated = tuple[list[gr.FileData], list[dict[str, Any]]]
GeneratedSoFar = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def add_endpoints(dispatcher: Dispatcher, desk: Desk) -> None:
    """Register the endpoints in the Blocks that is being built."""
    jobs: dict[str, Any] = {
        "concurrency_id": JOB_CONCURRENCY_ID,
        "concurrency_limit": JOB_LISTENERS,
    }
    _add(_documented(_generate(dispatcher, desk), Generated), "generate", **jobs)
    _add(_documented(_warm_up(dispatcher, desk), dict[str, Any]), "warm_up", **jobs)
    # These answer at once, also while every listener's place is taken.
    _add(_status(dispatcher), "status", queue=False)
    _add(_models(dispatcher), "models", queue=False)
    # For another TPU UI alone: megabytes, of which a person or a language model has no use.
    _add(_readers(dispatcher), "readers", queue=False, api_visibility="undocumented")
    _add(_cancel(dispatcher), "cancel", queue=False)
    _add(_read_metadata(), "read_metadata", queue=False)


def _add(endpoint: Callable[..., Any], name: str, **options: Any) -> None:
    """With what each input is for, which Gradio by itself tells to MCP alone."""
    gr.api(endpoint, api_name=name, **options)
    page = get_blocks_context()
    assert page is not None
    *_, added = page.fns.values()
    _, told, _ = get_function_description(endpoint)
    told.pop("request", None)  # Gradio's own
    for component, text in zip(added.inputs, told.values(), strict=True):
        assert isinstance(component, Api)
        component._api_info = {**component._api_info, "additional_description": text}


def _documented(
    endpoint: Callable[..., Iterator[Any]], returns: Any
) -> Callable[..., Iterator[Any]]:
    """gr.api takes its outputs from the return annotation, and does not look into an Iterator."""
    signature = inspect.signature(endpoint).replace(return_annotation=returns)
    endpoint.__signature__ = signature  # type: ignore[attr-defined]
    return endpoint


def _generate(dispatcher: Dispatcher, desk: Desk) -> Callable[..., Iterator[GeneratedSoFar]]:
    def generate(
        prompt: str,
        negative_prompt: str = "",
        model: str | None = None,
        mode: str | None = None,
        size: str | None = None,
        steps: int | None = None,
        guidance: float | None = None,
        seed: int | None = None,
        count: int = 1,
        lora: str | None = None,
        lora_weight: float | None = None,
        styles: list[str] | None = None,
        previews: bool = False,
        request: gr.Request | None = None,
    ) -> Iterator[GeneratedSoFar]:
        """Make pictures of a prompt. Returns (images, info): PNG files, and what made each one.

        While the job goes on, images is empty and info holds one dict with "job" (for /cancel),
        "state" and progress; the first such answer comes at once. When a picture is done and more
        are to come, it holds the "url" of that picture on this server.

        Parameters:
            prompt: What the picture should show.
            negative_prompt: What it should not show, for models that take one.
            model: Name of a model; the loaded one if left out.
            mode: "eager", "fused" or "compiled"; what the app was started with if left out.
            size: "WIDTHxHEIGHT" in pixels, one that /status lists as ready.
            steps: Denoising steps; the model's own if left out.
            guidance: Guidance scale; the model's own if left out.
            seed: From 0 to 4294967295. Drawn if left out or -1; more images get the seeds after it.
            count: How many images.
            lora: One of the model's LoRA files.
            lora_weight: How much of it; 1 if left out.
            styles: Names of styles (presets/styles.toml) to lay over the prompt, in this order.
            previews: Answer as often as for a page, with a "preview" now and then: what the picture
                looks like by now, a JPEG file in base64.
        """
        form = Form(
            prompt=prompt,
            negative_prompt=negative_prompt,
            model=model,
            mode=mode,
            size=size,
            steps=steps,
            guidance=guidance,
            random_seed=seed is None,
            seed=seed,
            count=count,
            lora=lora,
            lora_weight=lora_weight,
            styles=styles,
        )
        with said_plainly(escape=False):
            asked = to_request(dispatcher, form)
            job = desk.submit(asked, request, kept=False)
            yield [], [{"job": job, "state": "queued"}]
            images: list[dict[str, Any]] = []
            infos: list[dict[str, Any]] = []
            saved: set[Path] = set()
            pace_s = PROGRESS_S if previews else ANSWER_S
            for update in dispatcher.updates(job, pace_s, REPEAT_S):
                _raise_if_lost(update)
                if isinstance(update, ImageSaved):
                    if update.path in saved:
                        continue
                    saved.add(update.path)
                    images.append(file_data(update.path))
                    infos.append(update.info.to_dict())
                    # Clients fetch every file of every answer: on the way, a picture is told of.
                    if update.image < asked.count:
                        yield [], [{**update_dict(update), "url": file_url(images[-1])}]
                elif not isinstance(update, Finished):
                    yield [], [update_dict(update, bool(previews))]
            yield images, infos

    return generate


def _warm_up(dispatcher: Dispatcher, desk: Desk) -> Callable[..., Iterator[dict[str, Any]]]:
    def warm_up(
        model: str | None = None,
        mode: str | None = None,
        size: str | None = None,
        request: gr.Request | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Compile every program of one size in one mode. Streams its progress. The owner's.

        The last dict has the state "ready". Loads the model first, if it is another one.

        Parameters:
            model: Name of a model; the loaded one if left out.
            mode: "eager", "fused" or "compiled"; what the app was started with if left out.
            size: "WIDTHxHEIGHT" in pixels; the model's first if left out.
        """
        with said_plainly(escape=False):
            limits = limits_of(dispatcher, model)
            wanted, in_mode = check_size(limits, size), check_mode(limits, mode)
            job = desk.warm_up(limits.model, in_mode, wanted, request)
            what = {"model": limits.model, "mode": in_mode.value, "size": str(wanted)}
            last = {"job": job, "state": "queued", **what}
            yield last
            for update in dispatcher.updates(job, ANSWER_S):
                _raise_if_lost(update)
                if not isinstance(update, Finished):
                    last = {**update_dict(update), **what}
                    yield last
            yield {**last, "state": "ready"}

    return warm_up


def _status(dispatcher: Dispatcher) -> Callable[[], dict[str, Any]]:
    def status() -> dict[str, Any]:
        """The state of the app: device, model, and which sizes are ready in which mode.

        strategy is where the model's weights are: resident, staged, offload, or sharded among so
        many devices. strategy_reason says why.
        """
        with said_plainly(escape=False):
            return status_dict(dispatcher.status())

    return status


def _models(dispatcher: Dispatcher) -> Callable[[], dict[str, Any]]:
    def models() -> dict[str, Any]:
        """Every model on offer, by name, with what it takes here.

        preset is its file in presets/ (README, "Add a model"); the rest depends on this machine:
        the modes, the sizes that cannot fit and why, the styles that suit the model.
        """
        with said_plainly(escape=False):
            return {
                name: model_dict(preset, dispatcher.limits(name))
                for name, preset in dispatcher.presets.items()
            }

    return models


def _readers(dispatcher: Dispatcher) -> Callable[[str], list[dict[str, Any]]]:
    def readers(model: str) -> list[dict[str, Any]]:
        """How the text encoders of a model read a prompt; none before it has been loaded.

        Parameters:
            model: Name of the model.
        """
        with said_plainly(escape=False):
            known = dispatcher.readers(limits_of(dispatcher, model).model)
            return [reader_dict(one) for one in known]

    return readers


def _cancel(dispatcher: Dispatcher) -> Callable[[str], dict[str, Any]]:
    def cancel(job: str) -> dict[str, Any]:
        """Cancel a waiting or running job. Its state: cancelled, finished, failed or unknown.

        Parameters:
            job: The id that the first answers of /generate and /warm_up hold.
        """
        with said_plainly(escape=False):
            if not isinstance(job, str):
                raise InvalidRequestError(f"A job is named by text, not {shown(job)}.")
            return dispatcher.cancel(job).to_dict()

    return cancel


def _read_metadata() -> Callable[[gr.FileData], dict[str, Any]]:
    def read_metadata(image: gr.FileData) -> dict[str, Any]:
        """What made a PNG file of TPU UI: the info dict of /generate, but for the job.

        Parameters:
            image: The PNG file, uploaded as it was downloaded.
        """
        with said_plainly(escape=False):
            # Gradio has checked that a file with its mark is one that the caller uploaded. Anything
            # else could name any file on this machine.
            if not is_file_obj_with_meta(image):
                raise InvalidRequestError(
                    "Upload the PNG file itself; a path or text is not enough."
                )
            return settings_in(Path(image["path"]))

    return read_metadata


def _raise_if_lost(update: Update) -> None:
    if isinstance(update, Failed):
        raise TpuUiError(update.message)
    if isinstance(update, Cancelled):
        raise JobCancelledError(f"Job {update.job} was cancelled.")


def file_url(file: dict[str, Any]) -> str:
    """Where this server has a file that it hands out."""
    return f"{API_PREFIX}/file={quote(file['path'])}"


def file_data(path: Path) -> dict[str, Any]:
    """A file as Gradio's clients download it."""
    file = gr.FileData(path=handed_out(path), orig_name=path.name, mime_type="image/png")
    return dict(file.model_dump())
