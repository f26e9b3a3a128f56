"""Visitor, signed-in visitor, owner: who may do what, whatever door they try."""

import json
import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import gradio as gr
import httpx
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from tests.conftest import Serve, Served
from tests.dispatch.driving import ask, wait_step
from tests.ui.test_mcp import CHEAP, called
from tpu_ui import settings
from tpu_ui.dispatch.outputs import mark_of
from tpu_ui.metadata import read_png
from tpu_ui.passwords import Secret
from tpu_ui.ui.door import HUB, Door, door_of
from tpu_ui.ui.history import History
from tpu_ui.ui.opening import opened

OWNER, VISITOR = "me:a-long:password", "ann:another-password"
STRANGERS = ["", VISITOR, "me:wrong"]


def shown(login: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {login}"} if login else {}


@pytest.fixture(scope="module")
def door() -> Door:
    names = dict(login.split(":", 1) for login in (OWNER, VISITOR))
    logins = {name: Secret.of(password, CHEAP) for name, password in names.items()}
    return door_of(owner="me", logins=logins, locked_at_start=True)


@pytest.fixture(scope="module")
def hosted(serve: Serve, door: Door) -> Iterator[Served]:
    """A locked app that is open to visitors and has an owner."""
    with serve(door=door) as served:
        yield served


@pytest.fixture(autouse=True)
def forgiven(door: Door) -> None:
    """All tests come from one address; what one of them got wrong is not the next one's."""
    door.wrong.forget()


def wired_to(served: Served, element: str, event: str) -> int:
    """The number of what happens on an event of the page, as any browser can read it."""
    config = httpx.get(f"{served.url}config").json()
    (component,) = [
        one["id"] for one in config["components"] if one["props"].get("elem_id") == element
    ]
    wired = [one["id"] for one in config["dependencies"] if [component, event] in one["targets"]]
    return int(wired[-1])


def answers(served: Served, number: int, data: list[Any], login: str = "") -> str:
    """What an event of the page's own answers to a caller."""
    body = {"data": data, "fn_index": number, "session_hash": f"caller-{number}-{login}"}
    with httpx.Client(base_url=served.url, headers=shown(login), timeout=30) as client:
        client.post("gradio_api/queue/join", json=body).raise_for_status()
        url = f"gradio_api/queue/data?session_hash={body['session_hash']}"
        with client.stream("GET", url) as stream:
            lines: list[str] = []
            for line in stream.iter_lines():
                lines.append(line)
                if "process_completed" in line:
                    break
    return "\n".join(lines)


@pytest.mark.parametrize("login", STRANGERS)
def test_only_the_owner_warms_up_unlocks_and_reads_log_and_metrics(
    login: str, hosted: Served
) -> None:
    with (
        closing(Client(hosted.url, headers=shown(login), verbose=False)) as client,
        pytest.raises(AppError, match="Only the owner can do this"),
    ):
        client.predict(size="320x192", api_name="/warm_up")
    for element, event, data in (
        ("lock", "input", [False]),
        ("strategy", "input", ["auto"]),
        ("warm-up", "click", ["demo", "compiled", "320x192"]),
        ("warm-up-cold", "click", ["demo", "compiled", "320x192"]),
    ):
        said = answers(hosted, wired_to(hosted, element, event), data, login)
        assert "Only the owner can do this" in said, element
    assert hosted.dispatcher.status().locked
    told = answers(hosted, wired_to(hosted, "programs", "expand"), [None], login)
    assert "WarmUp: Finished" not in told
    assert httpx.get(f"{hosted.url}metrics", headers=shown(login)).status_code == 401
    assert called(hosted, "warm_up", login=login, size="320x192").isError


def test_the_owner_does_all_that(hosted: Served) -> None:
    assert "tpu_ui_state" in httpx.get(f"{hosted.url}metrics", headers=shown(OWNER)).text
    assert "tpu_ui_state" in httpx.get(f"{hosted.url}metrics", auth=("me", "a-long:password")).text
    with closing(Client(hosted.url, headers=shown(OWNER), verbose=False)) as client:
        assert client.predict(size="256x256", api_name="/warm_up")["state"] == "ready"
    assert not called(hosted, "warm_up", login=OWNER, size="256x256").isError
    told = answers(hosted, wired_to(hosted, "programs", "expand"), [None], OWNER)
    assert "WarmUp: Finished" in told
    assert "success" in answers(hosted, wired_to(hosted, "lock", "input"), [False], OWNER)
    assert not hosted.dispatcher.status().locked
    hosted.dispatcher.set_locked(True)


def test_a_visitor_of_an_unlocked_app_has_no_other_model_loaded(hosted: Served) -> None:
    hosted.dispatcher.set_locked(False)
    try:
        body = {"prompt": "a tree", "model": "sdxl"}
        answer = httpx.post(f"{hosted.url}v1/images/generations", json=body, timeout=30)
    finally:
        hosted.dispatcher.set_locked(True)
    assert answer.status_code == 403
    assert "The one that is: demo" in answer.json()["error"]["message"]


def test_a_second_client_finds_nothing_of_the_firsts(hosted: Served) -> None:
    dispatcher = hosted.dispatcher
    with closing(Client(hosted.url, verbose=False)) as first:
        images, (info,) = first.predict("a secret tree", steps=1, api_name="/generate")
    running = dispatcher.submit(ask(dispatcher, "fake:slow", steps=30, count=4), "first")
    wait_step(dispatcher, running)
    with closing(Client(hosted.url, headers=shown(VISITOR), verbose=False)) as second:
        seen = [
            json.dumps(second.predict(api_name="/status")),
            *(httpx.get(f"{hosted.url}{path}").text for path in ("config", "gradio_api/info", "")),
            httpx.get(f"{hosted.url}gradio_api/queue/status").text,
            answers(hosted, wired_to(hosted, "programs", "expand"), [None], VISITOR),
        ]
        for job in (info["job"][:-1] + "x", "first", "", "*", running[:31], running.upper() + "0"):
            assert second.predict(job, api_name="/cancel")["state"] in ("unknown",), job
    assert not any(secret in text for text in seen for secret in (running, info["job"], "secret"))
    assert dispatcher.tally().cancelled == 0
    (written,) = hosted.outputs.rglob(f"{mark_of(info['job'], 1)}-1-*.png")
    for path in (
        str(written),
        f"{written.parent}/../{written.parent.name}/{written.name}",
        written.name,
        str(hosted.outputs),
    ):
        assert httpx.get(f"{hosted.url}gradio_api/file={path}").status_code in (403, 404), path
    history = History(dispatcher)
    guesses = [f"{written.parent.name}/{'0' * 32}-1-1.png", f"../{written.name}", str(written)]
    kept = history.remember({"job": "0" * 32, "pictures": guesses})
    assert not kept["add"]
    dispatcher.cancel(running)
    assert images


def test_job_ids_and_links_to_pictures_cannot_be_guessed_or_told_from_each_other(
    hosted: Served, tmp_path: Path
) -> None:
    """Whoever is shown a picture cannot cancel its job, nor have the job's other pictures."""
    urls: list[str] = []
    jobs: list[str] = []
    for _ in range(2):
        body = {"prompt": "the same tree", "seed": 7, "steps": 1, "n": 2}
        answer = httpx.post(f"{hosted.url}v1/images/generations", json=body, timeout=30).json()
        jobs.append(answer["data"][0]["info"]["job"])
        urls += [one["url"] for one in answer["data"]]
    assert all(len(job) == 32 and int(job, 16) >= 0 for job in jobs)
    names = [url.rpartition("/")[2] for url in urls]
    marks = {name.partition("-")[0] for name in names}
    assert (len(set(jobs)), len(marks)) == (2, 4)
    assert all(len(mark) == 32 and int(mark, 16) >= 0 for mark in marks)
    shared = [*urls, *map(str, hosted.outputs.rglob("*"))]
    for url in urls:
        content = httpx.get(url).content
        path = tmp_path / "shown.png"
        path.write_bytes(content)
        assert "job" not in read_png(path)
        shared.append(content.decode("latin-1"))
    assert not [text for text in shared for job in jobs if job in text]


def test_passwords_are_in_no_answer_no_address_and_no_log(
    hosted: Served, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with httpx.Client(base_url=hosted.url, follow_redirects=True) as browser:
        entered = browser.post("sign-in", data={"name": "me", "password": "a-long:password"})
        wrong = browser.post("sign-in", data={"name": "me", "password": "nearly-a-password"})
        pages = [browser.get(path).text for path in ("", "config", "gradio_api/info", "sign-in")]
    pages += [entered.text, wrong.text, str(entered.headers), str(entered.url)]
    with closing(Client(hosted.url, headers=shown(OWNER), verbose=False)) as client:
        client.predict("a tree", steps=1, api_name="/generate")
    pages += [*hosted.dispatcher.log_lines(0), *capfd.readouterr()]
    pages += [one.getMessage() for one in caplog.records if one.name.startswith(("tpu_ui", "gr"))]
    for password in ("a-long:password", "nearly-a-password", "scrypt$"):
        assert not any(password in page for page in pages), password


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites_and_ends_with_signing_out(
    hosted: Served, door: Door
) -> None:
    with httpx.Client(base_url=hosted.url) as browser:
        told = browser.post("sign-in", data={"name": "ann", "password": "another-password"})
        cookie = told.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert browser.get("config").json()["username"] == "ann"
        kept = dict(browser.cookies)
        assert browser.post("sign-out").status_code == 303
    assert httpx.get(f"{hosted.url}config", cookies=kept).json()["username"] == ""
    forged = {door.sessions.cookie: "ann"}
    assert httpx.get(f"{hosted.url}config", cookies=forged).json()["username"] == ""


def test_guessing_passwords_is_stopped_at_every_door(serve: Serve) -> None:
    login = ("me", "a-long-password")
    door = door_of(owner="me", logins={"me": Secret.of(login[1], CHEAP)}, closed=True)
    with serve(door=door, wait=False) as served, httpx.Client(base_url=served.url) as guesser:
        for number in range(10):
            wrong = {"username": "me", "password": str(number)}
            assert guesser.post("login", data=wrong).status_code == 400
        right = guesser.post("login", data=dict(zip(("username", "password"), login, strict=True)))
        assert right.status_code == 429
        assert int(right.headers["Retry-After"]) > 30
        assert guesser.get("metrics", auth=login).status_code == 401


def test_the_form_stops_guessing_too(hosted: Served) -> None:
    with httpx.Client(base_url=hosted.url) as guesser:
        for number in range(10):
            wrong = {"name": "me", "password": str(number)}
            assert guesser.post("sign-in", data=wrong).status_code == 403
        right = guesser.post("sign-in", data={"name": "me", "password": "a-long:password"})
        assert right.status_code == 429
        assert int(right.headers["Retry-After"]) > 30


@pytest.mark.parametrize(
    ("host", "owns"),
    [
        ("localhost:7860", True),
        ("127.0.0.1:7860", True),
        ("[::1]:7860", True),
        ("192.168.0.7", True),
        ("tpu-vm:7860", True),
        ("tpu-vm.local", True),
        ("evil.example:7860", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example.", False),
    ],
)
def test_where_everybody_owns_the_app_a_strangers_name_for_it_does_not(
    host: str, owns: bool
) -> None:
    door = door_of(locked_at_start=False)
    assert door.owns(gr.Request(headers={"host": host})) is owns


@pytest.mark.parametrize(
    ("arguments", "space", "everybodys"),
    [
        ([], {}, True),
        (["--lock"], {}, False),
        (["--share", "--no-lock"], {}, False),
        (["--no-lock"], {"SPACE_ID": "author/app"}, False),
        (["--owner", "me:a-long:password"], {}, False),
        (["--auth", "me:a-long:password"], {}, False),
    ],
)
def test_everybody_owns_the_app_on_ones_own_machine_alone(
    arguments: list[str], space: dict[str, str], everybodys: bool
) -> None:
    chosen = settings.read(arguments, space)
    given = chosen.auth or chosen.owner
    logins = {given[0]: Secret.of(given[1], CHEAP)} if given else {}
    door = opened(chosen, logins, locked_at_start=chosen.lock)
    assert door.everybody is everybodys
    local = {"host": "127.0.0.1:7860"}
    assert door.owns(gr.Request(headers=local, username="")) is everybodys
    assert door.owns(gr.Request(headers=local, username="me")) is (everybodys or bool(given))


def test_who_hugging_face_vouches_for_cannot_take_the_name_of_a_login(door: Door) -> None:
    assert door.owns(gr.Request(username="me", headers={}))
    assert not door.owns(gr.Request(username=f"{HUB}me", headers={}))
    assert not door.logins.knows(f"{HUB}me", "a-long:password")
