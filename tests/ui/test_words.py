"""The page in other languages: nothing missing, nothing unused, and sentences known again."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tpu_ui
from tpu_ui.ui.words import ENGLISH, LANGUAGES, Words, catalogue, names_in, words_for

PACKAGE = Path(tpu_ui.__file__).parent
PAGE = sorted((PACKAGE / "ui").glob("*.py"))
# Their errors go to programs, in English.
FOR_PROGRAMS = ("api.py", "openai_images.py", "door.py", "health.py")
BELOW = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).parts[0] not in ("ui", "plan")
    and path.name not in ("fake.py", "settings.py", "warmup.py", "compiled.py", "__main__.py")
)
NO_SENTENCES = ("re.compile", "log.", "ValueError", "SettingsError", "PresetError", "PlanError")
# What is neither an error nor a state, or is not shown on the page.
NOT_SHOWN: tuple[str, ...] = ()


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
    used = {text for path in PAGE for text in said(path, "label")}
    assert used == set(catalogue("ko").labels)


def test_every_text_of_the_page_has_an_entry_and_every_entry_is_said() -> None:
    used = {text for path in PAGE for text in said(path, "words")}
    known = catalogue("ko")
    assert used <= set(known.texts) | set(known.labels)
    assert set(known.texts) <= used
