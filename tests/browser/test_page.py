"""The page in a real browser, as a visitor of a locked app sees it."""

import base64
import re
from pathlib import Path

import pytest
from gradio_client import Client, handle_file
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Page, expect

from tests.browser.conftest import Complaints, Open
from tests.conftest import Serve, Served, presets_with
from tpu_ui.errors import StrategyError
from tpu_ui.metadata import ImageInfo, Timings, encode_png, read_png
from tpu_ui.presets import load_all
from tpu_ui.shapes import Strategy

PICTURE = "#pictures [data-testid=detailed-image]"
PICKED = "#size input:checked"


def ask(page: Page, prompt: str) -> None:
    page.locator("#prompt textarea").fill(prompt)
    page.locator("#generate").click()


def at_rest(page: Page) -> None:
    expect(page.locator("#generate")).to_be_enabled()
    expect(page.locator("#cancel")).to_be_disabled()


def last_long(page: Page) -> None:
    """Long enough to be cancelled, on a machine with much to do."""
    fill(page, "#count", 4)
    fill(page, "#steps", 30)


def fill(page: Page, slider: str, number: int) -> None:
    field = page.locator(f"{slider} input[type=number]")
    field.fill(str(number))
    field.blur()


def download(page: Page, folder: Path) -> Path:
    with page.expect_download() as started:
        page.locator("#pictures").get_by_label("Download").click()
    path = folder / started.value.suggested_filename
    started.value.save_as(path)
    return path


def drop(page: Page, file: Path) -> None:
    page.locator("#png-file input[type=file]").set_input_files(file)
    # A name is shown in two parts, so that a long one keeps its ending.
    expect(page.locator("#png-file table")).to_contain_text(file.stem[-6:])


def scrolls_sideways(page: Page) -> bool:
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    return bool(page.evaluate(wide))


def test_a_picture_is_made_and_its_download_holds_its_settings(
    open_page: Open, server: Served, tmp_path: Path
) -> None:
    page = open_page(server)
    assert page.title() == "TPU UI"
    ask(page, 'a "small" <i>house</i> ${1+1} & a tree')
    picture = page.locator(PICTURE)
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 256
    at_rest(page)
    file = download(page, tmp_path)
    assert file.read_bytes() in [path.read_bytes() for path in server.outputs.rglob("*.png")]
    info = read_png(file)
    assert info["prompt"] == 'a "small" <i>house</i> ${1+1} & a tree'
    expect(page.locator("#result-facts")).to_contain_text(f"Seed {info['seed']}")
    client = Client(server.url, verbose=False)
    assert client.predict(handle_file(file), api_name="/read_metadata") == info
    client.close()


def test_several_pictures_are_all_there(open_page: Open, server: Served) -> None:
    page = open_page(server)
    page.locator("#count input[type=number]").fill("3")
    page.locator("#count input[type=number]").blur()
    ask(page, "three trees")
    expect(page.locator("#pictures .thumbnails button")).to_have_count(3)
    expect(page.locator("#result-facts")).to_contain_text("Seeds")
    at_rest(page)


def test_the_seed_can_be_used_again(open_page: Open, server: Served, tmp_path: Path) -> None:
    page = open_page(server)
    ask(page, "a tree")
    expect(page.locator(PICTURE)).to_be_visible()
    at_rest(page)
    first = read_png(download(page, tmp_path))
    page.locator("#reuse").click()
    expect(page.locator("#random-seed input")).not_to_be_checked()
    expect(page.locator("#seed input")).to_have_value(str(first["seed"]))
    before = page.locator(PICTURE).get_attribute("src")
    assert before
    page.locator("#generate").click()
    expect(page.locator(PICTURE)).not_to_have_attribute("src", before)
    at_rest(page)
    expect(page.locator("#result-facts")).to_contain_text(f"Seed {first['seed']}")


def test_an_example_fills_the_prompt(open_page: Open, server: Served) -> None:
    page = open_page(server)
    example = load_all()["demo"].examples[1]
    page.locator("#examples").get_by_text(example).click()
    expect(page.locator("#prompt textarea")).to_have_value(example)


def test_an_empty_prompt_is_refused_and_the_next_one_works(open_page: Open, server: Served) -> None:
    page = open_page(server)
    ask(page, " ")
    expect(page.locator(".toast-wrap")).to_contain_text("The prompt is empty")
    at_rest(page)
    ask(page, "a tree")
    expect(page.locator(PICTURE)).to_be_visible()


def test_choices_in_a_prompt_are_drawn_and_recorded_as_drawn(
    open_page: Open, server: Served, tmp_path: Path
) -> None:
    page = open_page(server)
    ask(page, "a {red|green} tree")
    expect(page.locator(PICTURE)).to_be_visible()
    at_rest(page)
    drawn = read_png(download(page, tmp_path))["prompt"]
    assert drawn in ("a red tree", "a green tree")
    expect(page.locator("#result-facts")).to_contain_text(drawn)
    expect(page.locator("#prompt textarea")).to_have_value("a {red|green} tree")
    ask(page, "{ | }")
    expect(page.locator(".toast-wrap")).to_contain_text("The prompt is empty")


def test_a_failure_is_said_and_the_fields_keep_their_contents(
    open_page: Open, server: Served
) -> None:
    page = open_page(server)
    page.locator("#negative-prompt textarea").fill("fog")
    ask(page, "fake:broken")
    expect(page.locator(".toast-wrap")).to_contain_text("The model made NaN values")
    expect(page.locator("#progress")).to_contain_text("Failed: The model made NaN values")
    at_rest(page)
    expect(page.locator("#prompt textarea")).to_have_value("fake:broken")
    expect(page.locator("#negative-prompt textarea")).to_have_value("fog")


def test_a_fault_of_the_app_is_said_plainly_and_leaves_a_page_that_works(
    open_page: Open, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = open_page(server)
    with monkeypatch.context() as patch:
        patch.setattr(server.dispatcher, "updates", lambda job: iter([job, 1 / 0]))
        ask(page, "a tree")
        expect(page.locator(".toast-wrap")).to_contain_text("Something went wrong in the app")
        assert "division" not in page.locator("body").inner_text()
        at_rest(page)
    ask(page, "a tree")
    expect(page.locator(PICTURE)).to_be_visible()


def test_steps_stream_and_cancel_stops(open_page: Open, server: Served) -> None:
    page = open_page(server)
    last_long(page)
    ask(page, "fake:slow")
    expect(page.locator("#progress")).to_have_text(
        re.compile(r"Image 1 of 4: step \d+ of 30, \d+ s left")
    )
    page.locator("#cancel").click()
    expect(page.locator("#progress")).to_have_text("Cancelled.")
    at_rest(page)
    assert page.locator(PICTURE).count() == 0


def test_a_click_at_the_moment_a_job_ends_is_taken(open_page: Open, server: Served) -> None:
    page = open_page(server)
    page.evaluate("""() => {
        const button = document.querySelector("#generate");
        let [worked, clicks] = [false, 0];
        new MutationObserver(() => {
            if (worked && !button.disabled && clicks++ < 3) button.click();
            worked = button.disabled;
        }).observe(button, {attributes: true});
    }""")
    before = server.dispatcher.tally().finished
    ask(page, "a tree")
    server.wait_for(lambda _: server.dispatcher.tally().finished == before + 4)
    at_rest(page)


def test_ctrl_enter_generates_and_escape_cancels(open_page: Open, server: Served) -> None:
    page = open_page(server)
    last_long(page)
    page.locator("#prompt textarea").fill("fake:slow")
    page.locator("#prompt textarea").press("Control+Enter")
    expect(page.locator("#progress")).to_contain_text("of 30")
    page.keyboard.press("Escape")
    expect(page.locator("#progress")).to_have_text("Cancelled.")
    at_rest(page)


def test_a_visitor_cancels_only_her_own_job(open_page: Open, server: Served) -> None:
    first, second = open_page(server), open_page(server)
    last_long(first)
    ask(first, "fake:slow")
    expect(first.locator("#progress")).to_contain_text("of 30")
    ask(second, "fake:slow")
    expect(second.locator("#progress")).to_contain_text("Waiting")
    second.locator("#cancel").click()
    expect(second.locator("#progress")).to_have_text("Cancelled.")
    expect(first.locator(PICTURE)).to_be_visible()
    assert second.locator(PICTURE).count() == 0
    first.locator("#cancel").click()
    at_rest(first)


def test_only_ready_sizes_can_be_picked(open_page: Open, server: Served) -> None:
    page = open_page(server)
    expect(page.locator("#strip li[data-state=ready]")).to_have_count(1)
    expect(page.locator("#strip li[data-state=cold]")).to_have_count(2)
    expect(page.get_by_role("radio", name="256x256 ready")).to_be_checked()
    for size in ("320x192", "192x320"):
        expect(page.get_by_role("radio", name=f"{size} cold")).to_be_disabled()
        card = page.locator(f"#size li[data-size='{size}']")
        expect(card).to_contain_text("cold, time not known yet, locked")
        expect(card).to_have_attribute("title", re.compile("only ready sizes can be chosen"))


def test_another_mode_shows_its_own_sizes(open_page: Open, server: Served) -> None:
    page = open_page(server)
    page.get_by_label("Strict eager").check()
    expect(page.locator("#strip li[data-state=cold]")).to_have_count(3)
    expect(page.locator("#size")).to_contain_text("No size is ready in this mode yet")
    ask(page, "a tree")
    expect(page.locator(".toast-wrap")).to_contain_text("256x256 is not ready in eager mode")
    at_rest(page)


def test_a_reload_finds_a_page_that_works(
    open_page: Open, server: Served, complaints: Complaints
) -> None:
    page = open_page(server)
    ask(page, "fake:slow")
    expect(page.locator("#progress")).to_contain_text("of 16")
    page.reload()
    complaints.forget("AbortError", "errored out")  # the page that was left was still listening
    page.locator("#strip li").first.wait_for()
    at_rest(page)
    ask(page, "a tree")
    expect(page.locator(PICTURE)).to_be_visible()


def test_a_dropped_picture_tells_its_settings_and_fills_the_form(
    open_page: Open, server: Served, tmp_path: Path
) -> None:
    page = open_page(server)
    client = Client(server.url, verbose=False, download_files=tmp_path)
    prompt = "<img src=x onerror=alert(1)> a tree"
    (file,), _ = client.predict(prompt, "fog", steps=7, guidance=2.5, seed=99, api_name="/generate")
    client.close()
    page.get_by_text("Settings from a picture").click()
    drop(page, Path(file))
    expect(page.locator("#png-info")).to_contain_text(prompt)
    assert page.locator("#png-info img").count() == 0
    page.locator("#use-settings").click()
    expect(page.locator("#prompt textarea")).to_have_value(prompt)
    expect(page.locator("#negative-prompt textarea")).to_have_value("fog")
    expect(page.locator("#steps input[type=number]")).to_have_value("7")
    expect(page.locator("#guidance input[type=number]")).to_have_value("2.5")
    expect(page.locator("#seed input")).to_have_value("99")
    expect(page.locator("#random-seed input")).not_to_be_checked()


def test_a_picture_dropped_anywhere_is_taken(
    open_page: Open, server: Served, tmp_path: Path
) -> None:
    page = open_page(server)
    client = Client(server.url, verbose=False, download_files=tmp_path)
    (file,), info = client.predict("a tree", seed=7, api_name="/generate")
    client.close()
    dropped = page.evaluate_handle(
        """data => {
            const bytes = Uint8Array.from(atob(data), letter => letter.charCodeAt(0));
            const files = new DataTransfer();
            files.items.add(new File([bytes], "dropped.png", { type: "image/png" }));
            return files;
        }""",
        base64.b64encode(Path(file).read_bytes()).decode(),
    )
    for event in ("dragover", "drop"):
        page.dispatch_event("#pictures", event, {"dataTransfer": dropped})
    expect(page.locator("#png-info")).to_contain_text(str(info[0]["seed"]))
    page.locator("#use-settings").click()
    expect(page.locator("#seed input")).to_have_value("7")


@pytest.mark.parametrize(
    ("model", "size", "said"),
    [
        ("nope", "256x256", "Not restored: model nope."),
        ("demo", "320x192", "320x192 is not ready yet"),
    ],
)
def test_settings_that_cannot_be_used_are_told_and_the_others_are_used(
    open_page: Open, server: Served, tmp_path: Path, model: str, size: str, said: str
) -> None:
    client = Client(server.url, verbose=False, download_files=tmp_path)
    _, (info,) = client.predict("a tree", api_name="/generate")
    client.close()
    timings = Timings(**info["timings_s"])
    changed = ImageInfo(**{**info, "model": model, "size": size, "timings_s": timings})
    picture = tmp_path / "changed.png"
    picture.write_bytes(encode_png(Image.new("RGB", (8, 8)), changed))
    page = open_page(server)
    page.get_by_text("Settings from a picture").click()
    drop(page, picture)
    expect(page.locator("#png-info")).to_contain_text(size)
    page.locator("#use-settings").click()
    expect(page.locator(".toast-wrap")).to_contain_text(said)
    expect(page.locator("#prompt textarea")).to_have_value("a tree")
    expect(page.locator("#seed input")).to_have_value(str(info["seed"]))


def test_a_picture_of_another_program_gives_what_it_can(
    open_page: Open, server: Served, tmp_path: Path
) -> None:
    text = PngInfo()
    text.add_text(
        "parameters",
        "a tree,\n<b>by</b> the sea\nNegative prompt: fog\nSteps: 20, Sampler: Euler a, "
        "CFG scale: 99, Seed: 42, Size: 512x512, Model: dreamer, Clip skip: 2, Version: v1.9",
    )
    Image.new("RGB", (8, 8)).save(tmp_path / "other.png", pnginfo=text)
    page = open_page(server)
    page.get_by_text("Settings from a picture").click()
    drop(page, tmp_path / "other.png")
    expect(page.locator("#png-info")).to_contain_text("dreamer")
    page.locator("#use-settings").click()
    expect(page.locator(".toast-wrap")).to_contain_text(
        "Not restored: model dreamer, size 512x512, guidance scale 99.0, sampler Euler a, Clip"
    )
    expect(page.locator(".toast-title")).to_be_hidden()  # "Warning", in every language
    expect(page.locator("#prompt textarea")).to_have_value("a tree,\n<b>by</b> the sea")
    expect(page.locator("#negative-prompt textarea")).to_have_value("fog")
    expect(page.locator("#steps input[type=number]")).to_have_value("20")
    expect(page.locator("#seed input")).to_have_value("42")


def test_a_picture_without_settings_is_said_to_have_none(
    open_page: Open, server: Served, tmp_path: Path
) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "plain.png")
    page = open_page(server)
    page.get_by_text("Settings from a picture").click()
    drop(page, tmp_path / "plain.png")
    expect(page.locator("#png-info")).to_contain_text("carries no settings")
    expect(page.locator("#use-settings")).to_be_disabled()


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_scrolls_sideways(open_page: Open, server: Served, width: int) -> None:
    page = open_page(server, width=width, height=844)
    page.get_by_text("Programs and warm-up").click()
    page.get_by_text("Settings from a picture").click()
    assert not scrolls_sideways(page)
    ask(page, "a tree")
    expect(page.locator(PICTURE)).to_be_visible()
    assert not scrolls_sideways(page)


def test_on_a_phone_the_prompt_and_the_picture_come_first(open_page: Open, server: Served) -> None:
    page = open_page(server, width=390, height=844)
    order = ["#prompt", "#generate", "#pictures", "#strip", "#settings"]
    tops = [page.locator(name).bounding_box() for name in order]
    heights = [box["y"] for box in tops if box]
    assert heights == sorted(heights)
    assert len(heights) == len(order)
    assert heights[2] < 844 / 2
    ask(page, " ")
    message = page.locator(".toast-wrap").filter(has_text="The prompt is empty").bounding_box()
    assert message is not None
    assert message["y"] > 844 / 2


def test_dark_mode_is_dark(open_page: Open, server: Served) -> None:
    lightness = """() => {
        const probe = document.createElement("canvas").getContext("2d");
        probe.fillStyle = getComputedStyle(document.querySelector("gradio-app")).backgroundColor;
        probe.fillRect(0, 0, 1, 1);
        return Math.max(...probe.getImageData(0, 0, 1, 1).data.slice(0, 3));
    }"""
    assert open_page(server, dark=True).evaluate(lightness) < 50
    assert open_page(server).evaluate(lightness) > 230


def test_every_field_has_a_name(open_page: Open, server: Served) -> None:
    page = open_page(server)
    page.get_by_text("Programs and warm-up").click()
    page.get_by_text("Settings from a picture").click()
    nameless = page.evaluate("""() => {
        const fields = "input:not([type=file]), textarea, select, button";
        const name = (e) => e.getAttribute("aria-label") || e.title || e.innerText
            || [...(e.labels || [])].map((l) => l.innerText).join(" ");
        return [...document.querySelectorAll(fields)]
            .filter((e) => e.offsetParent && !name(e).trim()).map((e) => e.outerHTML);
    }""")
    assert nameless == []


def test_the_page_stands_still_while_nothing_changes(open_page: Open, server: Served) -> None:
    page = open_page(server)
    server.wait_for(lambda status: status.state == "ready")
    page.wait_for_timeout(1500)
    page.evaluate("""() => {
        window.changes = [];
        // Gradio prepares a spinner for each event, and never shows it here.
        const shown = (e) => !(e.closest ? e : e.parentElement)?.closest(
                "[data-testid=status-tracker]");
        new MutationObserver((all) => window.changes.push(
            ...all.map((one) => one.target).filter(shown).map((e) => e.outerHTML ?? e.data)
        )).observe(document.querySelector("#page"),
            {childList: true, subtree: true, characterData: true});
    }""")
    page.wait_for_timeout(3500)
    assert page.evaluate("window.changes") == []


def test_warm_ups_are_watched_and_their_sizes_become_choices(open_page: Open, serve: Serve) -> None:
    with serve(presets=presets_with("fake:slow-warm fake:block-warm"), warm="none") as served:
        page = open_page(served)
        expect(page.locator("#size")).to_contain_text("No size is ready")
        page.locator("#warm-up").click()
        expect(page.locator("#strip li[data-state=compiling]")).to_contain_text("256x256")
        expect(page.locator("#now")).to_contain_text("Warming up")
        expect(page.locator("#strip li[data-size='256x256']")).to_contain_text("ready, took")
        expect(page.locator(PICKED)).to_have_value("256x256")
        ask(page, "a tree")
        expect(page.locator(PICTURE)).to_be_visible()
        page.get_by_text("Programs and warm-up").click()
        expect(page.locator("#cold-size input")).to_have_value("320x192")
        expect(page.locator("#cold-size")).to_contain_text("320x192: cold, time not known yet.")
        page.locator("#warm-up-cold").click()
        expect(page.locator("#progress")).to_contain_text("Compiling 320x192:")
        expect(page.locator("#strip li[data-size='320x192']")).to_contain_text("ready, took")
        expect(page.locator("#progress")).to_contain_text("320x192 is ready: 4 programs")
        at_rest(page)
        expect(page.locator(PICKED)).to_have_value("256x256")
        page.get_by_role("radio", name="256x256").focus()
        page.keyboard.press("ArrowRight")
        expect(page.locator(PICKED)).to_have_value("320x192")
        expect(page.locator("#size")).to_contain_text("320x192 is ready")
        ask(page, "a tree")
        expect(page.locator("#result-facts")).to_contain_text("320x192")
        page.close()


def test_an_unlocked_page_says_the_cost_before_generate(open_page: Open, serve: Serve) -> None:
    with serve(locked=False) as served:
        page = open_page(served)
        page.locator("#size li[data-size='192x320']").click()
        expect(page.locator("#size")).to_contain_text(
            "192x320 is cold and has to be compiled first: time not known yet."
        )
        ask(page, "a tree")
        expect(page.locator("#result-facts")).to_contain_text("192x320")
        expect(page.locator("#size")).to_contain_text("192x320 is ready")
        expect(page.locator(PICKED)).to_have_value("192x320")
        page.close()


def test_modes_that_cannot_run_here_are_named_with_the_reason(
    open_page: Open, serve: Serve
) -> None:
    with serve(device="cpu", locked=False) as served:
        page = open_page(served)
        expect(page.locator("#mode input")).to_have_count(1)
        expect(page.locator("#mode")).to_contain_text("Compiled is not available here: compiled")
        page.close()


def test_another_strategy_loads_the_model_again_and_pictures_say_so(
    open_page: Open, serve: Serve, tmp_path: Path
) -> None:
    everywhere = presets_with(strategies=(*load_all()["demo"].strategies, Strategy.SHARDED))
    with serve(locked=False, presets=everywhere) as served:
        page, other = open_page(served), open_page(served)
        page.get_by_text("Programs and warm-up").click()
        expect(page.locator("#strategy")).to_contain_text("Resident: no limit is known")
        expect(page.locator("#strategy")).to_contain_text("Sharded is not available: the software")
        expect(page.locator("#strategy")).to_contain_text("the model is then loaded again.")
        page.locator("#strategy input").click()
        expect(page.get_by_role("option")).to_contain_text(
            ["Automatic", "Resident", "Staged", "Offload"]
        )
        page.get_by_role("option", name="Offload").click()
        expect(page.locator("#facts")).to_contain_text("Offload")
        expect(page.locator("#strategy")).to_contain_text("Offload: asked for.")
        expect(page.locator("#strip li[data-size='256x256']")).to_contain_text("ready, took")
        expect(page.locator("#strategy input")).to_have_value("Offload: one part at a time")
        expect(other.locator("#facts")).to_contain_text("Offload")
        other.get_by_text("Programs and warm-up").click()
        expect(other.locator("#strategy input")).to_have_value("Offload: one part at a time")
        ask(page, "a tree")
        expect(page.locator(PICTURE)).to_be_visible()
        at_rest(page)
        assert read_png(download(page, tmp_path))["strategy"] == "offload"
        page.close()
        other.close()


def test_a_strategy_that_is_refused_is_said_and_not_shown_as_chosen(
    open_page: Open, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(model: str, strategy: Strategy | None) -> None:
        raise StrategyError("There is <no> room.")

    with serve(locked=False) as served:
        page = open_page(served)
        monkeypatch.setattr(served.dispatcher, "set_strategy", refuse)
        page.get_by_text("Programs and warm-up").click()
        page.locator("#strategy input").click()
        page.get_by_role("option", name="Staged").click()
        expect(page.locator(".toast-wrap")).to_contain_text("There is <no> room.")
        expect(page.locator("#strategy input")).to_have_value(re.compile("^Automatic"))
        page.close()


def test_a_field_the_model_has_no_use_for_is_disabled_and_says_why(
    open_page: Open, serve: Serve
) -> None:
    with serve(presets=presets_with(negative_prompt=False, max_count=1)) as served:
        page = open_page(served)
        expect(page.locator("#negative-prompt textarea")).to_be_disabled()
        expect(page.locator("#negative-prompt")).to_contain_text("takes no negative prompt")
        expect(page.locator("#count input[type=range]")).to_be_disabled()
        ask(page, "a tree")
        expect(page.locator(PICTURE)).to_be_visible()
        page.close()


def test_settings_and_pictures_outlive_a_change_of_the_model_and_others_see_it(
    open_page: Open, serve: Serve
) -> None:
    presets = presets_with()
    other = {"name": "other", "title": "Another model", "description": "fake:slow-load"}
    presets["other"] = presets["demo"].model_copy(update=other)
    with serve(presets=presets) as served:
        page, visitor = open_page(served), open_page(served)
        ask(page, "a tree")
        expect(page.locator(PICTURE)).to_be_visible()
        at_rest(page)
        first = page.locator(PICTURE).get_attribute("src")
        mine = {"#steps": "9", "#guidance": "2.5", "#count": "3"}
        for field, value in mine.items():
            number = page.locator(f"{field} input[type=number]")
            number.fill(value)
            number.blur()
        page.locator("#negative-prompt textarea").fill("fog")
        choose_model(page, "Another model")
        expect(page.locator("#steps input[type=number]")).not_to_have_value("9")
        expect(page.locator("#count input[type=number]")).to_have_value("3")
        page.locator("#warm-up").click()
        expect(visitor.locator("#now")).to_contain_text("Loading Another model")
        expect(page.locator("#progress")).to_contain_text("256x256 is ready")
        expect(page.locator("#prompt textarea")).to_have_value("a tree")
        assert page.locator(PICTURE).get_attribute("src") == first
        choose_model(page, presets["demo"].title)
        for field, value in mine.items():
            expect(page.locator(f"{field} input[type=number]")).to_have_value(value)
        expect(page.locator("#negative-prompt textarea")).to_have_value("fog")
        assert page.locator(PICTURE).get_attribute("src") == first
        page.close()
        visitor.close()


def choose_model(page: Page, title: str) -> None:
    page.locator("#model input").click()
    page.get_by_role("option", name=title, exact=True).click()


def test_choosing_a_model_brings_its_limits_and_its_sizes(open_page: Open, serve: Serve) -> None:
    presets = presets_with()
    other = {"name": "other", "title": "Another model", "negative_prompt": False, "max_count": 2}
    presets["other"] = presets["demo"].model_copy(update=other)
    with serve(presets=presets) as served:
        page = open_page(served)
        page.locator("#model input").click()
        page.get_by_role("option", name="Another model").click()
        expect(page.locator("#negative-prompt textarea")).to_be_disabled()
        expect(page.locator("#count input[type=range]")).to_have_attribute("max", "2")
        expect(page.locator("#strip li[data-state=cold]")).to_have_count(3)
        ask(page, "a tree")
        expect(page.locator(".toast-wrap")).to_contain_text("Model other is not loaded")
        page.locator("#warm-up").click()
        expect(page.locator("#progress")).to_contain_text("256x256 is ready")
        expect(page.locator("#strip li[data-state=ready]")).to_have_count(1)
        expect(page.locator(PICKED)).to_have_value("256x256")
        ask(page, "a tree")
        expect(page.locator(PICTURE)).to_be_visible()
        page.close()
