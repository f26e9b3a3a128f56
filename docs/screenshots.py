"""Take the README's screenshots from an app that runs, with its demo model ready.

Usage: python docs/screenshots.py http://127.0.0.1:7860 [FOLDER]
Needs Chromium and playwright (requirements-dev.txt). The prompt and the seed are fixed.
"""

import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
PROMPT = "a big red boat on the sea by day"
SEED = 7
VIEWS = (
    ("screenshot", 1280, 860, "light"),
    ("screenshot-dark", 1280, 860, "dark"),
    ("screenshot-phone", 390, 844, "light"),
    ("screenshot-phone-dark", 390, 844, "dark"),
)
IMAGE_MS = 120_000
COMPARISON_MS = 400_000


def ask(page: Page, url: str) -> None:
    """Fill the form of a page that is ready."""
    page.goto(url)
    page.locator("#strip li[data-state=ready]").first.wait_for(timeout=IMAGE_MS)
    page.locator("#prompt textarea").fill(PROMPT)
    page.locator("#random-seed input").uncheck()
    page.locator("#seed input").fill(str(SEED))
    page.locator("#seed input").blur()


def take(browser: Browser, url: str, path: Path, width: int, height: int, scheme: str) -> None:
    """One picture of the page after one image."""
    page = browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    ask(page, url)
    page.locator("#generate").click()
    page.locator("#pictures [data-testid=detailed-image]").wait_for(timeout=IMAGE_MS)
    page.locator("#cancel[disabled]").wait_for(timeout=IMAGE_MS)
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    page.wait_for_timeout(600)  # Gradio fades pictures in
    page.screenshot(path=path)
    page.close()


def take_comparison(browser: Browser, url: str, path: Path) -> None:
    """All modes and some step counts. What is cold is compiled on the way."""
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    ask(page, url)
    page.locator("#compare > button").click()
    page.locator("#compare-second input").click()
    page.get_by_role("option", name="Steps", exact=True).click()
    for _ in range(2):  # the last two of its values: a row less each
        page.locator("#compare-second-values input").press("Backspace")
    page.locator("#compare-cost").get_by_text("6 pictures").wait_for()
    page.locator("#compare-start").click()
    page.locator("#compare-pack:not([disabled])").wait_for(timeout=COMPARISON_MS)
    page.wait_for_timeout(3000)  # its cost is said anew, with nothing left to compile
    page.locator("#compare").screenshot(path=path)
    page.close()


def main(url: str, folder: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        for name, width, height, scheme in VIEWS:
            take(browser, url, folder / f"{name}.png", width, height, scheme)
        take_comparison(browser, url, folder / "screenshot-compare.png")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else "docs"))
