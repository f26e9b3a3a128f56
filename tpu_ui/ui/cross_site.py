"""What pages of other sites may ask for in the name of whoever looks at them: nothing of hers.

A browser adds to a request what belongs to the person before it, her cookies, her place in the
network, though another site's page makes it; and Gradio lets such pages read the answers.
"""

from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tpu_ui.ui.door import Door

REFUSED = "Pages of other sites cannot ask here.\n"
READING = ("GET", "HEAD")
OPEN_TO_ALL = ("/health",)
SIGNING_IN = ("/login", "/sign-in", "/sign-out")


class CrossSite:
    """ASGI middleware. What comes from another site's page is refused where whoever reaches the app
    owns it, and elsewhere stripped of what the browser knows of a person, so that a stranger asks.

    Following a link is not asking: it passes. So does what shows a key of its own, which the other
    page then has to know.
    """

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_foreign(scope):
            await self._app(scope, receive, send)
            return
        path = scope["path"].rstrip("/")
        signing_in = path.endswith(SIGNING_IN) and scope["method"] not in READING
        if signing_in or (self._door.everybody and not path.endswith(OPEN_TO_ALL)):
            refusal = PlainTextResponse(REFUSED, HTTPStatus.FORBIDDEN)
            await refusal(scope, receive, send)
            return
        headers = MutableHeaders(scope=scope)
        del headers["cookie"]
        if not headers.get("authorization", "").lower().startswith("bearer "):
            del headers["authorization"]
        await self._app(scope, receive, send)


def is_foreign(scope: Scope) -> bool:
    """Whether a page of another site makes this request.

    Browsers say so by Sec-Fetch-Site, but for old ones, and not to a server without TLS elsewhere;
    then by Origin, with all that is not plain reading. Ports are not told apart, as cookies do not.
    """
    headers = Headers(scope=scope)
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site in ("same-origin", "none"):
        return False
    if site is not None and scope["method"] in READING:
        if headers.get("sec-fetch-mode") == "navigate":
            return False
        if origin is None:
            return site == "cross-site"
    if origin is None:
        return site == "cross-site"
    return site == "cross-site" or _name(origin) != _name(f"//{headers.get('host', '')}")


def _name(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
