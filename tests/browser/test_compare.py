"""Comparisons in a real browser."""

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.conftest import Open
from tests.browser.test_page import at_rest, scrolls_sideways
from tests.conftest import Served
from tpu_ui.metadata import read_png

CELLS = "#compare-table td[data-state]"


def choose(page: Page, field: str, option: str) -> None:
    page.locator(f"{field} input").click()
    page.get_by_role("option", name=option, exact=True).click()


def open_compare(page: Page, prompt: str, axis: str, value: str) -> None:
    page.locator("#prompt textarea").fill(prompt)
    page.locator("#compare > button").click()
    choose(page, "#compare-first", axis)
    expect(page.locator("#compare-first-values")).to_contain_text(value)
    expect(page.locator("#compare-cost")).to_contain_text("4 pictures")
    expect(page.locator("#compare-cost")).to_contain_text("Nothing to load or to compile")


def test_steps_are_compared_and_the_grid_and_every_picture_are_kept(
    open_page: Open, server: Served, tmp_path: Path
) -> None:
    page = open_page(server, width=390)
    expect(page.locator("#compare-start")).to_be_hidden()
    open_compare(page, "a {red|green} tree", "Steps", "24")
    choose(page, "#compare-second", "Seed")
    expect(page.locator("#compare-cost")).to_contain_text("16 pictures")
    page.locator("#compare-second-values input").press("Backspace")
    page.locator("#compare-second-values input").press("Backspace")
    expect(page.locator("#compare-cost")).to_contain_text("8 pictures")
    page.locator("#compare-start").click()
    expect(page.locator("#progress")).to_contain_text("Done: 8 pictures in")
    expect(page.locator(CELLS)).to_have_count(8)
    expect(page.locator(f"{CELLS} img")).to_have_count(8)
    expect(page.locator(CELLS).first).to_contain_text("0 programs")
    image = page.locator(f"{CELLS} img").first
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
    at_rest(page)
    assert not scrolls_sideways(page)
    with page.expect_download() as started:
        page.locator("#compare-pack").click()
    assert started.value.suggested_filename == "comparison.png"
    started.value.save_as(tmp_path / "grid.png")
    info = read_png(tmp_path / "grid.png")
    assert info["axes"] == {"steps": [4, 8, 16, 24], "seed": [1, 2]}
    assert info["prompt"] in ("a red tree", "a green tree")
    made = {(one["info"]["steps"], one["info"]["seed"]) for one in info["cells"]}
    assert len(made) == 8
    page.get_by_text("Your pictures", exact=True).click()
    expect(page.locator("#kept-pictures img")).to_have_count(8)


def test_cancel_ends_all_of_a_comparison_and_the_next_one_works(
    open_page: Open, server: Served
) -> None:
    page = open_page(server)
    open_compare(page, "fake:slow", "Seed", "4")
    page.locator("#compare-start").click()
    expect(page.locator("#progress")).to_contain_text("Picture 1 of 4 (Seed 1): step")
    expect(page.locator("#generate")).to_be_disabled()
    page.locator("#compare-cost").click()
    page.keyboard.press("Escape")
    expect(page.locator("#progress")).to_contain_text("Cancelled: 0 of 4 pictures made.")
    expect(page.locator(f'{CELLS}[data-state="waits"]')).to_have_count(3)
    at_rest(page)
    assert server.dispatcher.status().queue_length == 0
    page.locator("#prompt textarea").fill("a tree")
    page.locator("#compare-start").click()
    expect(page.locator("#progress")).to_contain_text("Done: 4 pictures")
