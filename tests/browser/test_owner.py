"""The owner's corner, and a picture again in another mode, in an app that its owner unlocked."""

import re
from collections.abc import Iterator

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from playwright.sync_api import BrowserContext, expect

from tests.browser.conftest import Open
from tests.browser.test_page import PICTURE, ask, at_rest
from tests.conftest import Serve, Served
from tpu_ui.metadata import read_png
from tpu_ui.passwords import known_logins
from tpu_ui.shapes import ImageSize, Mode
from tpu_ui.ui.door import door_of

LOGIN = ("me", "a-long-password")


@pytest.fixture(scope="module")
def owned(serve: Serve) -> Iterator[Served]:
    """An unlocked app, whose owner is everybody."""
    with serve(locked=False) as served:
        yield served


def test_a_picture_is_made_again_in_another_mode_with_the_same_seed(
    open_page: Open, owned: Served
) -> None:
    warmed = owned.dispatcher.warm_up("demo", Mode.FUSED, ImageSize(256, 256))
    assert list(owned.dispatcher.updates(warmed))
    page = open_page(owned)
    ask(page, "a {red|green} tree")
    expect(page.locator(PICTURE)).to_be_visible()
    at_rest(page)
    expect(page.locator("#again-compiled")).to_be_hidden()
    facts = page.locator("#result-facts .tpu-facts-line")
    seed = facts.locator("span").first.inner_text()
    drawn = page.locator("#result-facts .tpu-prompt").inner_text()
    before = page.locator(PICTURE).get_attribute("src")
    page.locator("#again-fused").click()
    expect(page.locator(PICTURE)).not_to_have_attribute("src", before or "")
    at_rest(page)
    expect(facts).to_contain_text(seed)
    expect(page.locator("#result-facts")).to_contain_text(drawn)
    expect(page.get_by_label("Fused eager")).to_be_checked()
    made = max(owned.outputs.rglob("*.png"), key=lambda path: path.stat().st_mtime)
    assert read_png(made)["mode"] == "fused"
    expect(page.locator("#again-fused")).to_be_hidden()
    # A mode that is not ready: the form is filled, and the cost is told.
    done = owned.dispatcher.tally().finished
    page.locator("#again-eager").click()
    expect(page.get_by_label("Strict eager")).to_be_checked()
    expect(page.locator("#size")).to_contain_text("256x256 is cold and has to be compiled first")
    expect(page.locator("#seed input")).to_have_value(seed.removeprefix("Seed "))
    page.wait_for_timeout(500)
    at_rest(page)
    assert owned.dispatcher.tally().finished == done


def test_the_owner_locks_and_unlocks_and_sees_the_machine(open_page: Open, owned: Served) -> None:
    page = open_page(owned)
    client = Client(owned.url, verbose=False)
    page.locator("#programs > button").click()
    expect(page.locator("#machine")).to_contain_text(
        "5.0 of 16.0 GiB of the chip in use, 11.0 free"
    )
    expect(page.locator("#machine")).to_contain_text(re.compile(r"gradio \d"))
    expect(page.locator("#log pre")).to_contain_text("WarmUp: Finished")
    wide = page.locator("#size input[value='320x192']")
    expect(wide).to_be_enabled()
    page.locator("#lock input").check()
    expect(wide).to_be_disabled()
    with pytest.raises(AppError, match="320x192 is not ready in compiled mode"):
        client.predict("a tree", size="320x192", api_name="/generate")
    page.locator("#lock input").uncheck()
    expect(wide).to_be_enabled()
    _, (info,) = client.predict("a tree", size="320x192", api_name="/generate")
    assert info["size"] == "320x192"
    client.close()


def test_a_visitor_sees_nothing_of_the_owners_and_signs_in_as_her(
    serve: Serve, open_page: Open
) -> None:
    door = door_of(owner=LOGIN[0], logins=known_logins(LOGIN, None), locked_at_start=True)
    with serve(door=door) as served:
        page = open_page(served)
        expect(page.locator("#who")).to_contain_text("Sign in")
        for hidden in ("#programs", "#warm-up"):
            expect(page.locator(hidden)).to_be_hidden()
        assert "Load: Finished" not in page.content()
        page.get_by_role("link", name="Sign in").click()
        page.get_by_label("Name").fill(LOGIN[0])
        page.get_by_label("Password").fill(LOGIN[1])
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("#who")).to_contain_text("me (owner)")
        assert LOGIN[1] not in page.content()
        assert LOGIN[1] not in page.url
        expect(page.locator("#warm-up")).to_be_visible()
        page.locator("#programs > button").click()
        expect(page.locator("#log pre")).to_contain_text("WarmUp: Finished")
        page.locator("#who button").click()
        expect(page.locator("#who")).to_contain_text("Sign in")
        expect(page.locator("#programs")).to_be_hidden()
        page.close()  # before the app: what it asks has to be answered


def test_who_has_logged_in_owns_a_locked_app(serve: Serve, chromium: BrowserContext) -> None:
    assert chromium.browser is not None
    with serve(login=LOGIN) as served:
        browser = chromium.browser.new_context()
        page = browser.new_page()
        page.goto(served.url)
        page.get_by_label("username").fill(LOGIN[0])
        page.get_by_label("password").fill(LOGIN[1])
        page.get_by_role("button", name="Login").click()
        page.locator("#programs > button").click()
        expect(page.locator("#machine")).to_contain_text("Up for")
        expect(page.locator("#lock input")).to_be_checked()
        page.locator("#lock input").uncheck()
        served.wait_for(lambda now: not now.locked)
        browser.close()
