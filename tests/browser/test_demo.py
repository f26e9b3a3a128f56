"""The main job end to end: `python app.py`, the shipped model, the software TPU, a browser."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open
from tests.browser.test_page import PICTURE, ask, at_rest, download, drop
from tests.browser.test_preview import PREVIEW
from tests.launching import running
from tpu_ui.metadata import read_png

LOGIN = ("me", "a long password")
WARM_MS = 240_000
IMAGE_MS = 60_000
PROMPT = "a small red house left of two green trees under a night sky"


class App:
    """The address of an app that runs as a program, and where its pictures are."""

    def __init__(self, url: str, outputs: Path) -> None:
        self.url = url
        self.outputs = outputs


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("demo")
    with running(folder, "--lock", "--owner", ":".join(LOGIN)) as (_, url):
        yield App(url, folder / "outputs")


def test_a_person_watches_the_warm_up_and_makes_a_picture(
    open_page: Open, demo: App, tmp_path: Path
) -> None:
    page = open_page(demo)
    square = page.locator("#strip li[data-size='256x256']")
    expect(square).to_contain_text("compiling", timeout=WARM_MS)
    expect(square).to_contain_text("ready, took", timeout=WARM_MS)
    several(page)  # one picture may be done between two looks at the page
    ask(page, PROMPT)
    expect(page.locator("#progress")).to_have_text(
        re.compile(r"Image \d of 4: step \d+ of \d+, \d+ s left"), timeout=IMAGE_MS
    )
    expect(page.locator(PREVIEW)).to_be_visible(timeout=IMAGE_MS)
    expect(page.locator(PICTURE)).to_be_visible(timeout=IMAGE_MS)
    at_rest(page)
    info = read_png(download(page, tmp_path))
    assert info["prompt"] == PROMPT
    assert info["mode"] == "compiled"
    assert info["device"] == "software-tpu"
    assert info["programs_compiled"] == 0
    page.get_by_text("Settings from a picture").click()
    drop(page, next(demo.outputs.rglob("*.png")))
    expect(page.locator("#png-info")).to_contain_text(PROMPT)


def test_a_cold_size_is_refused_with_the_ready_ones(demo: App) -> None:
    client = Client(demo.url, verbose=False)
    with pytest.raises(AppError, match=r"320x192 is not ready.*256x256"):
        client.predict(PROMPT, size="320x192", api_name="/generate")
    (image,), (info,) = client.predict(PROMPT, steps=4, seed=5, api_name="/generate")
    written = client.predict(handle_file(image), api_name="/read_metadata")
    assert {**written, "job": info["job"]} == info
    assert client.predict(api_name="/status")["programs_compiled_since_ready"] == 0
    client.close()


def test_a_running_picture_can_be_cancelled(open_page: Open, demo: App) -> None:
    page = open_page(demo)
    several(page)
    ask(page, PROMPT)
    expect(page.locator("#progress")).to_contain_text("step", timeout=IMAGE_MS)
    page.locator("#cancel").click()
    expect(page.locator("#progress")).to_have_text("Cancelled.", timeout=IMAGE_MS)
    at_rest(page)


def test_the_owner_warms_another_mode_up_without_loading_again(open_page: Open, demo: App) -> None:
    page = open_page(demo)
    page.get_by_role("link", name="Sign in").click()
    page.get_by_label("Name").fill(LOGIN[0])
    page.get_by_label("Password").fill(LOGIN[1])
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("Fused eager").check()
    page.get_by_text("Programs and warm-up").click()
    expect(page.locator("#cold-size input")).to_have_value(re.compile("256x256"))
    page.locator("#warm-up-cold").click()
    expect(page.locator("#progress")).to_contain_text("Compiling 256x256", timeout=IMAGE_MS)
    expect(page.locator("#progress")).to_contain_text("256x256 is ready", timeout=WARM_MS)
    ask(page, PROMPT)
    expect(page.locator(PICTURE)).to_be_visible(timeout=IMAGE_MS)
    at_rest(page)


def several(page: Page) -> None:
    page.locator("#count input[type=number]").fill("4")
    page.locator("#count input[type=number]").blur()
