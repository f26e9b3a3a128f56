"""Who may come in through the routes that are not Gradio's; Gradio asks at its own."""

import base64
import binascii
import secrets
from dataclasses import dataclass

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
