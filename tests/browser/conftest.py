"""A real Chromium that must stay silent: no error in its console, no request to another machine."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, sync_playwright

from tests.conftest import Served

CHROMIUM = os.environ.get("TPU_UI_TEST_CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TIMEOUT_MS = 20_000

Open = Callable[..., Page]


@dataclass
class Complaints:
    """What a browser had to say against the page."""

    lines: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on("console", lambda m: self._add(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self._add(f"uncaught: {error}"))
        page.on("request", self._check_address)

    def _check_address(self, request: Request) -> None:
        if not request.url.startswith(("http://127.0.0.1", "data:", "blob:")):
            self._add(f"asked another machine: {request.url}")

    def _add(self, line: str) -> None:
        self.lines.append(line[:300])


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.skip(f"no Chromium at {CHROMIUM}; TPU_UI_TEST_CHROMIUM names another place")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Open]:
    """`open_page(served, width=390)`: a new visitor's page, ready for use."""
    complaints = Complaints()
    contexts = []

    def make(served: Served, *, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            accept_downloads=True,
        )
        contexts.append(context)
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        complaints.watch(page)
        page.goto(served.url)
        page.locator("#strip li").first.wait_for()
        return page

    yield make
    for context in contexts:
        context.close()
    assert complaints.lines == []
