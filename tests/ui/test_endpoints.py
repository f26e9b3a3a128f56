"""The API, through a real server and a real client."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from PIL import Image

from tests.conftest import Serve, Served, presets_with
from tests.dispatch.driving import ask, ending_of, wait_step
from tpu_ui.metadata import read_png
from tpu_ui.protocol import Finished
from tpu_ui.ui.listening import REPEAT_S

SESSIONS = ("greedy", "modest")


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[Client]:
    client = Client(server.url, verbose=False)
    yield client
    client.close()


def refusal(client: Client, api_name: str = "/generate", **inputs: object) -> str:
    with pytest.raises(AppError) as caught:
        client.predict(**inputs, api_name=api_name)
    return str(caught.value)


def test_exactly_the_promised_endpoints_are_public(client: Client) -> None:
    endpoints = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    parameters = {
        name: [(one["parameter_name"], one["parameter_has_default"]) for one in info["parameters"]]
        for name, info in endpoints.items()
    }
    optional = ["negative_prompt", "model", "mode", "size", "steps", "guidance", "seed", "count"]
    optional += ["lora", "lora_weight", "styles", "previews"]
    assert parameters == {
        "/generate": [("prompt", False), *((name, True) for name in optional)],
        "/warm_up": [("model", True), ("mode", True), ("size", True)],
        "/status": [],
        "/models": [],
        "/cancel": [("job", False)],
        "/read_metadata": [("image", False)],
    }


def test_every_endpoint_is_documented(client: Client) -> None:
    endpoints = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    assert all(len(info["description"]) > 40 for info in endpoints.values())
    inputs = {one["parameter_name"]: one for one in endpoints["/generate"]["parameters"]}
    assert all(len(one["python_type"]["description"]) > 10 for one in inputs.values())
    assert "4294967295" in inputs["seed"]["python_type"]["description"]


def test_the_downloaded_picture_is_the_written_file_and_holds_its_settings(
    client: Client, server: Served
) -> None:
    images, infos = client.predict("a <b>house</b> & a tree", count=2, api_name="/generate")
    assert [info["seed"] for info in infos] == [infos[0]["seed"], infos[0]["seed"] + 1]
    written = {path.name: path.read_bytes() for path in server.outputs.rglob("*.png")}
    for image, info in zip(images, infos, strict=True):
        assert Path(image).read_bytes() in written.values()
        assert "job" not in read_png(Path(image))
        info.pop("job")
        assert read_png(Path(image)) == info
        assert client.predict(handle_file(image), api_name="/read_metadata") == info
    assert infos[0]["prompt"] == "a <b>house</b> & a tree"


def test_an_info_holds_all_that_is_promised(client: Client) -> None:
    _, (info,) = client.predict("a tree", "fog", seed=5, steps=3, api_name="/generate")
    promised = "job model mode device size steps guidance seed prompt negative_prompt timings_s"
    assert {*promised.split(), "programs_compiled", "version", "strategy"} <= info.keys()
    assert {"queue", "encode", "denoise", "decode", "total"} <= info["timings_s"].keys()
    assert (info["seed"], info["steps"], info["negative_prompt"]) == (5, 3, "fog")


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"model": "nope"}, ("'nope'", "demo")),
        ({"model": 3}, ("3",)),
        ({"mode": "warp"}, ("'warp'", "eager, fused, compiled")),
        ({"size": "257x256"}, ("257x256", "256x256", "320x192")),
        ({"size": "big"}, ("'big'", "256x256")),
        ({"size": "320x192"}, ("320x192 is not ready", "256x256")),
        ({"steps": 0}, ("Steps", "1 to 30", "0")),
        ({"steps": 2.5}, ("Steps", "2.5")),
        ({"steps": "ten"}, ("Steps", "'ten'")),
        ({"guidance": 99}, ("Guidance scale", "1 to 8")),
        ({"seed": 2**64}, ("Seed", str(2**32 - 1))),
        ({"count": 99}, ("Number of images", "1 to 4")),
        ({"prompt": ""}, ("prompt is empty",)),
        ({"prompt": "x" * 10_000}, ("10,000", "4,000")),
        ({"prompt": ["a"]}, ("must be text",)),
        ({"styles": ["noir"]}, ("'noir'", "sunset")),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_a_wrong_input_is_refused_with_what_would_be_right(
    client: Client, inputs: dict[str, Any], words: tuple[str, ...]
) -> None:
    message = refusal(client, **{"prompt": "a tree", **inputs})
    assert all(word in message for word in words), message
    assert "Traceback" not in message
    assert "&" not in message, "escaped for a page, but this is not one"


def test_styles_are_laid_over_the_prompt_and_told(client: Client) -> None:
    wishes = {"styles": ["night", "alpine"], "steps": 1, "api_name": "/generate"}
    _, (info,) = client.predict("a boat", "fog", **wishes)
    assert info["prompt"] == "a boat under a starry sky with mountains behind"
    assert info["negative_prompt"] == "fog, noon, no mountains"
    assert (info["unstyled_prompt"], info["unstyled_negative_prompt"]) == ("a boat", "fog")
    assert info["styles"] == ["night", "alpine"]


def test_a_valid_request_works_after_a_refusal(client: Client) -> None:
    refusal(client, prompt="a tree", size="192x320")
    images, infos = client.predict("a tree", steps=None, api_name="/generate")
    assert (len(images), infos[0]["steps"]) == (1, 16)


def test_a_failure_of_the_runtime_is_one_sentence_and_the_next_request_works(
    client: Client,
) -> None:
    assert "fake:broken" in refusal(client, prompt="fake:broken")
    assert len(client.predict("a tree", api_name="/generate")[0]) == 1


def test_status_tells_everything_promised(client: Client) -> None:
    status = client.predict(api_name="/status")
    promised = "device chip model mode state locked sizes queue_length programs_compiled workers"
    assert {*promised.split(), "programs_compiled_since_ready", "programs", "detail"} <= set(status)
    assert status["sizes"]["256x256"]["state"] == "ready"
    assert status["sizes"]["320x192"]["state"] == "cold"
    assert status["programs"]["eager"]["256x256"]["state"] == "cold"
    assert (status["locked"], status["model"], status["mode"]) == (True, "demo", "compiled")
    assert (status["strategy"], status["devices"]) == ("resident", 1)
    assert status["strategy_reason"] == "no limit is known for this device's memory"
    assert {"state", "seconds", "expected_s"} <= status["sizes"]["192x320"].keys()


def test_models_tell_what_each_takes_here(client: Client) -> None:
    models = client.predict(api_name="/models")
    assert models.keys() >= {"demo", "sdxl"}
    demo = models["demo"]
    assert demo["preset"]["sizes"] == ["256x256", "320x192", "192x320"]
    assert (demo["modes"], demo["default_mode"]) == (["eager", "fused", "compiled"], "compiled")
    assert demo["unavailable_sizes"] == {}
    assert "night" in [style["name"] for style in demo["styles"]]


def test_a_refusal_names_its_kind(client: Client) -> None:
    with pytest.raises(AppError) as caught:
        client.predict("a tree", size="320x192", api_name="/generate")
    assert caught.value.title == "LockedError"


def test_a_client_learns_its_job_at_once_and_can_cancel_it(client: Client) -> None:
    stream = client.submit("fake:slow", steps=30, api_name="/generate")
    images, infos = next(iter(stream))
    assert (images, infos[0]["state"]) == ([], "queued")
    began_s = time.monotonic()
    answer = client.predict(infos[0]["job"], api_name="/cancel")
    assert answer == {"job": infos[0]["job"], "state": "cancelled"}
    with pytest.raises(AppError, match="was cancelled"):
        stream.result()
    assert time.monotonic() - began_s < 3, "cancel waited for the picture"


def test_cancel_knows_ended_and_unknown_jobs(client: Client) -> None:
    _, (info,) = client.predict("a tree", api_name="/generate")
    ended = client.predict(info["job"], api_name="/cancel")
    assert ended == {"job": info["job"], "state": "finished"}
    assert client.predict("nobody", api_name="/cancel")["state"] == "unknown"


def test_progress_streams_with_steps(client: Client) -> None:
    stream = client.submit("fake:slow", steps=25, api_name="/generate")
    stream.result()
    running = [infos[0] for _, infos in stream.outputs() if infos[0].get("state") == "running"]
    steps = [info["step"] for info in running]
    assert steps == sorted(set(steps))
    assert 3 <= len(steps) < 10, "one answer a step, or hardly any"
    assert {info["steps"] for info in running} == {25}


def test_each_picture_can_be_fetched_when_it_is_done_and_all_at_the_end(
    client: Client, server: Served
) -> None:
    stream = client.submit("fake:slow", steps=2, count=3, api_name="/generate")
    images, infos = stream.result()
    assert len(images) == len(infos) == 3
    on_the_way = [(done, first) for done, (first, *_) in stream.outputs() if "state" in first]
    assert all(done == [] for done, _ in on_the_way), "a client fetches each file of each answer"
    urls = [first["url"] for _, first in on_the_way if "url" in first]
    fetched = [httpx.get(server.url.rstrip("/") + url, timeout=30).content for url in urls]
    assert fetched == [Path(image).read_bytes() for image in images[:2]]


@pytest.mark.parametrize("file", ["/etc/passwd", {"path": "/etc/passwd"}, None, 3])
def test_read_metadata_opens_uploads_only(client: Client, file: object) -> None:
    assert "Upload the PNG file" in refusal(client, "/read_metadata", image=file)


def test_read_metadata_cannot_be_pointed_at_a_file_of_the_server(
    client: Client, server: Served
) -> None:
    images, _ = client.predict("a tree", api_name="/generate")
    assert images
    written = next(server.outputs.rglob("*.png"))
    disguised = {"path": str(written), "meta": {"_type": "gradio.FileData"}, "orig_name": "x.png"}
    answer = httpx.post(
        f"{server.url}gradio_api/run/read_metadata", json={"data": [disguised]}, timeout=30
    )
    assert answer.status_code != 200
    assert "a tree" not in answer.text


def test_read_metadata_says_when_there_is_none(client: Client, tmp_path: Path) -> None:
    plain, text = tmp_path / "plain.png", tmp_path / "text.png"
    Image.new("RGB", (8, 8)).save(plain)
    text.write_text("not a picture")
    assert "carries no settings" in refusal(client, "/read_metadata", image=handle_file(plain))
    assert "not a PNG picture" in refusal(client, "/read_metadata", image=handle_file(text))


def test_the_outputs_folder_is_not_served(client: Client, server: Served) -> None:
    client.predict("a secret tree", api_name="/generate")
    written = next(server.outputs.rglob("*.png"))
    assert httpx.get(f"{server.url}gradio_api/file={written}").status_code == 403


def test_warm_up_streams_and_makes_a_size_ready(serve: Serve) -> None:
    slow = presets_with("fake:slow-warm")
    with (
        serve(presets=slow, warm="none") as served,
        closing(Client(served.url, verbose=False)) as client,
    ):
        assert "Nothing is ready yet" in refusal(client, prompt="a tree")
        stream = client.submit(size="320x192", api_name="/warm_up")
        last = stream.result()
        assert (last["state"], last["size"], last["mode"]) == ("ready", "320x192", "compiled")
        compiling = [one for one in stream.outputs() if one["state"] == "compiling"]
        assert {one["programs_compiled"] for one in compiling} == {0, 1, 2, 3}
        assert "320x192" in refusal(client, prompt="a tree")
        _, (info,) = client.predict("a tree", size="320x192", api_name="/generate")
        assert (info["size"], info["programs_compiled"]) == ("320x192", 0)


def test_a_warm_up_that_fails_says_why(serve: Serve) -> None:
    with (
        serve(presets=presets_with("fake:warm-error=320x192")) as served,
        closing(Client(served.url, verbose=False)) as client,
    ):
        assert "gave up" in refusal(client, "/warm_up", size="320x192")
        assert client.predict(api_name="/status")["sizes"]["320x192"]["state"] == "failed"
        assert "no size 1x1" in refusal(client, "/warm_up", size="1x1")
        assert len(client.predict("a tree", api_name="/generate")[0]) == 1


def test_waiting_callers_see_their_place_instead_of_gradios_queue(client: Client) -> None:
    streams = [client.submit("fake:slow", steps=4, api_name="/generate") for _ in range(4)]
    for stream in streams:
        stream.result()
    positions = {
        infos[0]["position"]
        for stream in streams
        for _, infos in stream.outputs()
        if "position" in infos[0]
    }
    assert {0, 1, 2} <= positions


def test_status_answers_while_jobs_wait(client: Client) -> None:
    streams = [client.submit("fake:slow", steps=3, api_name="/generate") for _ in range(3)]
    time.sleep(0.3)
    began_s = time.monotonic()
    status = client.predict(api_name="/status")
    assert time.monotonic() - began_s < 10.0  # the jobs before it wait much longer
    assert status["state"] == "busy"
    assert status["queue_length"] >= 1
    for stream in streams:
        stream.result()


def test_a_caller_that_goes_away_does_not_hurt_the_job(server: Served) -> None:
    before = len(list(server.outputs.rglob("*.png")))
    with closing(Client(server.url, verbose=False)) as leaving:
        stream = leaving.submit("fake:slow", steps=5, api_name="/generate")
        next(iter(stream))
    server.wait_for(lambda status: status.state == "ready" and status.queue_length == 0)
    assert len(list(server.outputs.rglob("*.png"))) == before + 1


def join(served: Served, session: str, prompt: str) -> httpx.Response:
    """Ask for a picture as Gradio's own clients do, over plain HTTP."""
    config = httpx.get(f"{served.url}config").json()
    (number,) = [one["id"] for one in config["dependencies"] if one["api_name"] == "generate"]
    told = httpx.get(f"{served.url}gradio_api/info").json()["named_endpoints"]["/generate"]
    inputs = [prompt, *(one["parameter_default"] for one in told["parameters"][1:])]
    body = {"data": inputs, "fn_index": number, "session_hash": session}
    return httpx.post(f"{served.url}gradio_api/queue/join", json=body).raise_for_status()


def listen_until(served: Served, session: str, word: str) -> None:
    """Follow what a session is told until it holds `word`; then hang up."""
    url = f"{served.url}gradio_api/queue/data?session_hash={session}"
    with httpx.stream("GET", url, timeout=30) as stream:
        assert any(word in line for line in stream.iter_lines())


def test_job_whose_caller_has_gone_is_cancelled_when_its_turn_comes(serve: Serve) -> None:
    with serve() as served:
        dispatcher = served.dispatcher
        running = dispatcher.submit(ask(dispatcher, "fake:slow", steps=30, count=4))
        wait_step(dispatcher, running)
        join(served, "leaving", "never drawn")
        listen_until(served, "leaving", "queued")
        kept = dispatcher.submit(ask(dispatcher, "kept"), "a page", kept=True)
        time.sleep(2 * REPEAT_S + 1)
        assert dispatcher.tally().cancelled == 0, "before its turn"
        dispatcher.cancel(running)
        assert isinstance(ending_of(dispatcher, kept), Finished)
        assert (dispatcher.tally().cancelled, dispatcher.tally().images) == (2, 1)


def test_visitors_take_turns_whatever_the_door(serve: Serve) -> None:
    with serve() as served:
        dispatcher = served.dispatcher
        running = dispatcher.submit(ask(dispatcher, "fake:slow", steps=30, count=4))
        wait_step(dispatcher, running)
        for number in range(5):
            join(served, "greedy", f"greedy {number}")
        served.wait_for(lambda status: status.queue_length == 5)
        join(served, "modest", "modest")
        served.wait_for(lambda status: status.queue_length == 6)
        dispatcher.cancel(running)
        with ThreadPoolExecutor(2) as listeners:
            list(listeners.map(partial(listen_until, served, word="process_completed"), SESSIONS))
        served.wait_for(lambda status: status.state == "ready" and status.queue_length == 0)
        paths = sorted(served.outputs.rglob("*.png"), key=lambda path: path.stat().st_mtime_ns)
        drawn = [read_png(path)["prompt"] for path in paths]
        assert drawn[:2] == ["greedy 0", "modest"]


def test_visitor_with_too_many_waiting_jobs_is_told_and_others_are_not(serve: Serve) -> None:
    with serve(visitor_limit=2) as served:
        dispatcher = served.dispatcher
        running = dispatcher.submit(ask(dispatcher, "fake:slow", steps=30, count=4))
        wait_step(dispatcher, running)
        for number in range(3):
            join(served, "greedy", f"greedy {number}")
        listen_until(served, "greedy", "2 of your jobs wait already; one visitor may have 2.")
        join(served, "modest", "modest")
        listen_until(served, "modest", "queued")
