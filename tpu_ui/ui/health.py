"""For machines that watch this one: is it ready, and what has it done.

`/health` is open to everybody and says nothing of anybody's pictures. `/metrics` is the owner's.
"""

from collections.abc import Iterator

from anyio import to_thread
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tpu_ui import __version__
from tpu_ui.dispatch.interface import Dispatcher, Report, Status
from tpu_ui.shapes import ProgramState
from tpu_ui.ui.door import Door

HTTP_STATUS = {"ready": 200, "starting": 503, "warming": 503, "away": 503, "failed": 500}
RETRY_S = 5


def health_routes(dispatcher: Dispatcher, door: Door) -> list[Route]:
    """`GET /health` and `GET /metrics`."""

    def health(request: Request) -> Response:
        now = dispatcher.status()
        state = state_of(now)
        headers = {} if state in ("ready", "failed") else {"Retry-After": str(RETRY_S)}
        body = {"state": state, "detail": now.detail, "model": now.model, "version": __version__}
        return JSONResponse(body, HTTP_STATUS[state], headers)

    registry = CollectorRegistry()
    registry.register(_Metrics(dispatcher))

    async def metrics(request: Request) -> Response:
        if not await door.lets_own(request):
            if not door.logins:
                return PlainTextResponse("These are the owner's; start with --owner.\n", 403)
            wanted = {"WWW-Authenticate": "Basic"}
            return PlainTextResponse("Log in as the owner, USER:PASSWORD.\n", 401, wanted)
        text = await to_thread.run_sync(generate_latest, registry)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    return [Route("/health", health), Route("/metrics", metrics)]


def state_of(now: Status) -> str:
    """ "starting" (no worker has a device yet), "warming" (nothing can be asked for yet), "ready"
    (also while a further size is compiled), "away" (the app that does the work is out of reach) or
    "failed"."""
    if now.state in ("failed", "away"):
        return now.state
    if now.state in ("ready", "busy"):
        return "ready"
    if now.device is None:
        return "starting"
    states = {size.state for sizes in now.sizes.values() for size in sizes.values()}
    return "ready" if now.state == "warming" and ProgramState.READY in states else "warming"


class _Metrics(Collector):
    """Read from the dispatcher whenever somebody asks."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def collect(self) -> Iterator[Metric]:
        now, done = self._dispatcher.status(), self._dispatcher.tally()
        info = GaugeMetricFamily(
            "tpu_ui_info", "What runs.", labels=["version", "model", "mode", "strategy", "chip"]
        )
        strategy = now.placement.strategy.value
        info.add_metric([__version__, now.model, now.mode.value, strategy, now.chip], 1)
        yield info
        up = GaugeMetricFamily("tpu_ui_state", "1 for the state it is in.", labels=["state"])
        for state in HTTP_STATUS:
            up.add_metric([state], state == state_of(now))
        yield up
        yield from self._report(self._dispatcher.report())
        yield GaugeMetricFamily("tpu_ui_workers", "Workers.", value=now.workers)
        yield GaugeMetricFamily("tpu_ui_queue_length", "Jobs that wait.", value=now.queue_length)
        yield GaugeMetricFamily(
            "tpu_ui_programs_compiled",
            "Programs compiled by the workers since they started.",
            value=now.programs_compiled,
        )
        yield GaugeMetricFamily(
            "tpu_ui_programs_compiled_since_ready",
            "Of these, after their size was ready. More than 0 is a bug.",
            value=now.programs_compiled_since_ready,
        )
        yield self._sizes(now)
        yield CounterMetricFamily("tpu_ui_images", "Images made.", value=done.images)
        jobs = CounterMetricFamily("tpu_ui_jobs", "Jobs by their ending.", labels=["ending"])
        for ending in ("finished", "failed", "cancelled"):
            jobs.add_metric([ending], getattr(done, ending))
        yield jobs

    def _report(self, report: Report) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "tpu_ui_uptime_seconds", "Since the start of the app.", value=report.uptime_s
        )
        memory = GaugeMetricFamily(
            "tpu_ui_memory_bytes",
            "Of the chip, or of the host where the chip does not tell.",
            labels=["worker", "of", "kind"],
        )
        for worker in report.workers:
            if worker.memory is not None:
                of = "chip" if worker.memory.of_chip else "host"
                in_use, free = worker.memory.in_use_bytes, worker.memory.free_bytes
                memory.add_metric([str(worker.index), of, "in_use"], in_use)
                memory.add_metric([str(worker.index), of, "free"], free)
        yield memory

    def _sizes(self, now: Status) -> Metric:
        sizes = GaugeMetricFamily(
            "tpu_ui_sizes", "Sizes of the loaded model by state.", labels=["mode", "state"]
        )
        for mode, by_size in now.sizes.items():
            for state in ProgramState:
                count = sum(one.state is state for one in by_size.values())
                sizes.add_metric([mode.value, state.value], count)
        return sizes
