"""Pictures that a browser finds again."""

import re
import zipfile
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Complaints, Open
from tests.browser.test_page import PICTURE, ask, at_rest, download, last_long
from tests.conftest import Served
from tpu_ui.metadata import read_png
from tpu_ui.ui.history import Kept

THUMBNAILS = "#kept-pictures button.thumbnail-item img, #kept-pictures .thumbnail-lg img"


def open_history(page: Page) -> None:
    page.get_by_text("Your pictures", exact=True).click()


def made(page: Page, served: Served, prompt: str) -> None:
    before = served.dispatcher.tally().finished
    ask(page, prompt)
    served.wait_for(lambda _: served.dispatcher.tally().finished > before)
    expect(page.locator("#result-facts")).to_contain_text(prompt)
    expect(page.locator(PICTURE)).to_be_visible()
    at_rest(page)


def reload(page: Page, complaints: Complaints) -> None:
    page.reload()
    page.locator("#strip li").first.wait_for()
    complaints.forget("AbortError", "errored out")  # the page that was left was still listening


def test_pictures_outlive_a_reload_and_tell_their_settings(
    open_page: Open, server: Served, complaints: Complaints, tmp_path: Path
) -> None:
    page = open_page(server)
    made(page, server, "a tree")
    page.locator("#count input[type=number]").fill("2")
    page.locator("#count input[type=number]").blur()
    made(page, server, "two boats")
    reload(page, complaints)
    open_history(page)
    expect(page.locator(THUMBNAILS)).to_have_count(3)
    expect(page.locator(PICTURE)).to_have_count(0)
    page.locator(THUMBNAILS).last.click()
    expect(page.locator(PICTURE)).to_be_visible()
    expect(page.locator("#result-facts")).to_contain_text("a tree")
    assert read_png(download(page, tmp_path))["prompt"] == "a tree"
    page.locator("#prompt textarea").fill("something else")
    page.locator("#kept-use").click()
    expect(page.locator("#prompt textarea")).to_have_value("a tree")
    expect(page.locator("#random-seed input")).not_to_be_checked()
    page.locator("#prompt textarea").fill("something else")
    page.locator("#kept-vary").click()
    expect(page.locator("#prompt textarea")).to_have_value("a tree")
    expect(page.locator("#random-seed input")).to_be_checked()


def test_all_are_downloaded_in_one_file_as_they_were_written(
    open_page: Open, server: Served, complaints: Complaints, tmp_path: Path
) -> None:
    page = open_page(server)
    for prompt in ("a tree", "a boat"):
        made(page, server, prompt)
    open_history(page)
    expect(page.locator(THUMBNAILS)).to_have_count(2)
    with page.expect_download() as started:
        page.locator("#kept-pack").click()
    assert re.fullmatch(r"tpu-ui-\d{4}-\d\d-\d\d\.zip", started.value.suggested_filename)
    started.value.save_as(tmp_path / "all.zip")
    written = {path.name: path.read_bytes() for path in server.outputs.rglob("*.png")}
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        assert len(archive.namelist()) == 2
        for name in archive.namelist():
            assert archive.read(name) == written[name]
        (tmp_path / "one.png").write_bytes(archive.read(archive.namelist()[0]))
    assert read_png(tmp_path / "one.png")["prompt"] == "a boat"
    page.locator("#kept-forget").click()
    expect(page.locator(THUMBNAILS)).to_have_count(0)
    reload(page, complaints)
    open_history(page)
    expect(page.locator("#kept-pack")).to_be_disabled()


def test_a_job_goes_on_in_view_after_a_reload(
    open_page: Open, server: Served, complaints: Complaints
) -> None:
    page = open_page(server)
    last_long(page)
    ask(page, "fake:slow")
    expect(page.locator("#progress")).to_contain_text("step")
    reload(page, complaints)
    expect(page.locator("#progress")).to_contain_text("step")
    expect(page.locator("#cancel")).to_be_enabled()
    expect(page.locator(PICTURE)).to_be_visible()
    open_history(page)
    expect(page.locator(THUMBNAILS).first).to_be_visible()
    page.locator("#cancel").click()
    at_rest(page)


def test_two_tabs_keep_one_list(open_page: Open, server: Served, complaints: Complaints) -> None:
    one, other = open_page(server), open_page(server)
    for page in (one, other):
        open_history(page)
    ask(one, "fake:slow one")
    expect(one.locator("#progress")).to_contain_text("Step")
    made(other, server, "other")  # begun before the first tab's job has ended
    for page in (one, other):
        expect(page.locator(THUMBNAILS)).to_have_count(2)
    made(other, server, "third")
    for page in (one, other):
        expect(page.locator(THUMBNAILS)).to_have_count(3)
        page.locator(THUMBNAILS).first.click()
        expect(page.locator("#result-facts")).to_contain_text("third")
    one.locator("#kept-forget").click()
    expect(other.locator(THUMBNAILS)).to_have_count(0)
    made(other, server, "after")
    reload(one, complaints)
    open_history(one)
    expect(one.locator(THUMBNAILS)).to_have_count(1)


# As the server has it done by the page, in a tab whose list is longer than ours.
MANY = """names => {
  const props = { most: 1000 };
  let changed;
  keepPictures(props, (_, then) => { changed = then; }, () => {});
  window.done = (async () => {
    for (const name of names) {
      props.value = { job: "", add: [name], drop: [] };
      changed();
      await new Promise((next) => setTimeout(next));
    }
  })();
}"""


def test_tabs_that_write_at_the_same_time_lose_nothing(open_page: Open, server: Served) -> None:
    tabs = [open_page(server), open_page(server)]
    names = [[f"{tab}-{number}" for number in range(30)] for tab in range(len(tabs))]
    for page, some in zip(tabs, names, strict=True):
        page.evaluate(MANY, some)
    for page in tabs:
        page.evaluate("() => window.done")
    for page in tabs:
        page.wait_for_function("readKept().pictures.length === 60")
        pictures = page.evaluate("readKept().pictures")
        assert [name for name in pictures if name in names[0]] == names[0][::-1]


def test_what_a_browser_made_up_is_not_read() -> None:
    right = f"2026-01-02/{'0' * 32}-1-5.png"
    wrong = ["../../etc/passwd", f"../{right}", right.replace("-1-", "-1-\n"), 5, None, right[1:]]
    for stored in (None, 5, [], {"pictures": 5}, {"pictures": [*wrong], "job": 7}):
        assert Kept.read(stored) == Kept()
    assert Kept.read({"pictures": [right, right, *wrong], "job": "0" * 32}).pictures == (right,)


def test_another_browser_sees_none_of_them(
    open_page: Open, server: Served, chromium: BrowserContext
) -> None:
    page = open_page(server)
    made(page, server, "a secret")
    assert chromium.browser is not None
    other = chromium.browser.new_context()
    stranger = other.new_page()
    stranger.goto(server.url)
    open_history(stranger)
    expect(stranger.locator("#kept-pack")).to_be_disabled()
    assert stranger.locator(THUMBNAILS).count() == 0
    other.close()
