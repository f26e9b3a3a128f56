"""What a hostile visitor sends, and an app in a process of its own that it is sent to."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from benchmarks.load import memory_mb, wait_ready
from tests.launching import free_port, serving

# `make hostile` sends ten times as many, and other ones each time.
TIMES = int(os.environ.get("TPU_UI_TEST_HOSTILE", "1"))
SCRIPT = "<script>window.__hit = 1</script>"
IMAGE = "<img src=x onerror='window.__hit = 1'>"
SLOW_S = 5.0  # on a busy machine; what hangs takes minutes

TEXTS = (
    *(
        "",
        " ",
        "a tree",
        "demo",
        "256x256",
        "compiled",
        "x" * 5_000,
        "\0",
        "a\0b",
        "\x1b[31m\x08\r",
    ),
    *("\ud800", "\udfff\ud800", "\u202e\u200b\ufeff", "🏔️👩‍🚀", "e\u0301" * 900),
    *(SCRIPT, IMAGE, "javascript:alert(1)", "{{7*7}}${7*7}%s%n", "'; DROP TABLE jobs; --"),
    *("../../../../etc/passwd", "/etc/passwd", "..\\..\\secret.txt", "file:///etc/passwd"),
    *("http://198.51.100.7/a.png", "nan", "1e999", "9" * 5_000, "1x1", "99999x99999"),
    *("{a|b}", "{" * 3_000, "{a|" * 1_300, "{" + "a|" * 1_000 + "{|}" * 600),
)
NUMBERS = (0, -1, 1, 2**31, 2**63, 2**64, 10**30, 10**400, 1e308, -0.0)
NUMBERS += (float("nan"), float("inf"), float("-inf"))
FILE = {"_type": "gradio.FileData"}
THINGS: tuple[Any, ...] = (
    *({"path": path, "meta": FILE} for path in (*TEXTS[-14:-9], "../secret.txt", None, 5, [])),
    *({"path": "a.png", "url": url, "meta": FILE} for url in ("http://198.51.100.7/", "file:/etc")),
    {"path": "/etc/passwd"},
    {"image": {"path": "/etc/passwd"}},
    {"index": 0, "value": {"image": {"path": "../../secret.txt"}}},
    {"index": -1, "value": None},
    {"job": "a" * 32, "pictures": [f"2025-01-01/{'a' * 32}-1-1.png"] * 100},
    {"job": "../..", "pictures": ["../../etc/passwd", None, {}, 5]},
    {"__type__": "update", "value": SCRIPT},
    [1] * 3_000,
    ["a", "a"],
)
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.sampled_from(TEXTS),
    st.sampled_from(NUMBERS),
    st.sampled_from(THINGS),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
        max_leaves=6,
    ),
)
# What nobody may be told: our insides, and what lies on the disk.
INSIDES = ("Traceback", 'File "/', "site-packages", "tpu_ui/", "root:x:", "the-secret")
INSIDES += ("TypeError", "ValueError", "KeyError", "AttributeError", "IndexError", "pydantic_core")
INSIDES += ("Something went wrong",)  # a fault of ours

FAULTS = ("A handler failed.", "A request failed.")


def many(count: int) -> settings:
    """So many examples; the same ones each time, unless more are asked for."""
    return settings(
        max_examples=count * TIMES,
        derandomize=TIMES == 1,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@dataclass
class Attacked:
    """The app. `sent` counts the requests; `longest_s` is what the slowest of them took."""

    url: str
    pid: int
    folder: Path
    client: httpx.Client
    sent: int = 0
    longest_s: float = 0.0
    read: int = 0  # of the log

    @property
    def outputs(self) -> Path:
        return self.folder / "outputs"

    def memory_mb(self) -> float:
        return memory_mb(self.pid)

    def forget_peak(self) -> None:
        """From now on `peak_mb` is measured anew (proc(5), clear_refs)."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def peak_mb(self) -> float:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1000

    def programs(self) -> tuple[str, ...]:
        """What the app says of compilations."""
        lines = self.client.get("/metrics").text.splitlines()
        return tuple(line for line in lines if line.startswith("tpu_ui_programs"))

    def touched(self) -> str:
        return (self.folder / "touched.txt").read_text()

    def faults(self) -> list[str]:
        """What the log tells of faults of ours since the last time, whatever a visitor was told."""
        with (self.folder / "app.log").open(errors="replace") as log:
            log.seek(self.read)
            told, self.read = log.read(), log.tell()
        parts = (told.partition(mark)[2][-2_000:] for mark in FAULTS)
        return [part for part in parts if part]

    def ask(self, method: str, path: str | httpx.URL, **how: Any) -> httpx.Response:
        """Send one request, and look at its answer."""
        began_s = time.monotonic()
        answer = self.client.request(method, path, **how)
        self.longest_s = max(self.longest_s, time.monotonic() - began_s)
        self.look_at(answer)
        return answer

    def post(self, path: str, body: object, **how: Any) -> httpx.Response:
        """JSON as a hostile client writes it: NaN, half characters and all."""
        headers = {"content-type": "application/json", **how.pop("headers", {})}
        return self.ask("POST", path, content=json.dumps(body), headers=headers, **how)

    def look_at(self, answer: Any) -> None:
        self.sent += 1
        assert answer.status_code < 500, f"{answer.status_code}: {answer.text[:500]}"
        told = [word for word in INSIDES if word in answer.text]
        page = "text/html" in answer.headers.get("content-type", "")
        assert not told or (page and answer.status_code == 200), f"{told}: {answer.text[:2000]}"
        if page and answer.status_code != 200:
            assert SCRIPT not in answer.text

    def draws(self) -> None:
        """The next good request is answered as ever."""
        answer = self.client.post("/v1/images/generations", json={"prompt": "a tree", "steps": 1})
        assert answer.status_code == 200, answer.text


@contextmanager
def attacked(folder: Path) -> Iterator[Attacked]:
    """All that it needs to write lies in `folder`."""
    port, temporary = free_port(), folder / "temporary"
    temporary.mkdir()
    places = {"TMPDIR": str(temporary), "GRADIO_TEMP_DIR": str(temporary / "gradio")}
    command = ["-m", "tests.ui.watched_fakes", str(folder), str(port)]
    environment = {**os.environ, **places, "PYTHONDONTWRITEBYTECODE": "1"}
    with serving(command, port, folder / "app.log", environment) as (process, url):
        wait_ready(url)
        with httpx.Client(base_url=url, timeout=60) as client:
            yield Attacked(url, process.pid, folder, client)
