"""The page below a path, as a proxy has it: everything in it is found there."""

from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import TIMEOUT_MS, Complaints, Open
from tests.browser.test_page import PICTURE, ask
from tests.conftest import Serve, Served, free_port
from tests.proxying import proxy


def test_page_and_links_work_below_a_path(
    open_page: Open,
    serve: Serve,
    complaints: Complaints,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    port = free_port()
    public = f"http://127.0.0.1:{port}/tpu"
    # What --root-path gives to Gradio.
    monkeypatch.setenv("GRADIO_ROOT_PATH", "/tpu")
    with serve() as served, proxy(served.url, "/tpu", port):
        page = open_page(Served(f"{public}/", served.dispatcher, served.outputs))
        ask(page, "a hill")
        picture = page.locator(PICTURE)
        expect(picture).to_be_visible(timeout=TIMEOUT_MS)
        assert str(picture.get_attribute("src")).startswith(f"{public}/gradio_api/file=")
        assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
        assert httpx.get(f"{public}/health").json()["state"] == "ready"
        body = {"prompt": "a tree", "response_format": "url"}
        answer = httpx.post(f"{public}/v1/images/generations", json=body, timeout=30).json()
        (datum,) = answer["data"]
        assert datum["url"].startswith(f"{public}/gradio_api/file=")
        assert httpx.get(datum["url"]).content.startswith(b"\x89PNG")
        page.close()  # before the app that its streams come from
        assert complaints.lines == []
