"""Tells Gradio's part of the page which Chinese a browser means. Knows nothing of what is said.

Gradio knows Chinese of two places, by the browser's language as it stands, and is English in Hong
Kong. It reads it before any script of ours runs: so this one goes into the page's head.
"""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tpu_ui.ui.words import TRADITIONAL, words_for

GRADIOS = {"zh": "zh-CN", TRADITIONAL: "zh-TW"}


class Chinese:
    """ASGI middleware. Only the page itself, for browsers that mean another place, is changed."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/":
            asked = Headers(scope=scope).get("accept-language", "")
            meant = GRADIOS.get(words_for(asked).language)
            if meant and not asked.startswith(meant):
                send = _with_language(send, meant)
        await self._app(scope, receive, send)


def _with_language(send: Send, language: str) -> Send:
    script = f'<script>Object.defineProperty(navigator, "language", {{value: "{language}"}})'
    inserted = f"<head>{script}</script>".encode()
    held: list[Message] = []

    async def changed(message: Message) -> None:
        """The answer's length stands at its beginning: it is held back until all is there."""
        held.append(message)
        if message["type"] != "http.response.body" or message.get("more_body"):
            return
        start, *parts = held
        body = b"".join(part.get("body", b"") for part in parts).replace(b"<head>", inserted, 1)
        MutableHeaders(scope=start)["Content-Length"] = str(len(body))
        await send(start)
        await send({"type": "http.response.body", "body": body})

    return changed
