"""A real Chromium that must stay silent: no error in its console, no request to another machine."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, Request, expect, sync_playwright

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
# What a page keeps in the browser is for its own reloads, not for the next test's page.
NEW_VISITOR = """
  if (!sessionStorage.getItem("here")) localStorage.clear();
  sessionStorage.setItem("here", "yes");
"""
GRADIOS_OWN = ("Method not implemented.",)  # logged by its client at every upload

Open = Callable[..., Page]


@dataclass
class Complaints:
    """What a browser had to say against the page."""

    lines: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on("console", lambda m: self._add(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self._add(f"uncaught: {error}"))
        page.on("request", self._check_address)

    def forget(self, *words: str) -> None:
        """Drop the lines that a test brought about on purpose."""
        self.lines = [line for line in self.lines if not any(word in line for word in words)]

    def _check_address(self, request: Request) -> None:
        if not request.url.startswith(("http://127.0.0.1", "data:", "blob:")):
            self._add(f"asked another machine: {request.url}")

    def _add(self, line: str) -> None:
        if line not in GRADIOS_OWN:
            self.lines.append(line[:1000])


@pytest.fixture(scope="session")
def chromium() -> Iterator[BrowserContext]:
    """One browser for all tests: its cache spares each page the loading of Gradio's scripts."""
    assert Path(CHROMIUM).exists(), f"no Chromium at {CHROMIUM}; TPU_UI_TEST_CHROMIUM names another"
    expect.set_options(timeout=TIMEOUT_MS)  # as patient as everything else, on a busy machine
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        context = browser.new_context(accept_downloads=True)
        context.set_default_timeout(TIMEOUT_MS)
        context.add_init_script(NEW_VISITOR)
        yield context
        browser.close()


@pytest.fixture
def complaints() -> Complaints:
    return Complaints()


@pytest.fixture
def open_page(chromium: BrowserContext, complaints: Complaints) -> Iterator[Open]:
    """`open_page(served, width=390)`: a new visitor's page, ready for use."""
    pages: list[Page] = []

    def make(served: Served, *, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        page = chromium.new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if dark else "light")
        complaints.watch(page)
        page.goto(served.url)
        page.locator("#strip li").first.wait_for()
        return page

    yield make
    for page in pages:
        page.close()
    assert complaints.lines == []
