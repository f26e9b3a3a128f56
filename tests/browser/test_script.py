"""Script in everything that a visitor, a file or a link can bring: shown as text, and never run."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Dialog, Page, expect

from tests.browser.conftest import Complaints, Open
from tests.browser.test_history import THUMBNAILS, open_history, reload
from tests.browser.test_page import PICTURE, ask, at_rest, drop
from tests.conftest import Served
from tests.ui.hostile import IMAGE, SCRIPT
from tests.ui.test_hostile import A1111, settings_of
from tpu_ui.ui.intake import MAX_BODY_BYTES

BOTH = f'">{SCRIPT}{IMAGE}'
# Of these the page has some itself; none of them is ours.
PUT_IN = "img[src=x], #page script"


@pytest.fixture
def page(open_page: Open, server: Served) -> Iterator[Page]:
    """Fails at its end if a script has run, or markup has come in."""
    page, dialogs = open_page(server), list[str]()

    def note(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", note)
    yield page
    assert page.evaluate("window.__hit") is None
    assert page.locator(PUT_IN).count() == 0
    assert dialogs == []


def test_script_in_prompts_is_text_wherever_they_are_shown(
    page: Page, complaints: Complaints
) -> None:
    page.locator("#negative-prompt textarea").fill(BOTH)
    ask(page, BOTH)
    expect(page.locator(PICTURE)).to_be_visible()
    expect(page.locator("#result-facts")).to_contain_text(SCRIPT)
    at_rest(page)
    reload(page, complaints)
    open_history(page)
    page.locator(THUMBNAILS).first.click()
    expect(page.locator("#result-facts")).to_contain_text(SCRIPT)


def test_script_in_a_pictures_settings_is_text(page: Page, tmp_path: Path) -> None:
    names = ("prompt", "negative_prompt", "model", "mode", "size", "seed", "lora", "scheduler")
    lying = {**dict.fromkeys(names, BOTH), "styles": [BOTH], "axes": {BOTH: 1}}
    files = {
        "ours": settings_of(json.dumps(lying)),
        "theirs": settings_of(f"{BOTH}\nSteps: 5, Seed: 7, {BOTH}: {BOTH}, Lies: {BOTH}", A1111),
    }
    page.get_by_text("Settings from a picture").click()
    for name, content in files.items():
        (tmp_path / f"{name}.png").write_bytes(content)
        drop(page, tmp_path / f"{name}.png")
        expect(page.locator("#png-info")).to_contain_text(SCRIPT)
        page.locator("#use-settings").click()
        expect(page.locator("#prompt textarea")).to_have_value(BOTH)
        expect(page.locator(".toast-wrap")).to_contain_text("Not restored")
        page.get_by_label(re.compile("Remove|Clear")).first.click()


def test_script_in_what_the_browser_keeps_and_in_the_address_is_left_out(
    page: Page, server: Served
) -> None:
    kept = {"job": BOTH, "pictures": [BOTH, f"2025-01-01/{BOTH}.png", {"a": BOTH}]}
    page.evaluate("kept => localStorage.setItem('tpu-ui', JSON.stringify(kept))", kept)
    page.goto(f"{server.url}?__theme={BOTH}&view={BOTH}&__lang={BOTH}#{BOTH}")
    page.locator("#strip li").first.wait_for()
    open_history(page)
    expect(page.locator(THUMBNAILS)).to_have_count(0)


def test_a_prompt_of_a_megabyte_is_refused_in_words(page: Page, complaints: Complaints) -> None:
    page.locator("#prompt textarea").evaluate(
        """(field, length) => {
            field.value = "<b>".repeat(length / 3);
            field.dispatchEvent(new Event("input", { bubbles: true }));
        }""",
        1_000_000,
    )
    page.locator("#generate").click()
    expect(page.locator(".toast-wrap")).to_contain_text(f"at most {MAX_BODY_BYTES:,} bytes")
    at_rest(page)
    page.locator("#prompt textarea").fill("a tree")
    page.locator("#generate").click()
    expect(page.locator(PICTURE)).to_be_visible()
    complaints.forget("413")
