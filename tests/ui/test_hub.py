"""Signing in with Hugging Face, against a stand-in of it on this machine."""

import base64
import hashlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.conftest import Serve, Served, free_port
from tpu_ui import settings
from tpu_ui.ui.door import Door, door_of
from tpu_ui.ui.hub import Hub

SECRET = "the client's secret"


@dataclass
class Provider:
    """Does what the code flow asks of one, and no more. `person`: who sits at the browser."""

    url: str = ""
    person: object = "author"
    elsewhere: str = ""
    granted: dict[str, dict[str, str]] = field(default_factory=dict)

    async def metadata(self, request: Request) -> Response:
        ends = {
            f"{name}_endpoint": f"{self.url}/{name}"
            for name in ("authorization", "token", "userinfo")
        }
        return JSONResponse(ends | ({"token_endpoint": self.elsewhere} if self.elsewhere else {}))

    async def authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert asked["response_type"] == "code"
        assert asked["client_id"] == "the app"
        code = f"code-{len(self.granted)}"
        self.granted[code] = asked
        query = urlencode({"code": code, "state": asked["state"]})
        return RedirectResponse(f"{asked['redirect_uri']}?{query}")

    async def token(self, request: Request) -> Response:
        form = {key: one[0] for key, one in parse_qs((await request.body()).decode()).items()}
        asked = self.granted.pop(form["code"], {})
        login = base64.b64encode(f"the app:{SECRET}".encode()).decode()
        hashed = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()
        right = (
            request.headers["authorization"] == f"Basic {login}"
            and challenge == asked.get("code_challenge")
            and form["redirect_uri"] == asked["redirect_uri"]
        )
        return JSONResponse({"access_token": "of-this-person"}, 200 if right else 400)

    async def userinfo(self, request: Request) -> Response:
        assert request.headers["authorization"] == "Bearer of-this-person"
        return JSONResponse({"sub": "1", "preferred_username": self.person})


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    made = Provider(f"http://127.0.0.1:{free_port()}")
    routes = [
        Route("/.well-known/openid-configuration", made.metadata),
        Route("/authorization", made.authorize),
        Route("/token", made.token, methods=["POST"]),
        Route("/userinfo", made.userinfo),
    ]
    port = urlsplit(made.url).port or 0
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield made
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def door(provider: Provider) -> Door:
    hub = Hub(provider.url, "the app", SECRET)
    return door_of(hub=hub, hub_owners=["author"], locked_at_start=True)


@pytest.fixture(scope="module")
def space(serve: Serve, door: Door) -> Iterator[Served]:
    with serve(door=door, wait=False) as served:
        yield served


@pytest.fixture
def browser(space: Served, provider: Provider) -> Iterator[httpx.Client]:
    provider.person, provider.elsewhere = "author", ""
    with httpx.Client(base_url=space.url, follow_redirects=True, timeout=30) as browser:
        yield browser


def name(browser: httpx.Client) -> str:
    return str(browser.get("config").json()["username"])


def test_the_author_signs_in_with_hugging_face_and_owns_the_space(browser: httpx.Client) -> None:
    assert name(browser) == ""
    assert browser.get("metrics").status_code == 403
    assert "Sign in with Hugging Face" in browser.get("sign-in").text
    assert "password" not in browser.get("sign-in").text
    told = browser.get("sign-in/hub")
    assert told.status_code == 200
    assert "Signed in" in told.text
    assert 'content="0;url=../"' in told.text
    assert name(browser) == "hf:author"
    assert browser.get("metrics").status_code == 200
    browser.post("sign-out")
    assert name(browser) == ""


def test_another_person_is_a_visitor_with_a_name(browser: httpx.Client, provider: Provider) -> None:
    provider.person = "somebody"
    browser.get("sign-in/hub")
    assert name(browser) == "hf:somebody"
    assert browser.get("metrics").status_code == 403


def test_a_way_in_that_another_browser_began_leads_nowhere(
    browser: httpx.Client, space: Served
) -> None:
    with httpx.Client(base_url=space.url, timeout=30) as attacker:
        there = attacker.get("sign-in/hub").headers["location"]
        back = attacker.get(there).headers["location"]
    answer = browser.get(back)
    assert answer.status_code == 403
    assert "not begun here" in answer.text
    assert name(browser) == ""
    assert browser.get("sign-in/back?code=x&state=").status_code == 403


@pytest.mark.parametrize("person", ["", None, "a:b", "a b", "<b>", "x" * 200, ["author"]])
def test_a_name_that_is_none_is_nobodys(
    person: object, browser: httpx.Client, provider: Provider
) -> None:
    provider.person = person
    answer = browser.get("sign-in/hub")
    assert answer.status_code == 502
    assert "named nobody" in answer.text
    assert name(browser) == ""


def test_the_secret_goes_to_the_provider_alone(browser: httpx.Client, provider: Provider) -> None:
    provider.elsewhere = "http://evil.example/token"
    answer = browser.get("sign-in/hub")
    assert answer.status_code == 502
    assert "does not answer as it should" in answer.text


def test_a_space_is_told_all_of_it_by_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    space = {
        "SPACE_ID": "author/app",
        "SPACE_AUTHOR_NAME": "author",
        "SPACE_HOST": "author-app.hf.space,app.example",
        "OAUTH_CLIENT_ID": "the app",
        "OAUTH_CLIENT_SECRET": SECRET,
    }
    chosen = settings.read([], space)
    assert chosen.hub is not None
    assert (chosen.hub.provider, chosen.hub.own_host) == (
        "https://huggingface.co",
        "author-app.hf.space",
    )
    assert chosen.hub_owners == ("author",)
    assert chosen.has_owner
    assert SECRET not in repr(chosen) + repr(chosen.hub)
    named = settings.read(["--hub-owners", "ann, ben"], space)
    assert named.hub_owners == ("ann", "ben")
    assert settings.read(["--auth", "me:password"], space).hub is None
    assert settings.read([], {**space, "OAUTH_CLIENT_ID": ""}).hub is None
    monkeypatch.setenv("TPU_UI_OWNER", "me:secret")
    assert settings.from_process([]).owner == ("me", "secret")
    assert settings.from_process([]).owner is None, "workers inherit the environment"
