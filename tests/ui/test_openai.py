"""OpenAI's endpoint, with OpenAI's own client."""

import base64
import io
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI
from PIL import Image

from tests.conftest import Serve, Served
from tpu_ui.metadata import read_png

LOGIN = ("me", "a-long:password")


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}v1", api_key="none is asked") as client:
        yield client


def decoded(text: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(text)))


def test_pictures_come_as_base64_with_their_settings(client: OpenAI, server: Served) -> None:
    answer = client.images.generate(
        prompt="a tree",
        model="demo",
        n=2,
        size="256x256",
        response_format="b64_json",
        extra_body={"seed": 5, "steps": 3, "guidance": 2.0, "mode": "compiled"},
    )
    assert answer.data is not None
    assert answer.created > 1_700_000_000
    written = {path.read_bytes() for path in server.outputs.rglob("*.png")}
    for number, one in enumerate(answer.data):
        assert base64.b64decode(one.b64_json or "") in written
        assert decoded(one.b64_json or "").size == (256, 256)
        info = one.to_dict()["info"]
        assert isinstance(info, dict)
        assert (info["seed"], info["steps"], info["guidance"]) == (5 + number, 3, 2.0)


def test_a_url_leads_to_the_file_that_was_written(
    client: OpenAI, server: Served, tmp_path: Any
) -> None:
    answer = client.images.generate(prompt="a boat")
    assert answer.data is not None
    (one,) = answer.data
    (tmp_path / "one.png").write_bytes(httpx.get(one.url or "").content)
    assert read_png(tmp_path / "one.png")["prompt"] == "a boat"


def test_models_are_listed(client: OpenAI, server: Served) -> None:
    assert {one.id for one in client.models.list()} == set(server.dispatcher.presets)


@pytest.mark.parametrize(
    ("call", "kind", "code", "words"),
    [
        ({"prompt": " "}, openai.BadRequestError, None, "The prompt is empty"),
        ({"model": "dall-e-3"}, openai.NotFoundError, "model_not_found", "the models are demo"),
        ({"size": "512x512"}, openai.BadRequestError, None, "has no size 512x512"),
        ({"size": "320x192"}, openai.BadRequestError, "size_not_ready", "Ready: 256x256"),
        ({"n": 99}, openai.BadRequestError, None, "Number of images must be a whole number from 1"),
        ({"quality": "hd"}, openai.BadRequestError, "unsupported_value", 'quality must be "auto"'),
        ({"style": "vivid"}, openai.BadRequestError, "unknown_parameter", "no field 'style'"),
        ({"background": "transparent"}, openai.BadRequestError, "unsupported_value", "opaque"),
        ({"output_format": "webp"}, openai.BadRequestError, "unsupported_value", '"png"'),
        ({"response_format": "jpg"}, openai.BadRequestError, "unsupported_value", "b64_json"),
        ({"extra_body": {"steps": 0}}, openai.BadRequestError, None, "Steps must be a whole"),
        ({"extra_body": {"stream": 0}}, openai.BadRequestError, "unsupported_value", "false"),
        ({"extra_body": {"seeds": 1}}, openai.BadRequestError, "unknown_parameter", "seed"),
    ],
)
def test_what_cannot_be_honoured_is_refused_in_words(
    call: dict[str, Any], kind: type[openai.APIStatusError], code: str, words: str, client: OpenAI
) -> None:
    with pytest.raises(kind) as caught:
        client.images.generate(**{"prompt": "a tree", **call})
    assert words in caught.value.message
    assert caught.value.code == code
    assert caught.value.type == "invalid_request_error"
    assert client.images.generate(prompt="a tree").data


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"[1]", "application/json", 400),
        (b'{"prompt": "a tree"}', "text/plain", 415),
        (b'{"prompt": "' + b"a" * 2_000_000 + b'"}', "application/json", 413),
    ],
)
def test_a_body_that_is_none_is_refused(
    content: bytes, kind: str, status: int, server: Served
) -> None:
    url = f"{server.url}v1/images/generations"
    answer = httpx.post(url, content=content, headers={"Content-Type": kind})
    assert answer.status_code == status
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_a_job_that_fails_is_told_once_and_not_tried_again(serve: Serve) -> None:
    with serve() as served, OpenAI(base_url=f"{served.url}v1", api_key="-") as client:
        with pytest.raises(openai.InternalServerError, match="asked for this error"):
            client.images.generate(prompt="fake:error")
        assert served.dispatcher.tally().failed == 1
        assert client.images.generate(prompt="a tree").data


def test_a_caller_who_goes_takes_the_job_along(serve: Serve) -> None:
    with serve() as served:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(
                f"{served.url}v1/images/generations",
                json={"prompt": "fake:slow", "steps": 30},
                timeout=httpx.Timeout(10, read=1.0),
            )
        served.wait_for(lambda now: now.state == "ready")
        assert served.dispatcher.tally().cancelled == 1
        assert served.dispatcher.tally().images == 0


def test_callers_wait_side_by_side(client: OpenAI) -> None:
    answers: list[Any] = []

    def ask(number: int) -> None:
        answers.append(client.images.generate(prompt=f"tree {number}"))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 8


def test_behind_a_login_the_key_is_user_and_password(serve: Serve) -> None:
    with serve(login=LOGIN) as served:
        url = f"{served.url}v1"
        for key in ("me", "me:another", "a-long:password"):
            with OpenAI(base_url=url, api_key=key) as client:
                with pytest.raises(openai.AuthenticationError):
                    client.images.generate(prompt="a tree")
                with pytest.raises(openai.AuthenticationError):
                    client.models.list()
        with OpenAI(base_url=url, api_key=":".join(LOGIN)) as client:
            answer = client.images.generate(prompt="a tree")
            assert answer.data is not None
            assert decoded(answer.data[0].b64_json or "").size == (256, 256)
            with pytest.raises(openai.BadRequestError, match="b64_json"):
                client.images.generate(prompt="a tree", response_format="url")


def test_cancelled_elsewhere_is_an_error(serve: Serve) -> None:
    with serve() as served, OpenAI(base_url=f"{served.url}v1", api_key="-") as client:

        def cancel() -> None:
            served.wait_for(lambda now: now.state == "busy")
            (job,) = [one for one in served.dispatcher._pool.jobs.all() if one.request]
            served.dispatcher.cancel(job.id)

        thread = threading.Thread(target=cancel)
        thread.start()
        with pytest.raises(openai.InternalServerError, match="was cancelled"):
            client.images.generate(prompt="fake:slow", extra_body={"steps": 30})
        thread.join(10)
