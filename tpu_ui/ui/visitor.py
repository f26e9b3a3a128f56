"""Where a caller is, and who asks, as far as turns in the queue go. Not an identity: a caller may
choose another session."""

import hashlib
import secrets

import gradio as gr
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tpu_ui.dispatch.wire import CALLER

MCP = "/gradio_api/mcp"
MARK = "x-tpu-ui-mark"


class Marking:
    """ASGI middleware that tells the callers of MCP tools apart, by address.

    Gradio passes such a call on to itself, through one client for them all, with the headers of the
    caller. The mark holds her address, and that this process made it: nobody else can make one, and
    use up another's turns, or nobody's.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._key = secrets.token_bytes(16)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = MutableHeaders(scope=scope)
            if MCP in scope["path"]:
                headers[MARK] = self._mark(address_of(Request(scope)))
            elif MARK in headers:
                address = headers[MARK].partition(" ")[0]
                if secrets.compare_digest(headers[MARK].encode(), self._mark(address).encode()):
                    scope["client"] = (address, 0)
                else:
                    del headers[MARK]
        await self._app(scope, receive, send)

    def _mark(self, address: str) -> str:
        made = hashlib.blake2b(address.encode(), key=self._key, digest_size=16)
        return f"{address} {made.hexdigest()}"


def visitor_of(request: gr.Request | None) -> str:
    """Whom a front end names; else one open page, or one Gradio client; else an address."""
    if request is None:  # called from within
        return ""
    marked = request.headers.get(MARK, "").partition(" ")[2]
    named = marked or request.headers.get(CALLER)
    return named or request.session_hash or address_of(request.request)


def address_of(request: HTTPConnection | None) -> str:
    """Where a caller is. Callers behind one proxy have one address, and share a turn."""
    client = request.client if request else None
    return client.host if client else "unknown"
