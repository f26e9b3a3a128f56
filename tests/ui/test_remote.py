"""Two apps: one with no chip, which has the other do the work."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from gradio_client import Client

from tests.conftest import Serve, Served, free_port, page_of, presets_with
from tests.dispatch.driving import (
    all_updates,
    ask,
    ending_of,
    in_time,
    saved_by,
    wait_for,
    wait_ready,
    wait_step,
)
from tests.launching import ROOT, running
from tests.processes import family
from tpu_ui.dispatch.far import Far
from tpu_ui.dispatch.interface import Queued
from tpu_ui.dispatch.outputs import mark_of
from tpu_ui.dispatch.remote import RemoteDispatcher
from tpu_ui.errors import AwayError, InvalidRequestError, LockedError, NotTheOwnerError
from tpu_ui.metadata import read_png
from tpu_ui.presets import load_all
from tpu_ui.protocol import Cancelled, Failed, Finished, Stepped, Warmed
from tpu_ui.shapes import ImageSize, Mode, ProgramState
from tpu_ui.ui.allowance import Allowance
from tpu_ui.ui.door import door_of

LOGIN = ("me", "a-long-password")
TOKEN = ":".join(LOGIN)
WIDE = ImageSize(320, 192)


@contextmanager
def front_end(
    folder: Path, url: str, token: str | None = TOKEN, locked: bool = False
) -> Iterator[RemoteDispatcher]:
    dispatcher = RemoteDispatcher(
        load_all(),
        url=url.rstrip("/"),
        token=token,
        locked=locked,
        outputs=folder / "outputs",
        cache=folder / "cache",
        every_s=0.2,
    )
    try:
        yield dispatcher
    finally:
        dispatcher.close()


@pytest.fixture(scope="module")
def far(serve: Serve) -> Iterator[Served]:
    """Locked, behind a login; 256x256 is ready."""
    with serve(login=LOGIN) as served:
        yield served


@pytest.fixture(scope="module")
def near(far: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteDispatcher]:
    with front_end(tmp_path_factory.mktemp("near"), far.url) as dispatcher:
        wait_ready(dispatcher)
        yield dispatcher


@pytest.fixture(scope="module")
def page(near: RemoteDispatcher) -> Iterator[str]:
    with page_of(near) as url:
        yield url


def test_state_limits_and_tokenizers_are_the_far_ones(near: RemoteDispatcher, far: Served) -> None:
    assert near.status() == far.dispatcher.status()
    assert near.presets.keys() == far.dispatcher.presets.keys()
    for name in near.presets:
        assert near.limits(name) == far.dispatcher.limits(name)
    wait_for(near, lambda _: near.readers("demo") == far.dispatcher.readers("demo"))
    assert near.readers("demo")


def test_steps_and_pictures_come_through_and_the_files_are_the_same(
    near: RemoteDispatcher, far: Served
) -> None:
    job = near.submit(ask(near, "fake:slow", steps=3, count=2))
    updates = all_updates(near, job)
    steps = [update for update in updates if isinstance(update, Stepped)]
    assert {step.image for step in steps} == {1, 2}
    assert any(step.steps == 3 and step.step == 2 for step in steps)
    assert all(update.job == job for update in updates)
    saved = saved_by(near, job)
    there = {name: next(far.outputs.rglob(name)).read_bytes() for name in names_of(job, count=2)}
    assert {one.path.name: one.path.read_bytes() for one in saved} == there
    assert [one.info.seed for one in saved] == [7, 8]
    assert [read_png(one.path) for one in saved] == [one.info.written() for one in saved]
    assert {one.info.job for one in saved} == {job}


def names_of(job: str, seed: int = 7, count: int = 1) -> list[str]:
    """Of its pictures."""
    return [f"{mark_of(job, n)}-{n}-{seed + n - 1}.png" for n in range(1, count + 1)]


def test_previews_come_through_while_the_picture_is_made(near: RemoteDispatcher) -> None:
    job = near.submit(ask(near, "fake:slow fake:preview", steps=8))
    # They are forgotten when it is over.
    seen = (one.preview for one in near.updates(job) if isinstance(one, Stepped))
    assert next(filter(None, seen)).startswith(b"\xff\xd8")
    near.cancel(job)


def test_refusals_of_the_far_app_come_as_they_are_there(near: RemoteDispatcher) -> None:
    with pytest.raises(LockedError, match="320x192 is not ready in compiled"):
        near.submit(ask(near, size="320x192"))
    with pytest.raises(InvalidRequestError, match="There is no model 'nope'"):
        near.limits("nope")
    with pytest.raises(InvalidRequestError, match="There is no model 'nope'"):
        near._far.ask("readers", "nope")
    ending = ending_of(near, near.submit(ask(near, "fake:broken")))
    assert isinstance(ending, Failed)
    assert ending.message == "The model made NaN values (fake:broken)."
    assert isinstance(ending_of(near, near.submit(ask(near))), Finished)


def test_how_long_to_wait_comes_through(serve: Serve, tmp_path: Path) -> None:
    door = door_of(locked_at_start=True, allowance=Allowance(60, 1))
    with serve(door=door) as far, front_end(tmp_path, far.url, None) as near:
        wait_ready(near)
        with page_of(near) as page:
            for status, code in ((200, None), (429, "rate_limit_exceeded")):
                body = {"prompt": "a tree", "steps": 1}
                answer = httpx.post(f"{page}v1/images/generations", json=body, timeout=30)
                assert answer.status_code == status
                assert answer.json().get("error", {}).get("code") == code
            assert 3_500 < int(answer.headers["Retry-After"]) <= 3_600


def test_cancel_goes_through(near: RemoteDispatcher, far: Served) -> None:
    running_one = near.submit(ask(near, "fake:slow", steps=30))
    wait_step(near, running_one)
    waiting = near.submit(ask(near, "waits"))
    assert isinstance(first_of(near, waiting), Queued)
    for job in (waiting, running_one):
        assert near.cancel(job).state == "cancelled"
        assert isinstance(ending_of(near, job), Cancelled)
        assert isinstance(ending_of(far.dispatcher, job), Cancelled)
    assert near.cancel(running_one).state == "cancelled"


def first_of(near: RemoteDispatcher, job: str) -> object:
    return in_time(lambda: next(iter(near.updates(job))))


def test_jobs_that_were_not_asked_for_here_are_not_cancelled(
    near: RemoteDispatcher, far: Served
) -> None:
    others = far.dispatcher.submit(ask(far.dispatcher, "fake:slow", steps=5))
    assert near.cancel(others).state == "unknown"
    assert isinstance(ending_of(far.dispatcher, others), Finished)


def test_visitors_of_the_front_end_take_turns_at_the_far_app(
    near: RemoteDispatcher, far: Served
) -> None:
    first = near.submit(ask(near, "fake:slow", steps=30), "greedy")
    wait_step(near, first)
    asked = [near.submit(ask(near, f"greedy {number}"), "greedy") for number in range(3)]
    asked.append(near.submit(ask(near, "modest"), "modest"))
    near.cancel(first)
    saved = [one for job in asked for one in saved_by(near, job)]
    saved.sort(key=lambda one: next(far.outputs.rglob(one.path.name)).stat().st_mtime_ns)
    assert [one.info.prompt for one in saved][:2] == ["greedy 0", "modest"]


def test_job_whose_pictures_nobody_wants_is_cancelled_when_its_turn_comes(
    near: RemoteDispatcher,
) -> None:
    first = near.submit(ask(near, "fake:slow", steps=30))
    wait_step(near, first)
    left = near.submit(ask(near, "fake:slow", steps=30), "gone", kept=False)
    first_of(near, left)  # and goes away
    near.cancel(first)
    wait_for(near, lambda _: any(isinstance(one, Cancelled) for one in near.recorded(left)))


def test_page_and_api_of_the_front_end_serve_the_far_pictures(page: str, far: Served) -> None:
    client = Client(page, verbose=False)
    (image,), (info,) = client.predict("a tree", styles=["night"], seed=3, api_name="/generate")
    client.close()
    there = next(far.outputs.rglob(*names_of(info["job"], seed=3)))
    assert Path(image).read_bytes() == there.read_bytes()
    assert info["unstyled_prompt"] == "a tree"
    assert httpx.get(f"{page}health").json()["state"] == "ready"


def test_warm_up_goes_through_and_is_followed(serve: Serve, tmp_path: Path) -> None:
    slow = presets_with("fake:slow-warm")
    with (
        serve(locked=False, presets=slow) as far,
        front_end(tmp_path, far.url, token=None) as near,
    ):
        wait_ready(near)
        job = near.warm_up("demo", Mode.COMPILED, WIDE)
        assert near.warm_up("demo", Mode.COMPILED, WIDE) == job  # it goes on, and is not doubled
        updates = all_updates(near, job)
        assert isinstance(updates[-1], Finished)
        assert any(isinstance(one, Warmed) and one.size == WIDE for one in updates)
        ready = ProgramState.READY
        wait_for(near, lambda status: status.sizes[Mode.COMPILED][WIDE].state is ready)
        # It is ready: nothing is left to follow, and the answer is the same.
        again = near.warm_up("demo", Mode.COMPILED, WIDE)
        assert isinstance(ending_of(near, again), Finished)


def test_many_at_once_are_all_served_and_none_twice(near: RemoteDispatcher, far: Served) -> None:
    def one(number: int) -> str:
        job = near.submit(ask(near, f"one of many, {number}", steps=1), f"visitor {number}")
        assert isinstance(ending_of(near, job), Finished)
        return job

    with ThreadPoolExecutor(20) as visitors:
        jobs = list(visitors.map(one, range(40)))
    assert len(set(jobs)) == 40
    names = [name for job in jobs for name in names_of(job)]
    for outputs in (near.outputs, far.outputs):
        assert all(len(list(outputs.rglob(name))) == 1 for name in names)


def test_front_end_that_ends_takes_its_jobs_along(far: Served, tmp_path: Path) -> None:
    with front_end(tmp_path, far.url) as near:
        wait_ready(near)
        job = near.submit(ask(near, "fake:slow", steps=30, count=4))
        wait_step(near, job)
    assert isinstance(ending_of(near, job), Cancelled)
    assert isinstance(ending_of(far.dispatcher, job), Cancelled)


def test_lock_of_the_front_end_holds_though_the_far_app_is_open(
    serve: Serve, tmp_path: Path
) -> None:
    with serve(locked=False) as far, front_end(tmp_path, far.url, None, locked=True) as near:
        wait_ready(near)
        assert near.status().locked
        with pytest.raises(LockedError, match="320x192 is not ready"):
            near.submit(ask(near, size="320x192"))
        near.set_locked(False)
        assert not near.status().locked
        far.dispatcher.set_locked(True)
        wait_for(near, lambda status: status.locked)
        with pytest.raises(NotTheOwnerError, match="unlock them there"):
            near.set_locked(False)


def test_wrong_token_is_told_and_nothing_is_asked(far: Served, tmp_path: Path) -> None:
    with front_end(tmp_path, far.url, "me:a-wrong-password") as near:
        told = wait_for(near, lambda status: "refuses" in status.detail)
        assert "refuses the login of --remote-token, for" in told.detail
        assert "a-wrong-password" not in told.detail
        with pytest.raises(AwayError):
            near.submit(ask(near))


class Other(BaseHTTPRequestHandler):
    """A server that is no TPU UI: it answers everything with `ANSWER`."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        content = json.dumps({"data": [{"state": "ready"}]}).encode()
        self.send_response(404 if "models" in self.path else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        pass


def test_another_program_at_that_address_is_told(tmp_path: Path) -> None:
    other = ThreadingHTTPServer(("127.0.0.1", 0), Other)
    thread = threading.Thread(target=other.serve_forever)
    thread.start()
    try:
        with front_end(tmp_path, f"http://127.0.0.1:{other.server_port}") as near:
            wait_for(near, lambda status: "does not answer as a TPU UI" in status.detail)
    finally:
        other.shutdown()
        other.server_close()
        thread.join()


# The far app goes away, and comes back


@contextmanager
def far_process(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.ui.serving_fakes", str(folder), str(port)]
    with (folder / "far.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def test_far_app_that_is_killed_is_told_and_all_goes_on_when_it_is_back(tmp_path: Path) -> None:
    port, there = free_port(), tmp_path / "far"
    there.mkdir()
    host = f"127.0.0.1:{port}"
    with front_end(tmp_path, f"http://{host}", None) as near, page_of(near) as page:
        # Not there yet: the page is up, and says so.
        assert near.status().state == "away"
        assert httpx.get(f"{page}health").status_code == 503
        assert httpx.get(page).status_code == 200
        with far_process(there, port) as process:
            wait_for(near, lambda status: status.state == "ready", 60)
            job = near.submit(ask(near, "fake:slow", steps=30, count=4))
            wait_step(near, job)
            process.send_signal(signal.SIGKILL)
            ending = ending_of(near, job)
        assert isinstance(ending, Failed)
        assert ending.message == (
            f"The connection to {host} was lost. This job is lost; ask again when {host} is back."
        )
        status = wait_for(near, lambda status: status.state == "away")
        assert status.detail.startswith(f"The TPU UI at {host} cannot be reached, for ")
        assert {one.state for one in status.sizes[Mode.COMPILED].values()} == {ProgramState.COLD}
        with pytest.raises(AwayError, match=f"The TPU UI at {host} cannot be reached, for"):
            near.submit(ask(near))
        answer = httpx.post(f"{page}v1/images/generations", json={"prompt": "a tree"})
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert httpx.get(f"{page}health").json()["state"] == "away"
        assert httpx.get(page).status_code == 200
        with far_process(there, port):
            wait_for(near, lambda status: status.state == "ready", 60)
            assert isinstance(ending_of(near, near.submit(ask(near))), Finished)


def without_packages_that_a_front_end_does_not_need(folder: Path) -> Path:
    """A folder for PYTHONPATH, in which they cannot be imported."""
    needed, all_of_them = (
        {re.split("[<>=;]", line)[0] for line in (ROOT / name).read_text().splitlines()}
        for name in ("deploy/front-end.txt", "requirements.txt")
    )
    left_out = {name for name in all_of_them - needed if name and not name.startswith("#")}
    assert {"torch", "torch_tpu", "diffusers"} <= left_out
    for name in left_out:
        package = folder / name.replace("-", "_")
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise ImportError('not for a front end')")
    return folder


def test_app_as_a_front_end_needs_no_torch_and_starts_no_worker(
    far: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPU_UI_REMOTE_TOKEN", TOKEN)
    stubs = without_packages_that_a_front_end_does_not_need(tmp_path / "stubs")
    monkeypatch.setenv("PYTHONPATH", str(stubs))
    with running(tmp_path, "--remote", far.url) as (process, url):
        answer = httpx.post(
            f"{url}/v1/images/generations",
            json={"prompt": "a tree", "response_format": "b64_json"},
            timeout=30,
        )
        assert answer.json()["data"][0]["info"]["prompt"] == "a tree"
        assert family(process.pid) == []
        assert LOGIN[1] not in Path(f"/proc/{process.pid}/cmdline").read_text()
        config = httpx.get(f"{url}/config").text
    log = (tmp_path / "app.log").read_text()
    assert LOGIN[1] not in log
    assert LOGIN[1] not in config


def test_picture_that_is_another_than_was_asked_for_is_not_kept(
    near: RemoteDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is what is no picture at all."""
    other = near.submit(ask(near, seed=1))
    (saved,) = saved_by(near, other)
    for content, said in (
        (saved.path.read_bytes(), "another than"),
        (b"<html>", "not arrive whole"),
    ):
        monkeypatch.setattr(Far, "fetch", lambda self, path, content=content: content)
        job = near.submit(ask(near, seed=2))
        ending = ending_of(near, job)
        assert isinstance(ending, Failed)
        assert said in ending.message
        assert list(near.outputs.rglob(*names_of(job, seed=2))) == []
