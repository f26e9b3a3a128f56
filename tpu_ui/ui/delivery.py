"""How answers travel: what Gradio leaves as it is gets smaller, and is fetched once.

Gradio compresses files by the ending of their names, so neither the page itself, which has none,
nor its JSON; and it lets a browser ask for its scripts again, though their names change with their
contents.
"""

from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LEAST_BYTES = 1000
LEVEL = 6
ASSETS = "/assets/"
FOR_GOOD = "public, max-age=31536000, immutable"


class Delivery:
    """ASGI middleware. Streams of events pass as they are; so do pictures."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._smaller = GZipMiddleware(app, minimum_size=LEAST_BYTES, compresslevel=LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif ASSETS in scope["path"]:
            await self._app(scope, receive, _kept(send))
        elif "." in scope["path"]:
            await self._app(scope, receive, send)
        else:
            await self._smaller(scope, receive, send)


def _kept(send: Send) -> Send:
    async def with_header(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] in (200, 304):
            MutableHeaders(scope=message)["Cache-Control"] = FOR_GOOD
        await send(message)

    return with_header
