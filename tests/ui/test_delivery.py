"""How the page and its parts travel."""

import re

import httpx

from tests.conftest import Served
from tpu_ui.ui.delivery import FOR_GOOD


def test_the_page_comes_compressed_and_its_scripts_are_kept_for_good(server: Served) -> None:
    page = httpx.get(server.url)
    assert page.headers["content-encoding"] == "gzip"
    assert int(page.headers["content-length"]) < len(page.content) / 4
    (script, *_) = re.findall(r"assets/[\w-]+\.js", page.text)
    kept = httpx.get(f"{server.url}{script}")
    assert kept.headers["cache-control"] == FOR_GOOD
    missing = httpx.get(f"{server.url}assets/nothing.js")
    assert missing.status_code == 404
    assert "cache-control" not in missing.headers


def test_who_takes_no_compression_gets_none(server: Served) -> None:
    page = httpx.get(server.url, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in page.headers
    assert "TPU UI" in page.text
