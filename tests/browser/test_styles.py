"""Styles and the counter of tokens in a real browser."""

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.test_compare import choose
from tests.browser.test_page import PICTURE, ask, at_rest, download, drop
from tests.conftest import Served
from tpu_ui.metadata import read_png


def test_style_is_counted_laid_over_the_prompt_and_found_again_in_the_picture(
    open_page: Open, server: Served, tmp_path: Path
) -> None:
    page = open_page(server)
    prompt, tokens = page.locator("#prompt textarea"), page.locator("#tokens")
    height = "element => element.offsetHeight"
    empty = tokens.evaluate(height)
    prompt.press_sequentially("a boat")
    expect(tokens).to_contain_text("4 of 32 tokens")
    choose(page, "#styles", "Starry night")
    expect(tokens).to_contain_text("8 of 32 tokens")
    ask(page, "a boat")
    expect(page.locator(PICTURE)).to_be_visible()
    at_rest(page)
    file = download(page, tmp_path)
    info = read_png(file)
    assert (info["prompt"], info["negative_prompt"]) == ("a boat under a starry sky", "noon")
    assert (info["unstyled_prompt"], info["styles"]) == ("a boat", ["night"])
    prompt.fill("word " * 40)
    expect(tokens).to_contain_text("Not read: word word")
    assert tokens.evaluate(height) == empty, "it would move what is below it"
    page.locator("#styles").get_by_role("button").first.click()
    page.get_by_text("Settings from a picture", exact=True).click()
    drop(page, file)
    expect(page.locator("#png-info")).to_contain_text("a boat under a starry sky")
    page.locator("#use-settings").click()
    expect(prompt).to_have_value("a boat")
    expect(page.locator("#styles")).to_contain_text("Starry night")
    expect(tokens).to_contain_text("8 of 32 tokens")
