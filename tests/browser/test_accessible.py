"""What axe-core finds, and what a keyboard and an eye notice: nothing wrong, and nothing jumps."""

import json
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open
from tests.browser.test_page import PICTURE, ask, at_rest
from tests.conftest import Serve, Served

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")
WIDTHS_PX = (1280, 390)


@pytest.fixture(scope="module")
def owned(serve: Serve) -> Any:
    """An unlocked app, whose owner is everybody."""
    with serve(locked=False) as served:
        yield served


def found(page: Page) -> list[str]:
    """Violations that axe-core calls serious or critical, each with what it is about."""
    results = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary']}"
        for one in results["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_is_found_at_either_width(
    open_page: Open, owned: Served, scheme: str
) -> None:
    page = open_page(owned, dark=scheme == "dark")
    ask(page, "a tree")
    expect(page.locator(PICTURE)).to_be_visible()
    at_rest(page)
    for section in ("#kept", "#compare", "#programs", "#from-picture"):
        page.locator(f"{section} > button").click()
    expect(page.locator("#log pre")).to_contain_text("Generate: Finished")
    page.evaluate(AXE.read_text())
    for width in WIDTHS_PX:
        page.set_viewport_size({"width": width, "height": 900})
        ask(page, " ")
        expect(page.locator(".toast-wrap")).to_contain_text("The prompt is empty")
        page.wait_for_timeout(400)  # fades
        problems = found(page)
        assert problems == [], "\n".join(problems)


def test_nothing_jumps_while_steps_stream(open_page: Open, owned: Served) -> None:
    page = open_page(owned)
    page.wait_for_timeout(1000)  # the page has settled
    page.evaluate("""() => {
        window.jumps = [];
        new PerformanceObserver((list) => {
            for (const one of list.getEntries())
                window.jumps.push([one.value, ...one.sources.map((s) => s.node?.outerHTML)]);
        }).observe({type: "layout-shift"});
    }""")
    ask(page, "fake:slow")
    expect(page.locator(PICTURE)).to_be_visible()
    at_rest(page)
    page.wait_for_timeout(500)
    jumps = page.evaluate("window.jumps")
    assert sum(value for value, *_ in jumps) < 0.02, json.dumps(jumps, indent=1)
