"""Signing in with Hugging Face: OpenID Connect's code flow with PKCE, against one provider.

The provider's word is taken for a name and nothing else, from its own server over its own
connection; no token of it is kept. After https://huggingface.co/docs/hub/spaces-oauth and
https://openid.net/specs/openid-connect-core-1_0.html#CodeFlowAuth.
"""

import base64
import hashlib
import logging
import re
import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx

from tpu_ui.errors import TpuUiError

TIMEOUT_S = 15.0
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}", re.ASCII)

log = logging.getLogger(__name__)


class HubError(TpuUiError):
    """Hugging Face did not vouch for anybody. The message says what to do."""


@dataclass(frozen=True, slots=True, repr=False)
class Hub:
    """A provider, and what this app is called there. `own_host`: where the provider knows it to be,
    if not at the address that a browser has."""

    provider: str
    client_id: str
    client_secret: str
    scopes: str = "openid profile"
    own_host: str = ""

    async def address(self, callback: str, state: str, verifier: str) -> str:
        """Where a browser is sent to sign in. It comes back to `callback`. Raises HubError."""
        hashed = hashlib.sha256(verifier.encode()).digest()
        query = {
            "client_id": self.client_id,
            "redirect_uri": callback,
            "response_type": "code",
            "scope": self.scopes,
            "state": state,
            "code_challenge": base64.urlsafe_b64encode(hashed).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
            known = await self._metadata(client)
        return f"{known['authorization_endpoint']}?{urlencode(query)}"

    async def name(self, code: str, callback: str, verifier: str) -> str:
        """Who has signed in there, by the code that her browser brought back. Raises HubError."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback,
            "client_id": self.client_id,
            "code_verifier": verifier,
        }
        async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
            known = await self._metadata(client)
            login = (self.client_id, self.client_secret)
            token = await _asked(client, "POST", known["token_endpoint"], data=form, auth=login)
            bearer = {"Authorization": f"Bearer {token.get('access_token')}"}
            told = await _asked(client, "GET", known["userinfo_endpoint"], headers=bearer)
        name = told.get("preferred_username")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise HubError("Hugging Face named nobody. Try again.")
        return name

    async def _metadata(self, client: httpx.AsyncClient) -> dict[str, str]:
        url = f"{self.provider.rstrip('/')}/.well-known/openid-configuration"
        known = await _asked(client, "GET", url)
        ends = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint")
        # What is asked for goes to the provider's own machine, whatever it says.
        if not all(str(known.get(end)).startswith(self.provider.rstrip("/") + "/") for end in ends):
            raise HubError("Hugging Face does not answer as it should. Try again later.")
        return known


def new_secret() -> str:
    """A state, or a verifier."""
    return secrets.token_urlsafe(48)


async def _asked(client: httpx.AsyncClient, method: str, url: str, **how: Any) -> dict[str, Any]:
    try:
        answer = await client.request(method, url, **how)
        found = answer.raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        log.warning("signing in with Hugging Face failed: %s", type(error).__name__)
        raise HubError("Hugging Face could not be asked who you are. Try again later.") from error
    if not isinstance(found, dict):
        raise HubError("Hugging Face does not answer as it should. Try again later.")
    return found
