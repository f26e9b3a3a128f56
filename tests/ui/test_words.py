"""The page in other languages: nothing missing, nothing unused, and sentences known again."""

import ast
import importlib
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tpu_ui
from tpu_ui import styles
from tpu_ui.chips import CHIPS
from tpu_ui.presets import load_all
from tpu_ui.ui import labels
from tpu_ui.ui.labels import i18n, label
from tpu_ui.ui.words import ENGLISH, LANGUAGES, Words, catalogue, names_in, traditional, words_for

PACKAGE = Path(tpu_ui.__file__).parent
PAGE = sorted((PACKAGE / "ui").glob("*.py"))
# Their errors go to programs, in English.
FOR_PROGRAMS = (
    "api.py",
    "openai_images.py",
    "door.py",
    "health.py",
    "cross_site.py",
    "intake.py",
)
BELOW = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).parts[0] not in ("ui", "plan")
    and path.name not in ("fake.py", "settings.py", "passwords.py", "warmup.py", "__main__.py")
)
NO_SENTENCES = (
    "re.compile",
    "log.",
    "ValueError",
    "PngError",
    "PngTooLargeError",
    "SettingsError",
    "PresetError",
    "PlanError",
)
# What is neither an error nor a state, or is not shown on the page.
EDGES = " {};,:."  # where sentences are put together
NOT_SHOWN = (
    *("CFG scale", "Negative prompt", "Version: TPU UI"),  # what a PNG holds
    "Steps: {}, Sampler: {}, CFG scale: {}, Seed: {}, Size: {}, Model",
    *(chip.name for chip in CHIPS.values()),
    *("Cannot copy out of meta tensor", "Out of memory", "out of memory"),  # torch says so
    *("XLA on", "model name", "go on", "Runtime | FollowingRuntime", "text on host"),
    *("The job was cancelled", "This torch_tpu has no launcher for several chips"),
    *(
        "the components",
        "there is no such field",
        "preview: {}/{}.toml",
    ),  # of presets, before there is a page
)


def test_every_language_has_the_same_entries_with_the_same_values() -> None:
    first = catalogue(LANGUAGES[0])
    for language in LANGUAGES:
        known = catalogue(language)
        for table in ("labels", "texts", "sentences"):
            ours, theirs = getattr(first, table), getattr(known, table)
            assert list(ours) == list(theirs)
            for english, text in theirs.items():
                assert text.strip(), english
                if table != "labels":
                    assert sorted(names_in(text)) == sorted(names_in(english)), english
                    assert len(set(names_in(english))) == len(names_in(english)), english


def test_every_label_of_the_page_has_an_entry_and_every_entry_a_label() -> None:
    used = {text for path in PAGE for text in said(path, "label")} | {labels.EMPTY}
    assert used == set(catalogue("ko").labels)


def test_every_text_of_the_page_has_an_entry_and_every_entry_is_said() -> None:
    used = {text for path in PAGE for text in said(path, "words")}
    presets = load_all()
    used |= {style.title for one in styles.load(presets).values() for style in one}
    known = catalogue("ko")
    assert used <= set(known.texts) | set(known.labels)
    assert set(known.texts) <= used


def test_every_sentence_of_the_layers_below_has_an_entry_and_every_entry_is_made_there() -> None:
    korean = catalogue("ko")
    known = {without_names(english): english for english in korean.sentences}
    made = {piece for path in BELOW for piece in pieces(path)}
    made |= {piece for path in PAGE if path.name not in FOR_PROGRAMS for piece in raised(path)}
    sentences = {piece for piece in made if is_sentence(piece)} - set(NOT_SHOWN)
    missing = {one for one in sentences if not korean.get(one)}
    missing = {one for one in missing if not any(one in template for template in known)}
    assert not missing
    for bare, english in known.items():
        made_of = [piece for piece in made if piece in bare]
        covered = {word for piece in made_of for word in words_of(piece)}
        assert set(words_of(bare)) <= covered, f"nothing says {english!r}"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("english", "values"),
    [
        ("Number of images must be a whole number from 1 to 4, not 9.", ("1", "4", "9")),
        (
            "Loading FLUX.1 [dev]: transformer, 6 of 7, 28 MB of 23.8 GB.",
            ("transformer", "28 MB", "23.8 GB"),
        ),
        ("Loading vae, 2 of 7: 28 MB so far.", ("vae", "28 MB")),
        ("Compiling 320x192 in compiled mode: guidance 7.5: step 1 of 3, 12 s so far.", ("7.5",)),
        (
            "Mode fused cannot run here: fused eager is TorchTPU's, and this is plain PyTorch on a"
            " CPU. Use eager.",
            ("TorchTPU", "PyTorch", "CPU"),
        ),
        (
            "The prompt is 90 tokens long; text_encoder and text_encoder_2 read only 77."
            " Not read: 'a cat'.",
            ("90", "77", "'a cat'"),
        ),
        (
            "The worker process was killed by signal 9 while it loaded Demo. Next try in 1 s"
            " (2 of 5).",
            ("Demo", "9", "1", "2", "5"),
        ),
        (
            "The worker process hung (a step took more than 120 s; the slowest before took 1.5 s)"
            " and was ended in the middle of this job. A new one is starting; try again.",
            ("120", "1.5"),
        ),
        (
            "The worker process hung (the process was stopped by a signal) and was ended while it"
            " had no job. That was 5 times in a row. It is tried again every 5 min.",
            ("5",),
        ),
        (
            "The worker process lost its rank 1, which was killed by signal 9, in the middle of"
            " this job.",
            ("1", "9"),
        ),
        (
            "The TPU UI at vm.example:7860 cannot be reached, for 17 s now; trying again.",
            ("TPU UI", "vm.example:7860", "17"),
        ),
        (
            "The TPU UI at vm.example:7860 cannot be reached, for 3 min now; trying again.",
            ("TPU UI", "vm.example:7860", "3"),
        ),
        (
            "The connection to vm.example was lost. This job is lost; ask again when vm.example is"
            " back.",
            ("vm.example",),
        ),
        (
            "The queue is full: 100 jobs wait already, for about 12 min. Try again later.",
            ("100", "12"),
        ),
        (
            "Model demo cannot be loaded: vae/a.safetensors is cut short or damaged (Error. Why)."
            " Check that ./demo beside the preset is complete.",
            ("demo", "vae/a.safetensors", "Error. Why", "./demo"),
        ),
    ],
)
def test_a_sentence_of_a_lower_layer_is_known_again_with_its_values(
    language: str, english: str, values: tuple[str, ...]
) -> None:
    text = Words(language).sentence(english)
    names = " ".join(values)
    left = set(re.findall(r"[a-z]{4,}", text)) - set(re.findall(r"[a-z]{4,}", names))
    assert left <= {"text", "encoder", "safetensors"}, text
    for value in values:
        assert value in text


def test_what_nobody_knows_stays_as_it_is() -> None:
    unknown = "RuntimeError: something that no catalogue holds"
    assert Words("ko").sentence(unknown) == unknown
    assert Words("ko").sentence("Loading x. " * 500) == "Loading x. " * 500


def test_text_made_to_be_slow_to_read_is_not() -> None:
    hostile = "There is no model '" + ", 1 of 2: is; not" * 40 + "'"
    began_s = time.process_time()
    Words("ja").sentence(hostile[:800])
    assert time.process_time() - began_s < 1


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("ko-KR,ko;q=0.9,en-US;q=0.8", "ko"),
        ("ja", "ja"),
        ("zh-TW,zh;q=0.9", "zh-TW"),
        ("zh-HK,zh;q=0.9", "zh-TW"),
        ("zh-Hant-MO", "zh-TW"),
        ("zh-CN", "zh"),
        ("zh", "zh"),
        ("zh-SG,en", "zh"),
        ("de-DE,de;q=0.9,ko;q=0.8", "en"),
        ("en-GB", "en"),
        ("", "en"),
        (None, "en"),
    ],
)
def test_the_language_is_the_one_that_the_browser_names_first(
    header: str | None, language: str
) -> None:
    assert words_for(header).language == language


def test_traditional_chinese_has_no_simplified_character() -> None:
    tables = catalogue("zh-TW")
    for text in (*tables.labels.values(), *tables.texts.values(), *tables.sentences.values()):
        text.replace("～", "").encode("big5")  # a standard of traditional characters alone
    assert traditional("软件缓存：{count} 个文件") == "軟體快取：{count} 個檔案"


def test_durations_and_counts_are_said_in_each_language() -> None:
    assert (ENGLISH.duration(3.04), ENGLISH.duration(200)) == ("3.0 s", "3 min 20 s")
    assert (ENGLISH.counted(1, "job"), ENGLISH.counted(2, "job")) == ("1 job", "2 jobs")
    korean = Words("ko")
    assert (korean.duration(3.04), korean.duration(200)) == ("3.0초", "3분 20초")
    assert korean.gone(12, 30) == "약 30초 중 12초"


def test_every_label_reaches_the_browser_under_the_key_of_its_mark() -> None:
    tables = i18n().translations_dict
    for english in catalogue("ko").labels:
        key = label(english).key
        assert "}" not in key  # Gradio's mark would end there
        assert all(tables[language][key] for language in LANGUAGES)
        assert tables["en"].get(key, key) == english


# What is used where


def said(path: Path, speaker: str) -> Iterator[str]:
    """What is given to `label` or to `words`, as literals or out of a table of the module."""
    module = f"tpu_ui.ui.{path.stem}"
    for call in (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        own = path.stem == "words" and name == "self"
        if name.split(".")[-1] == "counted" and speaker == "words" and path.stem != "words":
            yield from (f"{{count}} {noun}" for noun in literals(call.args[-1], module))
        elif name == speaker or (own and speaker == "words" and literal(call.args[0])):
            yield from literals(call.args[0], module)


def literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)


def literals(node: ast.expr, module: str) -> Iterator[str]:
    """The strings that an argument may be. Fails where that cannot be known."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from literals(body, module)
            yield from literals(orelse, module)
        case ast.Call(func=ast.Attribute(value=table, attr="get")) | ast.Subscript(value=table):
            yield from literals(table, module)
        case ast.Name() | ast.Attribute() if ast.unparse(node).split(".")[-1].isupper():
            found: object = importlib.import_module(module)
            for name in ast.unparse(node).split("."):
                found = getattr(found, name)
            yield from [found] if isinstance(found, str) else found.values()
        case _:
            pytest.fail(f"{module}: {ast.unparse(node)} is neither a text nor out of a table")


def pieces(path: Path) -> Iterator[str]:
    """Strings of a module that may reach people, values as {}. No docstrings, no logs."""
    left_out: set[ast.AST] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.add(node.value)
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(NO_SENTENCES):
            left_out.update(ast.walk(node))
        if isinstance(node, ast.Assert):
            left_out.update(ast.walk(node))
        if isinstance(node, ast.JoinedStr):
            left_out.update(node.values)
        if node not in left_out and (text := template_of(node)) is not None:
            yield text.strip(EDGES)


def raised(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            texts = map(template_of, node.exc.args)
            yield from (text.strip(EDGES) for text in texts if text is not None)


def template_of(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(template_of(one) or "{}" for one in values)
        case _:
            return None


def is_sentence(text: str) -> bool:
    """Two words of its own, at least."""
    return " " in text.strip() and len(words_of(text)) > 1


def words_of(text: str) -> list[str]:
    return re.findall(r"[A-Za-z][A-Za-z']*", text.replace("{}", " "))


def without_names(template: str) -> str:
    return re.sub(r"\{\w+\}", "{}", template)


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
