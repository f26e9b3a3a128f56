"""Another TPU UI, over its API: Gradio's endpoints, by plain HTTP.

`ask` is one question and its answer, `follow` a job's answers as they come, `fetch` a file. Every
failure to reach it is an AwayError; what it refuses is raised in its own words. Knows nothing of
jobs.
"""

import json
import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from tpu_ui import errors
from tpu_ui.dispatch.wire import CALLER
from tpu_ui.errors import AwayError, TpuUiError

API = "/gradio_api"
FILE = f"{API}/file="
CONNECT_S = 4.0
ANSWER_S = 10.0
# A far app that is well says something every 15 s at the latest: Gradio's heartbeat.
SILENCE_S = 40.0
REFUSED = (400, 500)  # with a sentence: what a caller can mend, and what has failed there
MAX_FILE_BYTES = 200_000_000
MAX_ANSWER_BYTES = 100_000_000  # tokenizers take megabytes
MAX_SENTENCE_CHARACTERS = 600

# The latter is what httpx raises for a client that has been closed.
FAILURES = (httpx.HTTPError, RuntimeError)

log = logging.getLogger(__name__)


class Far:
    """May be used by several threads. `token` is "USER:PASSWORD" of the far app's --auth, or what a
    proxy before it wants as a bearer token; it goes to that address alone."""

    def __init__(self, url: str, token: str | None) -> None:
        self.host = urlsplit(url).netloc
        self._url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        parts = urlsplit(url)
        if token and parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "localhost"):
            log.warning(
                "The token goes to %s over plain http, and can be read on its way.", self.host
            )
        self._http = httpx.Client(
            headers=headers,
            timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S),
            # One connection a job that goes on; its own queue bounds them.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=8),
        )

    def ask(self, endpoint: str, *inputs: object, timeout_s: float = ANSWER_S) -> Any:
        """What an endpoint that answers at once says."""
        path, body = f"{API}/run/{endpoint}", {"data": list(inputs)}
        answer = self._send("POST", path, json=body, timeout=timeout_s)
        told = _parsed(answer.content)
        if answer.status_code in REFUSED and isinstance(told, dict) and told.get("error"):
            raise _refusal(told)
        self._check(answer.status_code)
        try:
            return told["data"][0]
        except (KeyError, TypeError, IndexError):
            raise self.unreadable() from None

    def follow(
        self, endpoint: str, inputs: Sequence[object], caller: str
    ) -> Generator[Any, None, None]:
        """The answers of a job, as they come, to its end: each a list of the endpoint's outputs.

        `caller` is whose turn it takes. Raises TpuUiError for what the far app says has failed.
        """
        path, headers = f"{API}/call/{endpoint}", {CALLER: caller}
        answer = self._send("POST", path, json={"data": list(inputs)}, headers=headers)
        self._check(answer.status_code)
        told = _parsed(answer.content)
        if not isinstance(told, dict) or not isinstance(told.get("event_id"), str):
            raise self.unreadable()
        events = f"{self._url}{path}/{quote(told['event_id'], safe='')}"
        timeout = httpx.Timeout(SILENCE_S, connect=CONNECT_S)
        try:
            with self._http.stream("GET", events, timeout=timeout, headers=headers) as stream:
                self._check(stream.status_code)
                yield from self._answers(stream.iter_lines())
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise self._out_of_reach(error) from error
        except FAILURES as error:
            raise AwayError(f"The connection to {self.host} was lost") from error

    def fetch(self, path: str) -> bytes:
        """The file that the far app has handed out under this path."""
        parts, size = [], 0
        try:
            with self._http.stream("GET", f"{self._url}{FILE}{quote(path)}") as answer:
                self._check(answer.status_code)
                for part in answer.iter_bytes():
                    parts.append(part)
                    size += len(part)
                    if size > MAX_FILE_BYTES:
                        raise self.unreadable()
        except FAILURES as error:
            raise self._out_of_reach(error) from error
        return b"".join(parts)

    def close(self) -> None:
        self._http.close()

    def unreadable(self) -> AwayError:
        """For an answer that is not of the form that this version reads."""
        return AwayError(f"{self.host} does not answer as a TPU UI of this version does")

    def _send(self, method: str, path: str, **content: Any) -> httpx.Response:
        try:
            return self._http.request(method, f"{self._url}{path}", **content)
        except FAILURES as error:
            raise self._out_of_reach(error) from error

    def _answers(self, lines: Iterator[str]) -> Iterator[Any]:
        """Of a stream of events: "event: NAME", "data: JSON", an empty line."""
        event = ""
        for line in lines:
            name, _, value = line.partition(": ")
            if name == "event":
                event = value
            elif name == "data" and event != "heartbeat":
                told = _parsed(value.encode())
                if event == "error":
                    raise self._ended(told)
                if not isinstance(told, list):
                    raise self.unreadable()
                yield told
                if event == "complete":
                    return
        raise AwayError(f"The connection to {self.host} was lost")

    def _ended(self, told: object) -> TpuUiError:
        if isinstance(told, dict) and told.get("error"):
            return _refusal(told)
        log.warning("%s ended a job: %.200r", self.host, told)  # as Gradio does when it stops
        return AwayError(f"The connection to {self.host} was lost")

    def _check(self, status: int) -> None:
        if status in (401, 403):
            raise self._refused()
        if status != 200:
            raise AwayError(f"{self.host} does not answer as a TPU UI does (HTTP {status})")

    def _refused(self) -> AwayError:
        return AwayError(f"{self.host} refuses the login of --remote-token")

    def _out_of_reach(self, error: Exception) -> AwayError:
        log.debug("%s: %r", self.host, error)
        return AwayError(f"The TPU UI at {self.host} cannot be reached")


def _parsed(content: bytes) -> Any:
    """JSON, or None."""
    if len(content) > MAX_ANSWER_BYTES:
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _refusal(told: Mapping[str, Any]) -> TpuUiError:
    """What the far app says, as the error that it is there."""
    return errors.as_told(str(told.get("title")), str(told["error"])[:MAX_SENTENCE_CHARACTERS])
