"""Logins that programs show with each request, where the app is closed and Gradio asks.

Gradio's own door knows cookies alone. It leaves its MCP server open to everybody, and the client by
which that calls its tools knows no login, so that half of the tools would be had by strangers, and
the other half by nobody.
"""

import secrets
from typing import Any

from anyio import Lock, to_thread
from gradio_client import Client
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tpu_ui.ui.door import Door
from tpu_ui.ui.visitor import MCP

REFUSED = "Log in: send the header Authorization: Bearer NAME:PASSWORD.\n"
NOBODY = ""


class Bearer:
    """ASGI middleware for a closed app. Whoever shows a login comes in as by Gradio's own form, and
    nobody calls MCP's tools without."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door
        self._tokens: dict[str, str] = {}
        self._making = Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name = await self._door.name_of(HTTPConnection(scope))
        if name:
            MutableHeaders(scope=scope)["cookie"] = self._cookie(scope["app"], name)
        if MCP in scope["path"]:
            if not name:
                wanted = {"WWW-Authenticate": "Bearer"}
                await PlainTextResponse(REFUSED, 401, wanted)(scope, receive, send)
                return
            async with self._making:
                await self._let_mcp_in(scope["app"])
        await self._app(scope, receive, send)

    def _cookie(self, gradio: Any, name: str) -> str:
        """As after Gradio's form. All of a name's cookies end when she signs out on the page."""
        token = self._tokens.setdefault(name, secrets.token_urlsafe(32))
        gradio.tokens[token] = name
        return f"access-token-{gradio.cookie_id}={token}"

    async def _let_mcp_in(self, gradio: Any) -> None:
        """Gradio's client for the tools, with a cookie of nobody's: each call brings the header of
        its caller, whose cookie then takes the place of that one. Private, of Gradio 6.31."""
        server = gradio.get_blocks().mcp_server_obj
        if server._client_instance is not None:
            return
        headers = {"x-gradio-user": "mcp", "cookie": self._cookie(gradio, NOBODY)}
        server._client_instance = await to_thread.run_sync(
            lambda: Client(
                server.local_url,
                headers=headers,
                download_files=False,
                verbose=False,
                analytics_enabled=False,
                ssl_verify=False,
            )
        )
