"""What machines that watch this one are told."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import Serve, Served, presets_with
from tpu_ui.runtime.fake import MEMORY
from tpu_ui.shapes import ImageSize

LOGIN = ("me", "a-long-password")
SQUARE = ImageSize(256, 256)


def health(served: Served) -> tuple[int, str]:
    answer = httpx.get(f"{served.url}health")
    return answer.status_code, answer.json()["state"]


def metrics(served: Served) -> dict[tuple[str, ...], float]:
    text = httpx.get(f"{served.url}metrics").raise_for_status().text
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_health_follows_the_start_and_a_further_warm_up(serve: Serve) -> None:
    slow = presets_with("fake:slow-load fake:slow-warm")
    with serve(presets=slow, wait=False, warm="all") as served:
        assert health(served)[0] == 503
        assert httpx.get(f"{served.url}health").headers["Retry-After"] == "5"
        served.wait_for(lambda now: now.state == "warming")
        assert health(served) == (503, "warming")
        served.wait_for(lambda now: now.sizes[now.mode][SQUARE].state == "ready")
        assert health(served) == (200, "ready")
        served.wait_for(lambda now: now.state == "ready")
        assert health(served) == (200, "ready")


def test_health_says_what_failed(serve: Serve) -> None:
    with serve(presets=presets_with("fake:load-error"), wait=False) as served:
        served.wait_for(lambda now: now.state == "failed")
        assert health(served) == (500, "failed")
        assert "fake:load-error" in httpx.get(f"{served.url}health").json()["detail"]


def test_metrics_count_images_jobs_and_programs(serve: Serve) -> None:
    with serve() as served:
        before = metrics(served)
        for prompt in ("a tree", "fake:error", "fake:compile"):
            body = {"prompt": prompt, "n": 2}
            httpx.post(f"{served.url}v1/images/generations", json=body, timeout=30)
        after = metrics(served)
    assert before["tpu_ui_state", "ready"] == 1
    assert before["tpu_ui_sizes", "compiled", "ready"] == 1
    assert before["tpu_ui_sizes", "compiled", "cold"] == 2
    assert before["tpu_ui_programs_compiled_since_ready",] == 0
    gained = {name: after[name] - before[name] for name in after if name in before}
    assert gained["tpu_ui_uptime_seconds",] > 0
    assert after["tpu_ui_memory_bytes", "in_use", "chip", "0"] == MEMORY.in_use_bytes
    assert after["tpu_ui_memory_bytes", "free", "chip", "0"] == MEMORY.free_bytes
    assert gained["tpu_ui_images_total",] == 4
    assert gained["tpu_ui_jobs_total", "finished"] == 2
    assert gained["tpu_ui_jobs_total", "failed"] == 1
    assert after["tpu_ui_programs_compiled_since_ready",] > 0


def test_metrics_are_behind_the_login_and_health_is_not(serve: Serve) -> None:
    with serve(login=LOGIN) as served:
        assert health(served) == (200, "ready")
        url = f"{served.url}metrics"
        assert httpx.get(url).status_code == 401
        assert httpx.get(url, auth=("me", "wrong")).status_code == 401
        assert httpx.get(url, headers={"Authorization": "Basic ???"}).status_code == 401
        assert "tpu_ui_state" in httpx.get(url, auth=LOGIN).text


@pytest.mark.parametrize("path", ["health", "metrics"])
def test_only_reading_is_taken(path: str, server: Served) -> None:
    assert httpx.post(f"{server.url}{path}").status_code == 405
