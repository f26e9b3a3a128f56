"""The page by which a visitor of an open app signs in, and the line that leads to it.

A password goes from this form into the check and nowhere else: through none of Gradio's components,
and into no address.
"""

import html
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import parse_qs

import gradio as gr
from gradio.route_utils import get_root_url
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from tpu_ui.ui.door import HUB, Door
from tpu_ui.ui.hub import Hub, HubError, new_secret
from tpu_ui.ui.visitor import address_of
from tpu_ui.ui.words import Words, words_for

PATH = "/sign-in"
CALLBACK = f"{PATH}/back"
MAX_BODY_BYTES = 10_000
ON_THE_WAY_S = 600
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'",
    "Referrer-Policy": "no-referrer",
}
FRAME = """<!doctype html><html lang="{language}"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>TPU UI</title>{more}
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 20rem; margin: 15vh auto; padding: 0 1rem; }}
h1 {{ font-size: 1.25rem; }}
label, input, button, a.go {{ display: block; width: 100%; box-sizing: border-box; }}
input, button, a.go {{ font: inherit; padding: .5rem .75rem; margin: .25rem 0 1rem;
  border: 1px solid #8888; border-radius: 6px; }}
button, a.go {{ background: #0f766e; color: white; text-align: center; text-decoration: none; }}
</style><main><h1>{title}</h1>{body}</main></html>"""


def sign_in_routes(door: Door) -> list[Route]:
    """None where nobody can sign in, or where Gradio's own page asks for it."""
    if not door.signs_in:
        return []
    signing = _Signing(door)
    routes = [
        Route(PATH, signing.form, methods=["GET"]),
        Route(PATH, signing.enter, methods=["POST"]),
        Route("/sign-out", signing.leave, methods=["POST"]),
    ]
    if door.hub is not None:
        routes += [
            Route(f"{PATH}/hub", signing.to_hub, methods=["GET"]),
            Route(CALLBACK, signing.back, methods=["GET"]),
        ]
    return routes


def line_html(words: Words, door: Door, request: gr.Request | None) -> str:
    """Who the page belongs to, and the way in or out."""
    name = (request.username if request else None) or ""
    if not name:
        # A Space lies in a frame of another site, where a browser keeps no cookie of this one.
        target = ' target="_blank"' if door.hub is not None else ""
        return f'<p class="tpu-who"><a href=".{PATH}"{target}>{words("Sign in")}</a></p>'
    shown = html.escape(name.removeprefix(HUB))
    if door.owns(request):
        shown = words("{name} (owner)", name=shown)
    return (
        f'<form class="tpu-who" method="post" action="./sign-out">{shown} '
        f"<button>{words('Sign out')}</button></form>"
    )


class _Signing:
    def __init__(self, door: Door) -> None:
        self._door = door
        self._on_the_way = f"{door.sessions.cookie}-way"

    async def form(self, request: Request) -> Response:
        return self._page(_words(request))

    async def enter(self, request: Request) -> Response:
        words, address = _words(request), address_of(request)
        if wait_s := self._door.wrong.wait_s(address):
            told = words("Too many wrong logins. Try again in {time}.", time=words.whole(wait_s))
            headers = {"Retry-After": str(round(wait_s) + 1)}
            return self._page(words, told, HTTPStatus.TOO_MANY_REQUESTS, headers)
        fields = await _fields(request)
        name, password = fields.get("name", ""), fields.get("password", "")
        if not await self._door.knows(name, password, address):
            return self._page(words, words("That is no login here."), HTTPStatus.FORBIDDEN)
        return self._signed_in(request, name)

    async def leave(self, request: Request) -> Response:
        self._door.sessions.end(request)
        answer = RedirectResponse("./", HTTPStatus.SEE_OTHER)
        answer.delete_cookie(self._door.sessions.cookie)
        return answer

    async def to_hub(self, request: Request) -> Response:
        hub = self._door.hub
        assert hub is not None
        state, verifier = new_secret(), new_secret()
        try:
            address = await hub.address(_callback(request, hub), state, verifier)
        except HubError as error:
            words = _words(request)
            return self._page(words, words.sentence(str(error)), HTTPStatus.BAD_GATEWAY, up="../")
        answer = RedirectResponse(address, HTTPStatus.SEE_OTHER)
        # Lax, for the browser comes back from another site.
        answer.set_cookie(
            self._on_the_way,
            f"{state}.{verifier}",
            max_age=ON_THE_WAY_S,
            httponly=True,
            samesite="lax",
            secure=self._is_secure(request),
        )
        return answer

    async def back(self, request: Request) -> Response:
        assert self._door.hub is not None
        words = _words(request)
        state, _, verifier = request.cookies.get(self._on_the_way, "").partition(".")
        code = request.query_params.get("code", "")
        if not state or not code or not _same(state, request.query_params.get("state", "")):
            told = words("This was not begun here, or too long ago. Sign in again.")
            return self._page(words, told, HTTPStatus.FORBIDDEN, up="../")
        try:
            name = await self._door.hub.name(code, _callback(request, self._door.hub), verifier)
        except HubError as error:
            return self._page(words, words.sentence(str(error)), HTTPStatus.BAD_GATEWAY, up="../")
        answer = self._signed_in(request, HUB + name, up="../")
        answer.delete_cookie(self._on_the_way)
        return answer

    def _signed_in(self, request: Request, name: str, up: str = "./") -> Response:
        """A page of ours that goes on to the app: a strict cookie would not come along with a
        redirection that another site has begun."""
        words = _words(request)
        body = f'<a class="go" href="{up}">{words("Go on")}</a>'
        more = f'<meta http-equiv="refresh" content="0;url={up}">'
        answer = _framed(words, words("Signed in"), body, more)
        answer.set_cookie(
            self._door.sessions.cookie,
            self._door.sessions.begin(name),
            httponly=True,
            samesite="strict",
            secure=self._is_secure(request),
        )
        return answer

    def _is_secure(self, request: Request) -> bool:
        hosted = self._door.hub is not None and bool(self._door.hub.own_host)
        return request.url.scheme == "https" or hosted

    def _page(
        self,
        words: Words,
        told: str = "",
        status: HTTPStatus = HTTPStatus.OK,
        headers: Mapping[str, str] | None = None,
        up: str = "./",
    ) -> Response:
        body = f'<p role="alert">{html.escape(told)}</p>' if told else ""
        if self._door.hub is not None:
            there = words("Sign in with Hugging Face")
            body += f'<a class="go" href="{up}sign-in/hub">{there}</a>'
        if self._door.logins:
            body += (
                f'<form method="post" action="{up}sign-in">'
                f"<label>{words('Name')}"
                '<input name="name" autocomplete="username" autocapitalize="none" required></label>'
                f"<label>{words('Password')}"
                '<input name="password" type="password" autocomplete="current-password" required>'
                f"</label><button>{words('Sign in')}</button></form>"
            )
        return _framed(words, words("Sign in"), body, status=status, headers=headers)


def _framed(
    words: Words,
    title: str,
    body: str,
    more: str = "",
    status: HTTPStatus = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
) -> Response:
    text = FRAME.format(language=words.language, title=title, body=body, more=more)
    return HTMLResponse(text, status, {**HEADERS, **(headers or {})})


async def _fields(request: Request) -> dict[str, str]:
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > MAX_BODY_BYTES:
            return {}
    try:
        sent = parse_qs(content.decode(), max_num_fields=10)
    except ValueError:
        return {}
    return {name: values[0] for name, values in sent.items()}


def _same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode())


def _callback(request: Request, hub: Hub) -> str:
    """Where the provider sends a browser back to."""
    if hub.own_host:
        return f"https://{hub.own_host}{CALLBACK}"
    return f"{get_root_url(request, request.url.path, None)}{CALLBACK}"


def _words(request: Request) -> Words:
    return words_for(request.headers.get("accept-language"))
