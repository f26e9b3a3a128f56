"""The page in the language of the browser: everything of it, from the server and from Gradio."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import NEW_VISITOR, TIMEOUT_MS, Complaints
from tests.conftest import Serve, Served

# Names, units, and what an owner types.
NAMES = {
    "TPU",
    "API",
    "MCP",
    "PNG",
    "ZIP",
    "GiB",
    "Postcards",
    "demo",
    "software",
    "tpu",
    "fake",
    "gradio",
}
# What people wrote and what a log holds is theirs; the rest of Gradio's English is not ours.
TEXT = """() => {
  const theirs = ["#examples", "#log", "#prompt", ".tpu-prompt", "style", "script"];
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const { data, parentElement: inside } = texts.currentNode;
    if (inside.checkVisibility() && !inside.closest(theirs.join())) found.push(data);
  }
  const ours = "[class^=tpu-], [class^=tpu-] *";
  for (const one of document.querySelectorAll(ours)) found.push(one.title, one.ariaLabel ?? "");
  for (const one of document.querySelectorAll("[placeholder]")) found.push(one.placeholder);
  return found.filter((text) => text.trim());
}"""


@contextmanager
def page_in(
    locale: str, served: Served, chromium: BrowserContext, complaints: Complaints
) -> Iterator[Page]:
    assert chromium.browser is not None
    context = chromium.browser.new_context(locale=locale)
    context.set_default_timeout(TIMEOUT_MS)
    context.add_init_script(NEW_VISITOR)
    page = context.new_page()
    complaints.watch(page)
    page.goto(served.url)
    page.locator("#size li").first.wait_for()
    yield page
    context.close()
    assert complaints.lines == []


def test_a_korean_page_has_no_english_on_it(
    chromium: BrowserContext, complaints: Complaints, serve: Serve
) -> None:
    with (
        serve(locked=False) as served,
        page_in("ko-KR", served, chromium, complaints) as page,
    ):
        page.locator("#generate").click()
        expect(page.get_by_text("프롬프트가 비어 있습니다.")).to_be_visible()
        page.locator("#prompt textarea").fill("a boat")
        page.locator("#generate").click()
        expect(page.locator("#result-facts")).to_contain_text("시드")
        for section in ("#kept", "#compare", "#programs", "#from-picture"):
            page.locator(f"{section} > button").click()
        for part in ("#machine", "#compare-cost", "#program-table", "#kept-pictures img"):
            page.locator(part).first.wait_for()
        expect(page.locator("#compare-cost")).to_contain_text("그림")
        expect(page.locator("#machine")).to_contain_text("칩 메모리")
        left = {
            word: text
            for text in page.evaluate(TEXT)
            for word in re.findall(r"[A-Za-z]{3,}", text)
            if word not in NAMES and "a fake, for tests" not in text
        }
        assert left == {}


@pytest.mark.parametrize(
    ("locale", "cancel", "ready", "empty"),
    [
        ("ja-JP", "キャンセル", "準備完了", "画像はここに表示されます。"),
        ("zh-CN", "取消", "就绪", "图片将显示在这里。"),
        ("zh-TW", "取消", "就緒", "圖片將顯示在這裡。"),
        ("zh-HK", "取消", "就緒", "圖片將顯示在這裡。"),
        ("zh-SG", "取消", "就绪", "图片将显示在这里。"),
        ("de-DE", "Cancel", "Ready", "The picture appears here."),
    ],
)
def test_labels_and_what_the_server_says_are_in_one_language(
    locale: str,
    cancel: str,
    ready: str,
    empty: str,
    chromium: BrowserContext,
    complaints: Complaints,
    server: Served,
) -> None:
    with page_in(locale, server, chromium, complaints) as page:
        expect(page.locator("#cancel")).to_have_text(cancel)
        expect(page.locator("#now strong")).to_have_text(ready)
        place = page.locator("#pictures .empty")
        said = place.evaluate("place => getComputedStyle(place, '::after').content")
        assert said == f'"{empty}"'
