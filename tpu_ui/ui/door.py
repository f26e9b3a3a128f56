"""Who may come in through the routes that are not Gradio's, which asks at its own; and who owns
the app."""

import base64
import binascii
import secrets
from dataclasses import dataclass

import gradio as gr
from starlette.requests import Request

Login = tuple[str, str]  # user, password


@dataclass(frozen=True, slots=True)
class Door:
    """Open if there is no login. Else a caller shows it as HTTP basic authentication, or as the
    bearer token "USER:PASSWORD", as OpenAI's clients do with their key.
    """

    login: Login | None

    def lets_in(self, request: Request) -> bool:
        """Takes the same time for every wrong login of a length."""
        if self.login is None:
            return True
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":
            try:
                shown = base64.b64decode(shown, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                return False
        elif scheme.lower() != "bearer":
            return False
        return secrets.compare_digest(shown.encode(), ":".join(self.login).encode())


@dataclass(frozen=True, slots=True)
class Ownership:
    """Who may change how the app runs, and read its log.

    With a login: whoever has shown it. Without one: everybody, if the app was started unlocked, as
    on one's own machine; nobody, if it was started locked, since then it is shared or hosted and
    nobody can show who she is.
    """

    login: Login | None
    locked_at_start: bool

    def may_own(self, request: gr.Request | None) -> bool:
        if self.login is None:
            return not self.locked_at_start
        return request is not None and request.username == self.login[0]
