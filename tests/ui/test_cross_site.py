"""What pages of other sites can do in the name of whoever looks at them: nothing that is hers."""

from collections.abc import Iterator

import httpx
import pytest
from starlette.types import Scope

from tests.conftest import Serve, Served
from tests.ui.test_roles import CHEAP
from tpu_ui.passwords import Secret
from tpu_ui.ui.cross_site import is_foreign
from tpu_ui.ui.door import Door, door_of

EVIL = {"Origin": "https://evil.example"}
FETCHED = {**EVIL, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
PICTURE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
FORM = {**LINK, "Origin": "null"}


@pytest.mark.parametrize(
    ("method", "headers", "foreign"),
    [
        ("POST", FETCHED, True),
        ("GET", FETCHED, True),
        ("GET", PICTURE, True),
        ("GET", LINK, False),
        ("POST", FORM, True),
        ("POST", EVIL, True),
        ("POST", {"Origin": "null"}, True),
        ("POST", {"Origin": "http://app.example:9000"}, False),
        ("POST", {"Origin": "http://sub.app.example", "Sec-Fetch-Site": "same-site"}, True),
        ("POST", {"Origin": "https://app.example", "Sec-Fetch-Site": "same-origin"}, False),
        ("POST", {"Origin": "http://[bad", "Sec-Fetch-Site": ""}, True),
        ("GET", {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, False),
        ("POST", {}, False),
        ("GET", {}, False),
    ],
)
def test_another_sites_page_is_known_by_what_its_browser_says(
    method: str, headers: dict[str, str], foreign: bool
) -> None:
    raw = [(b"host", b"app.example:7860")]
    raw += [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope: Scope = {"type": "http", "method": method, "headers": raw}
    assert is_foreign(scope) is foreign


@pytest.fixture(scope="module")
def door() -> Door:
    return door_of(owner="me", logins={"me": Secret.of("password", CHEAP)}, locked_at_start=True)


@pytest.fixture(scope="module")
def hosted(serve: Serve, door: Door) -> Iterator[Served]:
    with serve(door=door) as served:
        yield served


@pytest.mark.parametrize("headers", [FETCHED, EVIL, FORM])
def test_another_sites_page_asks_as_a_stranger_whoever_looks_at_it(
    headers: dict[str, str], hosted: Served, door: Door
) -> None:
    cookies = {door.sessions.cookie: door.sessions.begin("me")}
    basic = {**headers, "Authorization": "Basic bWU6cGFzc3dvcmQ="}
    with httpx.Client(base_url=hosted.url, cookies=cookies) as browser:
        assert browser.get("config").json()["username"] == "me"
        assert browser.get("config", headers={**FETCHED}).json()["username"] == ""
        assert browser.get("metrics").status_code == 200
        assert browser.get("metrics", headers={**basic, **FETCHED}).status_code == 401
        body = {"data": [False], "fn_index": _lock(browser), "session_hash": f"evil{len(headers)}"}
        assert browser.post("gradio_api/queue/join", json=body, headers=basic).is_success
        url = f"gradio_api/queue/data?session_hash={body['session_hash']}"
        with browser.stream("GET", url) as stream:
            assert any("Only the owner can do this" in line for line in stream.iter_lines())
        assert browser.post("sign-out", headers=headers).status_code == 403
        assert browser.post("sign-in", headers=headers).status_code == 403
        assert browser.get("config").json()["username"] == "me"
    assert hosted.dispatcher.status().locked


def _lock(browser: httpx.Client) -> int:
    config = browser.get("config").json()
    (lock,) = [one["id"] for one in config["components"] if one["props"].get("elem_id") == "lock"]
    (number,) = [one["id"] for one in config["dependencies"] if [lock, "input"] in one["targets"]]
    return int(number)


def test_on_ones_own_machine_another_sites_page_is_refused(server: Served) -> None:
    for path in ("gradio_api/queue/join", "v1/images/generations", "gradio_api/upload"):
        answer = httpx.post(f"{server.url}{path}", json={"prompt": "a tree"}, headers=EVIL)
        assert answer.status_code == 403
        assert "other sites" in answer.text
    for path in ("", "config", "metrics", "gradio_api/info"):
        assert httpx.get(f"{server.url}{path}", headers=FETCHED).status_code == 403
    assert httpx.get(f"{server.url}health", headers=FETCHED).status_code == 200
    assert httpx.get(server.url, headers=LINK).status_code == 200
    own = {"Origin": "http://127.0.0.1:9"}
    body = {"prompt": "a tree", "steps": 1}
    answer = httpx.post(f"{server.url}v1/images/generations", json=body, headers=own, timeout=30)
    assert answer.status_code == 200
