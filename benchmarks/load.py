"""Many visitors at once: 60 clients of 5 requests each and one of 50, by two doors, some slow, some
gone in the middle. Against the app on the software TPU, with the demo model.

Every request has to end in an image or in a clear refusal; none may be lost, none drawn twice; the
page has to answer meanwhile, and memory to stay as it was. Usage: python -m benchmarks.load
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.launching import running
from tests.processes import family
from tpu_ui.metadata import read_png

CLIENTS, REQUESTS, GREEDY = 60, 5, 50
GREEDY_NAME = "greedy"
IMAGE, REFUSED, GONE, LOST = "image", "refused", "gone", "lost"
REFUSALS = ("The queue is full", "of your jobs wait already")
LOOK_S = 0.5
ENOUGH_S = 300.0
PAGES = {"page": "/", "health": "/health", "config": "/config"}


@dataclass(frozen=True)
class Answer:
    """How one request ended. `words`: what a refusal or a loss said."""

    visitor: str
    prompt: str
    end: str
    seconds: float
    words: str = ""


@dataclass(frozen=True)
class Drawn:
    """A picture on disk: when its job came into the queue, and when it was made."""

    prompt: str
    submitted_s: float
    done_s: float

    @property
    def visitor(self) -> str:
        return self.prompt.split(",")[0]

    @classmethod
    def read(cls, path: Path) -> "Drawn":
        info, done_s = read_png(path), path.stat().st_mtime
        return cls(info["prompt"], done_s - info["timings_s"]["total"], done_s)


@dataclass
class Report:
    """What came of it all."""

    answers: list[Answer]
    drawn: list[Drawn]  # the pictures on disk
    looks_s: dict[str, list[float]]  # how long the page took to answer meanwhile

    def count(self, end: str) -> int:
        return sum(answer.end == end for answer in self.answers)

    @property
    def twice(self) -> list[str]:
        counted = Counter(one.prompt for one in self.drawn)
        return [prompt for prompt, count in counted.items() if count > 1]

    @property
    def promised_but_missing(self) -> set[str]:
        images = {one.prompt for one in self.answers if one.end == IMAGE}
        return images - {one.prompt for one in self.drawn}

    @property
    def unclear(self) -> list[Answer]:
        """Refusals that do not say why."""
        refused = [one for one in self.answers if one.end == REFUSED]
        return [one for one in refused if not any(words in one.words for words in REFUSALS)]

    def greedy_ahead(self) -> int:
        """The most pictures of the greedy visitor that were made while another's job waited."""
        greedy = [one.done_s for one in self.drawn if one.visitor == GREEDY_NAME]
        return max(
            sum(one.submitted_s < done_s < one.done_s for done_s in greedy)
            for one in self.drawn
            if one.visitor != GREEDY_NAME
        )


class Clients:
    """All visitors, against the app at `url`. `wish`: fields of each request, by API name.

    `hold`: a prompt of one who comes first and stays until a request has been refused.
    """

    def __init__(self, url: str, wish: dict[str, Any], hold: str = "") -> None:
        self._hold = hold
        self._url = url.rstrip("/")
        self._wish = wish
        # A connection each: a server that is slow may close a kept one while it is used again.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._http = httpx.AsyncClient(limits=limits, timeout=httpx.Timeout(30, read=600))
        self._number = 0
        self._defaults: dict[str, Any] = {}

    async def drive(self, outputs: Path, requests: int = REQUESTS, greedy: int = GREEDY) -> Report:
        async with self._http:
            config = (await self._http.get(f"{self._url}/config")).json()
            (self._number,) = [
                one["id"] for one in config["dependencies"] if one["api_name"] == "generate"
            ]
            info = (await self._http.get(f"{self._url}/gradio_api/info")).json()
            self._defaults = {
                one["parameter_name"]: one.get("parameter_default")
                for one in info["named_endpoints"]["/generate"]["parameters"]
            }
            looks: dict[str, list[float]] = {name: [] for name in PAGES}
            looking = asyncio.create_task(self._look(looks))
            async with self._held() if self._hold else nullcontext():
                greedily = [
                    asyncio.create_task(self._openai(GREEDY_NAME, f"{GREEDY_NAME}, {n}"))
                    for n in range(greedy)
                ]
                if self._hold:  # nothing is drawn: what ends has been refused
                    await asyncio.wait(greedily, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0.5)
            visits = await asyncio.gather(*(self._visit(n, requests) for n in range(CLIENTS)))
            answers = [*await asyncio.gather(*greedily), *(one for of in visits for one in of)]
            await self._settled()
            looking.cancel()
        drawn = map(Drawn.read, outputs.rglob("*.png"))
        return Report(answers, [one for one in drawn if one.prompt != self._hold], looks)

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[None]:
        """While the worker is at a job that nobody waits for in the end."""
        body = {"prompt": self._hold, "steps": 30, "n": 4}
        holding = asyncio.create_task(
            self._http.post(f"{self._url}/v1/images/generations", json=body)
        )
        while (await self._status())["state"] != "busy":
            await asyncio.sleep(0.05)
        try:
            yield
        finally:
            holding.cancel()

    async def _visit(self, number: int, requests: int) -> list[Answer]:
        """One visitor: her requests, one after another. Each in her own way."""
        visitor = f"visitor {number}"
        answers = []
        for turn in range(requests):
            prompt = f"{visitor}, {turn}"
            gone = number % 10 in (3, 7) and turn == 2
            if number % 3 == 0:
                request = self._openai(visitor, prompt, gone=gone)
            else:
                slow_s = 0.2 if number % 5 == 1 else 0.0
                request = self._gradio(visitor, prompt, slow_s=slow_s, gone=gone)
            try:
                answers.append(await asyncio.wait_for(request, ENOUGH_S))
            except TimeoutError:
                answers.append(Answer(visitor, prompt, LOST, ENOUGH_S, "nothing came"))
        return answers

    async def _openai(self, visitor: str, prompt: str, *, gone: bool = False) -> Answer:
        began_s = time.monotonic()

        def answer(end: str, words: str = "") -> Answer:
            return Answer(visitor, prompt, end, time.monotonic() - began_s, words)

        body = {"prompt": prompt, "user": visitor, "response_format": "b64_json", **self._wish}
        timeout = httpx.Timeout(30, read=1.0 if gone else 600)
        try:
            url = f"{self._url}/v1/images/generations"
            got = await self._http.post(url, json=body, timeout=timeout)
        except httpx.ReadTimeout:
            return answer(GONE if gone else LOST, "no answer")
        except httpx.TransportError as error:
            return answer(LOST, repr(error))
        if got.status_code == 200:
            return answer(IMAGE)
        words = got.text
        return answer(REFUSED if got.status_code == 429 else LOST, words)

    async def _gradio(
        self, visitor: str, prompt: str, *, slow_s: float = 0.0, gone: bool = False
    ) -> Answer:
        began_s = time.monotonic()

        def answer(end: str, words: str = "") -> Answer:
            return Answer(visitor, prompt, end, time.monotonic() - began_s, words)

        # Who hangs up and comes back has opened the page anew.
        session = f"{visitor} {'gone' if gone else 'here'}".replace(" ", "-")
        data = {**self._defaults, **self._wish, "prompt": prompt}
        body = {"data": list(data.values()), "fn_index": self._number, "session_hash": session}
        try:
            joined = await self._http.post(f"{self._url}/gradio_api/queue/join", json=body)
            event = joined.json()["event_id"]
            async for message in self._told(session, event):
                await asyncio.sleep(slow_s)
                if gone and message["msg"] == "process_generating":
                    return answer(GONE)
                if message["msg"] == "process_completed":
                    if not message["success"]:
                        words = str(message["output"].get("error"))
                        return answer(REFUSED if REFUSALS[0] in words else LOST, words)
                    (picture,) = message["output"]["data"][0]
                    url = f"{self._url}/gradio_api/file={picture['path']}"
                    found = await self._http.get(url)
                    return answer(IMAGE if found.status_code == 200 else LOST, found.text[:80])
        except (httpx.TransportError, KeyError) as error:
            return answer(LOST, repr(error))
        return answer(LOST, "the stream ended")

    async def _told(self, session: str, event: str) -> AsyncIterator[dict[str, Any]]:
        url = f"{self._url}/gradio_api/queue/data?session_hash={session}"
        async with self._http.stream("GET", url) as stream:
            async for line in stream.aiter_lines():
                message = json.loads(line.removeprefix("data: ")) if line else {}
                if message.get("event_id") == event:
                    yield message

    async def _look(self, looks_s: dict[str, list[float]]) -> None:
        """Open the page again and again."""
        while True:
            for name, path in PAGES.items():
                began_s = time.monotonic()
                await self._http.get(f"{self._url}{path}")
                looks_s[name].append(time.monotonic() - began_s)
            await asyncio.sleep(LOOK_S)

    async def _settled(self) -> None:
        """Until nobody waits and nothing runs."""
        while True:
            status = await self._status()
            if not status["queue_length"] and status["detail"] == "Ready.":
                return
            await asyncio.sleep(0.2)

    async def _status(self) -> dict[str, Any]:
        asked = await self._http.post(f"{self._url}/gradio_api/run/status", json={"data": []})
        (status,) = asked.json()["data"]
        return dict(status)


def memory_mb(pid: int) -> float:
    """What a process holds, in memory of its own."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (held,) = [line for line in lines if line.startswith("RssAnon:")]
    return int(held.split()[1]) / 1000


def summary(report: Report) -> dict[str, Any]:
    """The figures."""
    waits = sorted(one.seconds for one in report.answers if one.end == IMAGE)
    looks = {
        name: {"median_s": round(statistics.median(all_s), 3), "max_s": round(max(all_s), 3)}
        for name, all_s in report.looks_s.items()
    }
    return {
        "requests": len(report.answers),
        **{end: report.count(end) for end in (IMAGE, REFUSED, GONE, LOST)},
        "drawn": len(report.drawn),
        "drawn_twice": len(report.twice),
        "promised_but_missing": len(report.promised_but_missing),
        "greedy_while_another_waited": report.greedy_ahead(),
        "image_s_median": round(statistics.median(waits), 1),
        "image_s_p95": round(waits[int(0.95 * len(waits))], 1),
        "answers_meanwhile": looks,
        "what_was_lost": [asdict(one) for one in report.answers if one.end == LOST][:5],
    }


def wait_ready(url: str) -> None:
    while httpx.get(f"{url}/health", timeout=30).status_code != 200:
        time.sleep(0.5)


def main(steps: int) -> None:
    arguments = ["--device", "software-tpu", "--lock", "--queue-per-visitor", str(GREEDY)]
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        with running(folder, *arguments) as (process, url):
            wait_ready(url)
            wish = {"steps": steps}
            (worker, *_) = family(process.pid)
            pids = {"app": process.pid, "worker": worker}
            asyncio.run(Clients(url, wish).drive(folder / "outputs", requests=1))
            before = {name: memory_mb(pid) for name, pid in pids.items()}
            for path in (folder / "outputs").rglob("*.png"):
                path.unlink()
            began_s = time.monotonic()
            report = asyncio.run(Clients(url, wish).drive(folder / "outputs"))
            figures = summary(report)
            figures["seconds"] = round(time.monotonic() - began_s, 1)
            figures["memory_mb"] = {
                name: {"start": round(before[name], 1), "end": round(memory_mb(pid), 1)}
                for name, pid in pids.items()
            }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
