"""OpenAI's image endpoint, for programs that speak it: `POST /v1/images/generations`.

What it cannot honour is refused, in OpenAI's error format. Beyond OpenAI's fields it takes ours
(steps, guidance, seed and so on), which its clients send as `extra_body`. The format follows
https://platform.openai.com/docs/api-reference/images/create.
"""

import base64
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio import CapacityLimiter, to_thread
from gradio.route_utils import get_root_url
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tpu_ui.dispatch.interface import Dispatcher, ImageSaved
from tpu_ui.errors import (
    AllowanceError,
    AwayError,
    InvalidRequestError,
    JobCancelledError,
    LockedError,
    NotTheOwnerError,
    QueueFullError,
    TpuUiError,
)
from tpu_ui.outside import holds_half_a_character, parsed
from tpu_ui.protocol import Cancelled, Failed
from tpu_ui.shapes import shown
from tpu_ui.ui.allowance import HOUR_S
from tpu_ui.ui.api import file_data, file_url
from tpu_ui.ui.desk import Desk
from tpu_ui.ui.door import Door
from tpu_ui.ui.form import Form, to_request
from tpu_ui.ui.listening import JOB_LISTENERS
from tpu_ui.ui.visitor import address_of

PATH = "/v1/images/generations"
MAX_BODY_BYTES = 1_000_000
AWAY_RETRY_S = 5
OURS = ("negative_prompt", "mode", "steps", "guidance", "seed", "lora", "lora_weight", "styles")
TAKEN = ("prompt", "model", "n", "size", "response_format", "user", *OURS)
# The only values of these that are true of what this server does. `user` changes no picture.
FIXED: Mapping[str, tuple[object, ...]] = {
    "quality": ("auto",),
    "background": ("auto", "opaque"),
    "moderation": ("auto", "low"),
    "output_format": ("png",),
    "output_compression": (100,),
    "stream": (False,),
    "partial_images": (0,),
}


class RefusalError(Exception):
    """An answer in OpenAI's error format."""

    def __init__(
        self, status: int, message: str, kind: str, param: str | None = None, code: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_s: int | None = None
        self.body = {
            "error": {"message": message, "type": kind, "param": param, "code": code or None}
        }


@dataclass
class _Call:
    """One request while it is worked on. `job` is known once it stands in the queue."""

    form: Form
    wants_url: bool
    root_url: str
    user: str = ""
    job: str = ""
    saved: list[ImageSaved] = field(default_factory=list)


def openai_routes(dispatcher: Dispatcher, door: Door) -> list[Route]:
    """The endpoint, and `GET /v1/models`, by which clients find the names of models."""
    images = _Images(dispatcher, door)
    return [
        Route(PATH, images.generate, methods=["POST"]),
        Route("/v1/models", images.models, methods=["GET"]),
    ]


class _Images:
    def __init__(self, dispatcher: Dispatcher, door: Door) -> None:
        self._dispatcher = dispatcher
        self._door = door
        self._desk = Desk(dispatcher, door)
        self._limiter: CapacityLimiter | None = None  # belongs to the server's loop

    async def models(self, request: Request) -> Response:
        try:
            await self._let_in(request)
        except RefusalError as refusal:
            return _refused(refusal)
        data = [
            {"id": name, "object": "model", "created": 0, "owned_by": preset.repository}
            for name, preset in self._dispatcher.presets.items()
        ]
        return JSONResponse({"object": "list", "data": data})

    async def generate(self, request: Request) -> Response:
        try:
            await self._let_in(request)
            call = self._call(request, await _body(request))
            await self._run(request, call)
            return JSONResponse(_answer(call))
        except RefusalError as refusal:
            return _refused(refusal)
        except TpuUiError as error:
            return _refused(_as_refusal(error))
        except ClientDisconnect:
            return Response(status_code=499)

    async def _let_in(self, request: Request) -> None:
        if not await self._door.lets_in(request):
            raise RefusalError(
                401,
                "Give USER:PASSWORD of a login here as the API key.",
                "invalid_request_error",
                code="invalid_api_key",
            )

    def _call(self, request: Request, body: dict[str, Any]) -> _Call:
        _check_fields(body)
        model = body.get("model")
        if model is not None and not (isinstance(model, str) and model in self._dispatcher.presets):
            names = ", ".join(self._dispatcher.presets)
            raise RefusalError(
                404,
                f"There is no model {shown(model)}; the models are {names}.",
                "invalid_request_error",
                "model",
                "model_not_found",
            )
        form = Form(
            prompt=body.get("prompt"),
            model=model,
            size=None if body.get("size") == "auto" else body.get("size"),
            random_seed=body.get("seed") is None,
            count=body.get("n"),
            **{name: body.get(name) for name in OURS},
        )
        root_url = get_root_url(request, PATH, request.app.root_path)
        wants_url = self._wants_url(body.get("response_format"))
        # For whoever asks on behalf of many: each of them has a turn of her own.
        return _Call(form, wants_url, root_url, str(body.get("user") or ""))

    def _wants_url(self, wanted: object) -> bool:
        """Behind a login a URL would need a visit of the login page first."""
        login = self._door.closed
        if wanted is None:
            return not login
        if wanted not in ("url", "b64_json"):
            raise _unfit("response_format", f'"url" or "b64_json", not {shown(wanted)}')
        if wanted == "url" and login:
            raise _unfit("response_format", '"b64_json" on a server with a login')
        return wanted == "url"

    async def _run(self, request: Request, call: _Call) -> None:
        """To the job's end. A caller who has gone takes the job along: nobody is left for it."""
        self._limiter = self._limiter or CapacityLimiter(JOB_LISTENERS)
        asked = to_request(self._dispatcher, call.form)
        caller = await self._door.caller_of(request, f"{address_of(request)} {call.user}")
        call.job = self._desk.submit_for(asked, caller)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_when_gone, request, lambda: self._dispatcher.cancel(call.job))
            ending = await to_thread.run_sync(self._follow, call, limiter=self._limiter)
            tasks.cancel_scope.cancel()
        if ending is not None:
            raise ending

    def _follow(self, call: _Call) -> TpuUiError | None:
        """Why there is no picture. Raised in here it would come out as a group of errors."""
        for update in self._dispatcher.updates(call.job, pace_s=60.0):
            if isinstance(update, ImageSaved):
                call.saved.append(update)
            elif isinstance(update, Failed):
                return TpuUiError(update.message)
            elif isinstance(update, Cancelled):
                return JobCancelledError(f"Job {call.job} was cancelled.")
        return None


async def _when_gone(request: Request, then: Callable[[], object]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    then()


async def _body(request: Request) -> dict[str, Any]:
    """Only JSON by name: a page elsewhere cannot send that without asking first."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusalError(
            415, "Send JSON, as Content-Type: application/json.", "invalid_request_error"
        )
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > MAX_BODY_BYTES:
            raise RefusalError(
                413, f"At most {MAX_BODY_BYTES:,} bytes are taken.", "invalid_request_error"
            )
    try:
        body = parsed(content)
    except ValueError:
        raise RefusalError(400, "The body is no JSON.", "invalid_request_error") from None
    if not isinstance(body, dict):
        raise RefusalError(
            400,
            'The body must be an object, such as {"prompt": "a tree"}.',
            "invalid_request_error",
        )
    if holds_half_a_character(body):
        raise RefusalError(
            400,
            "The body holds half a character (a lone surrogate); remove it.",
            "invalid_request_error",
        )
    return body


def _check_fields(body: dict[str, Any]) -> None:
    for name, value in body.items():
        if value is None or name in TAKEN:
            continue
        if name not in FIXED:
            known = ", ".join(TAKEN)
            raise RefusalError(
                400,
                f"There is no field {shown(name)}; the fields are {known}.",
                "invalid_request_error",
                name[:60],
                "unknown_parameter",
            )
        fixed = FIXED[name]
        if not any(value == one and type(value) is type(one) for one in fixed):
            raise _unfit(name, f"{' or '.join(map(json.dumps, fixed))}, or left out")


def _unfit(name: str, right: str) -> RefusalError:
    return RefusalError(
        400, f"{name} must be {right}.", "invalid_request_error", name, "unsupported_value"
    )


def _as_refusal(error: TpuUiError) -> RefusalError:
    match error:
        case LockedError():
            return RefusalError(400, str(error), "invalid_request_error", "size", "size_not_ready")
        case InvalidRequestError():
            return RefusalError(400, str(error), "invalid_request_error")
        case QueueFullError():
            refusal = RefusalError(429, str(error), "rate_limit_error", code="queue_full")
            refusal.retry_s = max(1, round(error.wait_s or 1))
            return refusal
        case AwayError():
            refusal = RefusalError(503, str(error), "server_error", code="out_of_reach")
            refusal.retry_s = AWAY_RETRY_S
            return refusal
        case AllowanceError():
            refusal = RefusalError(429, str(error), "rate_limit_error", code="rate_limit_exceeded")
            refusal.retry_s = math.ceil(min(error.wait_s, HOUR_S))
            return refusal
        case NotTheOwnerError():
            return RefusalError(403, str(error), "permission_error", "model")
        case _:
            return RefusalError(500, str(error), "server_error")


def _refused(refusal: RefusalError) -> Response:
    # A job that failed has been tried; OpenAI's clients would send it twice more by themselves.
    headers = {"x-should-retry": "false"} if refusal.status == 500 else {}
    if refusal.retry_s is not None:
        headers["Retry-After"] = str(refusal.retry_s)
    return JSONResponse(refusal.body, refusal.status, headers)


def _answer(call: _Call) -> dict[str, Any]:
    return {"created": int(time.time()), "data": [_datum(call, one) for one in call.saved]}


def _datum(call: _Call, saved: ImageSaved) -> dict[str, Any]:
    """The picture, and what made it under `info`, which is not of OpenAI's format."""
    if call.wants_url:
        picture = {"url": call.root_url + file_url(file_data(saved.path))}
    else:
        picture = {"b64_json": base64.b64encode(saved.path.read_bytes()).decode()}
    return {**picture, "info": saved.info.to_dict()}
