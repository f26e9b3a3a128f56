"""How much a visitor fetches before she can use the page, and when she comes back."""

from collections.abc import Callable
from typing import Any

from playwright.sync_api import BrowserContext, Page

from tests.conftest import Served

FIRST_LOAD_BYTES = 550_000  # the README says so
AGAIN_BYTES = 60_000


def test_the_page_is_light_and_lighter_the_second_time(
    chromium: BrowserContext, server: Served
) -> None:
    assert chromium.browser is not None
    stranger = chromium.browser.new_context()  # with nothing in its cache
    page = stranger.new_page()
    first = fetched(page, lambda: page.goto(server.url))
    assert 200_000 < first < FIRST_LOAD_BYTES
    assert fetched(page, lambda: page.goto(server.url)) < AGAIN_BYTES
    stranger.close()


def fetched(page: Page, load: Callable[[], object]) -> int:
    """Bytes that came over the line, headers included, until the page had settled."""
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    sizes: list[float] = []

    def done(event: dict[str, Any]) -> None:
        sizes.append(event["encodedDataLength"])

    session.on("Network.loadingFinished", done)
    load()
    page.locator("#strip li").first.wait_for()
    page.wait_for_timeout(1500)
    session.detach()
    return int(sum(sizes))
