"""A picture on its way: seen where it will be, by the visitor who asked, until it is done."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import TIMEOUT_MS, Complaints, Open
from tests.browser.test_page import PICTURE, ask, at_rest, fill, last_long
from tests.conftest import Served

PREVIEW = "#stage .tpu-preview img"
PLACES = ("#stage", "#result-line", "#again", "#kept", "#compare", "#ask", "#settings")

WHERE = """places => places.map(place => {
  const box = document.querySelector(place).getBoundingClientRect();
  return [box.x, box.y + scrollY, box.width, box.height].map(Math.round);
})"""
SEEN = f"""places => {{
  const image = document.querySelector("#stage .tpu-preview[data-done=no] img");
  return image?.naturalWidth && {{places: ({WHERE})(places), width: image.naturalWidth}};
}}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_a_picture_is_seen_on_its_way_and_moves_nothing(
    open_page: Open, server: Served, width: int
) -> None:
    page = open_page(server, width=width)
    fill(page, "#steps", 30)
    prompt = "a hill fake:slow fake:preview " + "and a tree " * 20
    page.locator("#prompt textarea").fill(prompt)
    before = page.evaluate(WHERE, [*PLACES])
    ask(page, prompt)
    # In one look: it may be done a moment later.
    seen = page.wait_for_function(SEEN, arg=[*PLACES]).json_value()
    assert seen == {"places": before, "width": 16}
    expect(page.locator(PICTURE)).to_be_visible(timeout=TIMEOUT_MS)
    expect(page.locator(PREVIEW)).to_be_hidden()
    assert box(page, "#stage")["y"] == box(page, "#pictures")["y"]
    at_rest(page)
    expect(page.locator("#again-eager")).to_be_visible()
    assert page.evaluate(WHERE, [*PLACES]) == before


def test_nobody_else_sees_it_and_a_cancel_takes_it_away(open_page: Open, server: Served) -> None:
    other, page = open_page(server), open_page(server)
    last_long(page)
    ask(page, "a hill fake:slow fake:preview")
    expect(page.locator(PREVIEW)).to_be_visible()
    expect(other.locator("#now")).to_contain_text("step")
    assert other.locator(PREVIEW).count() == 0
    page.locator("#cancel").click()
    at_rest(page)
    expect(page.locator(PREVIEW)).to_have_count(0)


def test_later_pictures_are_seen_in_a_corner_beside_those_that_are_done(
    open_page: Open, server: Served
) -> None:
    page = open_page(server)
    fill(page, "#count", 2)
    ask(page, "a hill fake:slow fake:preview")
    expect(page.locator("[data-place=whole] img")).to_be_visible()
    expect(page.locator("[data-place=corner] img")).to_be_visible()
    assert box(page, "[data-place=corner]")["width"] < box(page, "#stage")["width"] / 3
    expect(page.locator("#pictures .thumbnails button")).to_have_count(2)
    at_rest(page)


def test_a_reload_finds_the_preview_again(
    open_page: Open, server: Served, complaints: Complaints
) -> None:
    page = open_page(server)
    last_long(page)
    ask(page, "a hill fake:slow fake:preview")
    expect(page.locator(PREVIEW)).to_be_visible()
    page.reload()
    complaints.forget("aborted", "errored out")  # the page's own streams, cut off by the reload
    expect(page.locator(PREVIEW)).to_be_visible()
    page.locator("#cancel").click()
    at_rest(page)


def test_a_wait_is_told_with_its_place(open_page: Open, server: Served) -> None:
    first, second = open_page(server), open_page(server)
    last_long(first)
    ask(first, "a hill fake:slow")
    expect(first.locator("#progress")).to_contain_text("step")
    ask(second, "a hill")
    expect(second.locator("#progress")).to_have_text(
        re.compile(r"Waiting: yours is next, about \d+ s\.")
    )
    first.locator("#cancel").click()
    at_rest(first)
    at_rest(second)


def box(page: Page, selector: str) -> dict[str, float]:
    """Where something is in the page, however far that is scrolled."""
    found = page.locator(selector).first.bounding_box()
    assert found is not None
    return {**found, "y": found["y"] + page.evaluate("window.scrollY")}
