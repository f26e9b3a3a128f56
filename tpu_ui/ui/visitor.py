"""Who asks, as far as turns in the queue go. Not an identity: a caller may choose another."""

import hashlib
import secrets

import gradio as gr
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tpu_ui.dispatch.wire import CALLER

MCP = "/gradio_api/mcp"
MARK = "x-tpu-ui-caller"


class Marking:
    """ASGI middleware that tells the callers of MCP tools apart, by address.

    Gradio passes such a call on to itself, through one client for them all, with the headers of the
    caller. Nobody can guess another's mark, and use up her turns.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._key = secrets.token_bytes(16)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and MCP in scope["path"]:
            address = address_of(Request(scope)).encode()
            mark = hashlib.blake2b(address, key=self._key, digest_size=16).hexdigest()
            MutableHeaders(scope=scope)[MARK] = mark
        await self._app(scope, receive, send)


def visitor_of(request: gr.Request | None) -> str:
    """One open page, or one Gradio client; a caller without either, by address. A front end says
    which of its visitors asks."""
    if request is None:  # called from within
        return ""
    marked = request.headers.get(MARK) or request.headers.get(CALLER)
    return marked or request.session_hash or address_of(request.request)


def address_of(request: Request | None) -> str:
    """Where a caller is. Callers behind one proxy have one address, and share a turn."""
    client = request.client if request else None
    return client.host if client else "unknown"
