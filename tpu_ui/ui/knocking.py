"""Trying one password after another at Gradio's own login, by address: only so many a minute."""

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tpu_ui.ui.allowance import Window
from tpu_ui.ui.visitor import address_of

LOGIN = "/login"


class Knocking:
    """ASGI middleware. `wrong` counts wrong logins, at this door and at others."""

    def __init__(self, app: ASGIApp, wrong: Window) -> None:
        self._app = app
        self._wrong = wrong

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        knocks = scope["type"] == "http" and scope["path"].rstrip("/").endswith(LOGIN)
        if not knocks or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        address = address_of(Request(scope))
        if wait_s := self._wrong.wait_s(address):
            headers = {"Retry-After": str(round(wait_s) + 1)}
            refusal = PlainTextResponse("Too many wrong logins. Try again later.\n", 429, headers)
            await refusal(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                self._wrong.take(address)
            await send(message)

        await self._app(scope, receive, counted)
