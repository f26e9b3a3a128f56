"""Some 2,000 hostile requests by every door of an app that runs. What holds for each stands in
`Attacked.look_at` (no error of the server, nothing of our insides told) and, after each test, in
`nothing_is_lost`. The next good request is answered as ever."""

import io
import json
import re
import socket
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from schemathesis import GenerationMode

from tests.ui.hostile import (
    IMAGE,
    SCRIPT,
    SLOW_S,
    TEXTS,
    TIMES,
    VALUES,
    Attacked,
    attacked,
    many,
)
from tpu_ui.ui.intake import MAX_BODY_BYTES, MAX_UPLOAD_BYTES
from tpu_ui.ui.openai_images import TAKEN

PICTURE = re.compile(r"\d{4}-\d\d-\d\d/[0-9a-f]{32}-\d+-\d+\.png")
BOMB_MB = 60  # the smallest of the bombs is 187
GROWN_MB = 250 * TIMES  # of a process of some 200 MB; one bomb that went off would take as much


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    with attacked(tmp_path_factory.mktemp("hostile")) as app:
        yield app


@pytest.fixture(scope="module")
def handlers(app: Attacked) -> list[dict[str, Any]]:
    """Every function that the page can call, the private ones too."""
    config: dict[str, Any] = app.client.get("/config").json()
    return list(config["dependencies"])


@pytest.fixture(autouse=True)
def nothing_is_lost(app: Attacked) -> Iterator[None]:
    compiled = app.programs()
    yield
    app.draws()
    assert app.programs() == compiled, "something was compiled"
    names = [str(one.relative_to(app.outputs)) for one in app.outputs.rglob("*") if one.is_file()]
    assert [name for name in names if not PICTURE.fullmatch(name)] == []
    assert app.touched() == ""
    assert app.faults() == []
    assert app.longest_s < SLOW_S


@many(480)
@given(data=st.data())
def test_every_handler_of_the_page(
    app: Attacked, handlers: list[dict[str, Any]], data: st.DataObject
) -> None:
    handler = data.draw(st.sampled_from(handlers))
    values = [data.draw(VALUES) for _ in handler["inputs"]]
    if data.draw(st.integers(0, 9)) == 0:
        values = values[:-1] if data.draw(st.booleans()) else [*values, None]
    session = f"session-{app.sent}" if handler["queue"] else data.draw(st.sampled_from(TEXTS[2:14]))
    call = {"data": values, "fn_index": handler["id"], "session_hash": session}
    if data.draw(st.booleans()):
        call["event_data"] = data.draw(VALUES)
    language = data.draw(st.sampled_from(["en", "ja", "zh-CN", "<b>"]))
    headers = {"accept-language": language}
    if not handler["queue"]:
        app.post("/gradio_api/run/predict", call, headers=headers)
    elif app.post("/gradio_api/queue/join", call, headers=headers).status_code == 200:
        app.ask("GET", "/gradio_api/queue/data", params={"session_hash": session})


@many(120)
@given(data=st.data())
def test_the_endpoints_that_programs_depend_on(app: Attacked, data: st.DataObject) -> None:
    inputs = {"generate": 12, "warm_up": 3, "status": 0, "cancel": 1, "read_metadata": 1, "none": 1}
    name = data.draw(st.sampled_from(list(inputs)))
    values = [data.draw(VALUES) for _ in range(inputs[name])]
    begun = app.post(f"/gradio_api/call/{name}", {"data": values})
    if begun.status_code == 200:
        ended = app.ask("GET", f"/gradio_api/call/{name}/{begun.json()['event_id']}")
        assert "event: " in ended.text


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_what_breaks_the_published_schema_and_what_keeps_it(
    app: Attacked, mode: GenerationMode
) -> None:
    schema = schemathesis.openapi.from_dict(app.client.get("/gradio_api/openapi.json").json())
    operations = [one.ok() for one in schema.get_all_operations()]
    for operation in operations:
        if operation.method != "post":
            continue

        @many(18)
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: Any) -> None:
            app.look_at(case.call(base_url=app.url))

        send()


@many(300)
@given(
    wishes=st.dictionaries(st.sampled_from([*TAKEN, "quality", "stream", "\ud800", SCRIPT]), VALUES)
    | VALUES,
    prompted=st.booleans(),
)
def test_openais_endpoint(app: Attacked, wishes: Any, prompted: bool) -> None:
    if prompted and isinstance(wishes, dict):
        wishes = {**wishes, "prompt": "a tree"}
    answer = app.post("/v1/images/generations", wishes)
    assert answer.status_code == 200 or answer.json()["error"]["message"]


@many(120)
@given(
    method=st.sampled_from(["tools/call"] * 5 + ["tools/list", "initialize", "none", IMAGE]),
    tool=st.sampled_from(["generate", "warm_up", "status", "cancel", "read_metadata", SCRIPT, ""]),
    inputs=st.dictionaries(
        st.sampled_from(["prompt", "model", "size", "seed", "job", "image", "x"]), VALUES
    ),
    params=st.none() | VALUES,
)
def test_mcp(app: Attacked, method: str, tool: str, inputs: Any, params: Any) -> None:
    params = {"name": tool, "arguments": inputs} if params is None else params
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    kinds = {"accept": "application/json, text/event-stream"}
    app.post("/gradio_api/mcp/", call, headers=kinds)


PLACES = ["/", "/config", "/login", "/health", "/metrics", "/v1/models", "/v1/images/generations"]
PLACES += [
    f"/gradio_api/{name}"
    for name in (
        *("run/predict", "run/x", "call/generate", "call/v2/generate", "queue/join", "cancel"),
        *("reset", "upload", "component_server", "process_recording", "vibe-edit", "stream/a"),
        *("mcp/", "mcp/schema", "run-history/connect", "api/predict", "dev/reload"),
    )
]
NO_JSON = ("/v1/models", "/gradio_api/upload")
KINDS = ["application/json", "text/plain", "multipart/form-data", ""]
KINDS += ["multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "\x80"]
BROKEN = [b"", b"{", b"[]", b"null", b'"a"', b"[" * 100_000, b'{"data":' + b"[" * 50_000, b"\xff"]
BROKEN += [
    b'{"data":%b,"fn_index":%b,"session_hash":%b}' % (values, index, session)
    for values in (b"[]", b"null", b'"a"', b"[1]", b'[["a"]],"batched":true')
    for index in (b"17", b"-1", b"99999", b"null", b'"a"', b"1e400")
    for session in (b'"a"', b"null", b"{}")
]


@many(350)
@given(
    method=st.sampled_from(["POST"] * 6 + ["PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE"]),
    place=st.sampled_from(PLACES),
    body=st.sampled_from(BROKEN) | st.binary(max_size=60),
    kind=st.sampled_from(KINDS),
)
def test_bodies_that_are_none(
    app: Attacked, method: str, place: str, body: bytes, kind: str
) -> None:
    headers = {b"content-type": kind.encode("latin-1")}
    app.ask(method, place, content=body, headers=headers)


STEPS = ["..", "%2e%2e", "..%2f", "%2fetc", "etc", "passwd", "secret.txt", "%00", "~", "\\", ""]
STEPS += ["file=", "%ff", "%ed%a0%80", "a" * 300, "<script>", "C:", "http:", "198.51.100.7"]


@many(200)
@given(
    start=st.sampled_from(
        [
            *("/", "/gradio_api/", "/gradio_api/file=", "/gradio_api/file=/", "/gradio_api/proxy="),
            *("/assets/", "/static/", "/svelte/", "/pwa_icon/", "/v1/", "/?deep_link="),
            *("/gradio_api/call/generate/", "/gradio_api/queue/data?session_hash="),
            "/gradio_api/file=http://",
        ]
    ),
    steps=st.lists(st.sampled_from(STEPS), max_size=6),
    method=st.sampled_from(["GET", "GET", "HEAD"]),
)
def test_paths_that_lead_elsewhere(
    app: Attacked, start: str, steps: list[str], method: str
) -> None:
    where = app.client.base_url.copy_with(raw_path=(start + "/".join(steps)).encode())
    answer = app.ask(method, where)
    assert not answer.headers.get("location", "").startswith(("http://198", "//"))


@many(40)
@given(
    name=st.sampled_from(["../../pwned.png", "/etc/pwned", "..", ".", f"{IMAGE}.png", "a\\..\\b"])
    | st.text(max_size=300),
    content=st.binary(max_size=200),
)
def test_uploads_by_any_name_lie_where_uploads_lie(
    app: Attacked, name: str, content: bytes
) -> None:
    shown = name.encode("utf-8", "replace").decode()
    answer = app.ask("POST", "/gradio_api/upload", files={"files": (shown, content)})
    if answer.status_code == 200:
        uploads = (app.folder / "temporary").resolve()
        assert all(Path(one).resolve().is_relative_to(uploads) for one in answer.json())


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(*chunks: bytes, side_px: int = 1) -> bytes:
    """With these chunks, and without pixels worth the name."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side_px, side_px, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunks) + chunk(b"IEND", b"")


def settings_of(text: str, key: bytes = b"tpu_ui") -> bytes:
    return png(chunk(b"iTXt", key + b"\0\0\0\0\0" + text.encode("utf-8", "surrogatepass")))


ZEROS = zlib.compress(b"\0" * 300_000_000, 9)
PIXELS = chunk(b"IDAT", zlib.compress(b"\0" * (7_900 * (7_900 * 3 + 1)), 1))
A1111 = b"parameters"
FILES: dict[str, bytes] = {
    "nothing": b"",
    "a web page": SCRIPT.encode(),
    "a drawing with a script": f"<svg xmlns='http://www.w3.org/2000/svg'>{SCRIPT}</svg>".encode(),
    "a pixel bomb": png(PIXELS, side_px=7_900),
    "a picture that claims to be huge": png(side_px=2**31 - 1),
    "a picture of no size": png(side_px=0),
    "a bomb in zTXt": png(chunk(b"zTXt", b"tpu_ui\0\0" + ZEROS)),
    "a bomb in iTXt": png(chunk(b"iTXt", b"tpu_ui\0\1\0\0\0" + ZEROS)),
    "many small texts": png(*[chunk(b"tEXt", b"tpu_ui\0{}")] * 20_000),
    "texts that never end": png(*[chunk(b"iTXt", b"tpu_ui\0\1\0\0\0")] * 2_000),
    "a chunk that claims 4 GB": png()[:33] + b"\xff\xff\xff\xfftEXt",
    "settings that are no object": settings_of("[1]"),
    "settings that are nested": settings_of("[" * 100_000),
    "settings nested in themselves": settings_of('{"model":' + '{"a":' * 900 + "1" + "}" * 901),
    "settings of wrong types": settings_of(
        json.dumps({one: {} for one in ("prompt", "model", "size", "steps", "seed", "axes")})
    ),
    "settings as lists": settings_of(
        json.dumps({one: [[]] for one in ("model", "styles", "lora", "notices", "others")})
    ),
    "numbers that are none": settings_of('{"prompt":"a","seed":NaN,"steps":Infinity,"size":1e999}'),
    "numbers that are huge": settings_of('{"prompt":"a","seed":1' + "0" * 400 + "}"),
    "half a character": settings_of('{"prompt":"\\ud800"}'),
    "script in every field": settings_of(
        json.dumps(dict.fromkeys(("prompt", "model", "size", "mode", "scheduler", "lora"), SCRIPT))
    ),
    "a path for a name": settings_of('{"prompt":"a","model":"../../etc/passwd","lora":"/etc"}'),
    "capitals without an end": settings_of("Steps: 1, " + "A" * 19_000, A1111),
    "quotes without an end": settings_of('Steps: 1, A: "\\", ' * 1_200, A1111),
    "more of A1111's settings than anybody writes": settings_of("Steps: 1, " * 90_000, A1111),
}


@pytest.fixture(params=list(FILES))
def path(app: Attacked, request: pytest.FixtureRequest) -> str:
    """Where the app has put a file that was uploaded."""
    upload = {"files": ("picture.png", FILES[request.param])}
    answer = app.ask("POST", "/gradio_api/upload", files=upload)
    return str(answer.json()[0])


def test_a_picture_that_is_a_trap(app: Attacked, handlers: list[dict[str, Any]], path: str) -> None:
    """To the API's endpoint, and to the page, which shows its settings and uses them."""
    app.forget_peak()
    before_mb = app.peak_mb()
    ids = {one["api_name"]: one["id"] for one in handlers}
    file = {"path": path, "meta": {"_type": "gradio.FileData"}}
    begun = app.post("/gradio_api/call/read_metadata", {"data": [file]})
    told = app.ask("GET", f"/gradio_api/call/read_metadata/{begun.json()['event_id']}").text
    assert "event: complete" in told or '"error"' in told
    session = {"session_hash": f"trap-{app.sent}"}
    shown = app.post(
        "/gradio_api/run/predict",
        {"data": [file], "fn_index": ids["read_picture"], **session},
    )
    assert shown.status_code == 200
    assert "<script" not in json.loads(shown.text)["data"][1]
    call = {"data": [None] * 9, "fn_index": ids["use_settings_1"], **session}
    app.post("/gradio_api/queue/join", call)
    app.ask("GET", "/gradio_api/queue/data", params=session)
    assert app.peak_mb() < before_mb + BOMB_MB


@pytest.mark.parametrize("place", [one for one in PLACES if one not in NO_JSON])
def test_ten_megabytes_are_refused_before_they_are_held(app: Attacked, place: str) -> None:
    body = {"prompt": "a" * 10_000_000, "data": ["a" * 10], "fn_index": 17, "session_hash": "a"}
    answer = app.post(place, body)
    assert answer.status_code in (404, 413)


@pytest.mark.parametrize("field", ["prompt", "negative_prompt", "model", "size", "user"])
def test_ten_megabytes_in_pieces_are_refused_too(app: Attacked, field: str) -> None:
    """A body that does not say how long it is."""
    body = json.dumps({field: "a" * 10_000_000}).encode()
    pieces = (body[at : at + 65_536] for at in range(0, len(body), 65_536))
    for place in ("/gradio_api/call/v2/generate", "/v1/images/generations"):
        answer = app.ask(
            "POST", place, content=pieces, headers={"content-type": "application/json"}
        )
        assert answer.status_code in (400, 413)


def test_a_file_that_is_too_large_or_does_not_say_how_large(app: Attacked) -> None:
    much = app.ask(
        "POST", "/gradio_api/upload", files={"files": ("a.png", b"a" * MAX_UPLOAD_BYTES)}
    )
    assert much.status_code == 413
    untold = app.ask("POST", "/gradio_api/upload", content=iter([b"a"]))
    assert untold.status_code == 411


def test_a_prompt_that_is_just_too_long_is_told_in_words(app: Attacked) -> None:
    long = "a" * (MAX_BODY_BYTES - 100)
    begun = app.post("/gradio_api/call/v2/generate", {"prompt": long}).json()["event_id"]
    assert "at most 4,000 are taken" in app.ask("GET", f"/gradio_api/call/generate/{begun}").text


NO_HTTP = [b"\0" * 4_000, b"GET", b"GET / HTTP/9.9\r\n\r\n", b"A" * 100_000, b"\x16\x03\x01\x02\0"]
NO_HTTP += [
    b"POST /gradio_api/queue/join HTTP/1.1\r\nHost: a\r\nContent-Length: %b\r\n\r\n{}" % length
    for length in (b"-1", b"99999999999999999999", b"2\r\nContent-Length: 3", b"nan", b"1")
]
NO_HTTP += [
    b"POST /gradio_api/run/predict HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%b"
    % body
    for body in (b"zz\r\n", b"ffffffffffffffff\r\n{}", b"2\r\n{}\r\n0\r\n\r\n")
]
NO_HTTP += [b"GET /\r\n%b HTTP/1.1\r\n\r\n" % (b"a: b\r\n" * 2_000), b"GET \xff HTTP/1.1\r\n\r\n"]


@pytest.mark.parametrize("number", range(len(NO_HTTP)))
def test_bytes_that_are_no_http(app: Attacked, number: int) -> None:
    with socket.create_connection(("127.0.0.1", app.client.base_url.port or 0), 10) as line:
        line.sendall(NO_HTTP[number])
        line.shutdown(socket.SHUT_WR)
        line.settimeout(10)
        answer = b""
        while part := _received(line):
            answer += part
    app.sent += 1
    assert not answer.startswith(b"HTTP/1.1 5")
    assert b"Traceback" not in answer


def _received(line: socket.socket) -> bytes:
    try:
        return line.recv(65_536)
    except OSError:
        return b""


def test_pictures_of_the_app_are_read_as_ever(app: Attacked) -> None:
    """What guards against traps lets honest files through: ours, and A1111's with odd settings."""
    text = PngInfo()
    text.add_text("parameters", 'a hill\nSteps: 5, Seed: 7, Note: "a, b", Size: 8x8', zip=True)
    file = io.BytesIO()
    Image.effect_noise((600, 600), 90).save(file, "PNG", pnginfo=text)
    answer = app.ask("POST", "/gradio_api/upload", files={"files": ("a.png", file.getvalue())})
    given_file = {"path": answer.json()[0], "meta": {"_type": "gradio.FileData"}}
    begun = app.post("/gradio_api/call/read_metadata", {"data": [given_file]}).json()["event_id"]
    told = app.ask("GET", f"/gradio_api/call/read_metadata/{begun}").text
    assert '"prompt": "a hill"' in told
    assert '"Note": "a, b"' in told


def test_two_thousand_were_sent_and_the_memory_is_bounded(app: Attacked) -> None:
    """The last one: of all tests of this file, when all of them were run."""
    print(f"{app.sent} requests, the longest {app.longest_s:.1f} s, {app.memory_mb():.0f} MB")
    assert app.memory_mb() < 220 + GROWN_MB
    assert app.sent >= 2_000 * TIMES
