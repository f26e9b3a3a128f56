"""What of a request reaches Gradio at all, and how its own failures leave.

Gradio answers far more than this app asks of it, takes bodies of any size, fetches what lies at an
address where it expects a file, and calls whatever it cannot read an error of the server. Here is
what the app has a use for; the rest is refused in one sentence, whoever asks.
"""

import json
import logging
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from gradio.route_utils import API_PREFIX
from gradio_client.utils import is_http_url_like
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tpu_ui.outside import holds_half_a_character, parsed, within
from tpu_ui.ui.failures import UNEXPECTED
from tpu_ui.ui.words import Words, words_for

MAX_BODY_BYTES = 250_000  # two prompts of the longest, in the longest writing, are 100,000
MAX_FILE_BYTES = 32 * 2**20
MAX_UPLOAD_BYTES = MAX_FILE_BYTES + 100_000  # with what is around the file
MAX_NAME_BYTES = 255 + len("file=")  # no file system here has longer ones
OTHERS = "/v1/"  # has a limit and refusals of its own
USED = (
    *("info", "openapi.json", "startup-events", "user", "token", "app_id", "login_check"),
    *("run", "call", "queue", "cancel", "reset", "heartbeat", "upload", "upload_progress"),
    *("mcp", "theme.css"),
)
FILE = "file="
CALLS = ("run", "call", "queue", "cancel", "reset")  # their bodies are JSON
ANSWERED_AT_ONCE = ("run",)
UNCLEAR = "This request cannot be understood."
MAX_LOGGED_CHARACTERS = 300

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Refusal(Exception):
    """An answer instead of Gradio's."""

    status: int
    text: str

    def response(self) -> Response:
        """Under both names: Gradio's page looks for either."""
        return JSONResponse({"detail": self.text, "error": self.text}, self.status)


class Intake:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        words = words_for(Headers(scope=scope).get("accept-language"))
        endpoint = _endpoint(scope["path"])
        answer = _Answer(words, send, translated=endpoint in ANSWERED_AT_ONCE)
        try:
            _check_used(scope["path"], endpoint)
            receive = await _bounded(words, scope, receive, endpoint)
        except Refusal as refusal:
            await refusal.response()(scope, receive, send)
            return
        except ClientDisconnect:
            return
        with _Unforeseen(endpoint) as unforeseen:
            await self._app(scope, receive, answer)
        if unforeseen.happened:
            await answer.end(scope, receive, unforeseen.refusal)


def _endpoint(path: str) -> str:
    """The first part of a path below Gradio's prefix; "" for any other path."""
    return path.partition(f"{API_PREFIX}/")[2].partition("/")[0]


def _check_used(path: str, endpoint: str) -> None:
    if "\0" in path or any(len(name.encode()) > MAX_NAME_BYTES for name in path.split("/")):
        raise Refusal(404, "There is nothing here.")
    _, found, rest = path.partition(f"{API_PREFIX}/")
    if not found or endpoint in USED:
        return
    if rest.startswith(FILE) and not is_http_url_like(rest.removeprefix(FILE)):
        return
    raise Refusal(404, "There is nothing here.")


async def _bounded(words: Words, scope: Scope, receive: Receive, endpoint: str) -> Receive:
    """The body, read and looked at. An upload goes on to Gradio piece by piece, if it says how
    long it is."""
    if scope["method"] in ("GET", "HEAD", "OPTIONS") or scope["path"].startswith(OTHERS):
        return receive
    headers = Headers(scope=scope)
    claimed = headers.get("content-length", "")
    if endpoint == "upload":
        if not claimed.isdecimal():
            raise Refusal(411, "Say how long the file is (Content-Length).")
        if int(claimed) > MAX_UPLOAD_BYTES:
            raise _too_large(words, MAX_UPLOAD_BYTES)
        return receive
    if claimed.isdecimal() and int(claimed) > MAX_BODY_BYTES:
        raise _too_large(words, MAX_BODY_BYTES)
    body = b""
    async for part in Request(scope, receive).stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise _too_large(words, MAX_BODY_BYTES)
    if endpoint in CALLS:
        _check_call(body)
    return _Again(body, receive)


def _too_large(words: Words, limit: int) -> Refusal:
    told = words("That is too much at once: at most {limit} bytes are taken.", limit=f"{limit:,}")
    return Refusal(413, told)


def _check_call(body: bytes) -> None:
    """What Gradio would stumble over, or fetch from elsewhere in our name."""
    try:
        call = parsed(body)
    except ValueError:
        raise Refusal(400, "The body is no JSON, or is nested too deep.") from None
    if not isinstance(call, dict):
        raise Refusal(400, "The body must be a JSON object.")
    if holds_half_a_character(call):
        raise Refusal(400, "The request holds half a character (a lone surrogate); remove it.")
    for one, _ in within(call):
        if isinstance(one, dict) and "path" in one and not _is_upload(one["path"]):
            raise Refusal(400, "Upload the file itself; nothing is fetched from elsewhere.")


def _is_upload(path: object) -> bool:
    return isinstance(path, str) and not is_http_url_like(path) and "\0" not in path


class _Again:
    """A body that has been read, for whoever comes next; then what goes on to be received."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


class _Answer:
    """Gradio's answer on its way out. It calls every refusal an error of the server: `translated`,
    what a caller can mend becomes a 400."""

    def __init__(self, words: Words, send: Send, translated: bool) -> None:
        self._words = words
        self._send = send
        self._translated = translated
        self._begun = self._done = False
        self._failure: bytes | None = None  # what is being said instead of an answer

    async def __call__(self, message: Message) -> None:
        begins = message["type"] == "http.response.start"
        if begins and message["status"] == 500 and self._translated:
            self._failure = b""
        elif self._failure is None:
            self._begun = self._begun or begins
            self._done = message["type"] == "http.response.body" and not message.get("more_body")
            await self._send(message)
        elif message["type"] == "http.response.body":
            self._failure += message.get("body", b"")
            if not message.get("more_body"):
                await self._tell(json.loads(self._failure))

    async def end(self, scope: Scope, receive: Receive, refusal: Refusal) -> None:
        """After an exception: a refusal, or the end of what had begun."""
        if self._done:
            return
        if self._begun:
            await self._send({"type": "http.response.body", "body": b""})
        else:
            await refusal.response()(scope, receive, self._send)

    async def _tell(self, said: dict[str, Any]) -> None:
        ours = said.get("error") == self._words(UNEXPECTED)
        content = {**said, "error": said.get("error") or UNCLEAR}
        answer = JSONResponse(content, 500 if ours else 400)
        start = {"status": answer.status_code, "headers": answer.raw_headers}
        await self._send({"type": "http.response.start", **start})
        await self._send({"type": "http.response.body", "body": answer.body})


class _Unforeseen(AbstractContextManager["_Unforeseen"]):
    """Keeps an exception from the server, which would break the connection, and logs it.

    Of a call it is Gradio that could not read it: its lines say nothing more than its message.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self.happened = False

    @property
    def refusal(self) -> Refusal:
        return Refusal(400, UNCLEAR) if self._endpoint else Refusal(500, UNEXPECTED)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.happened = True
        if self._endpoint:
            told = repr(error)[:MAX_LOGGED_CHARACTERS]
            _log.warning("A call of %s was not understood: %s", self._endpoint, told)
        else:
            _log.error("A request failed.", exc_info=error)
        return True
