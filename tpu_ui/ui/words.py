"""The page's words, in the visitor's language. No Gradio, and nothing of what the words are about.

An English template is its own key: `words("Step {step} of {steps}", step=3, steps=20)`. What it is
in another language stands in `languages/`, one file each. A sentence of a lower layer is made in
English, for logs and programs too; it is known by its template again at the edge of the page.
"""

import re
import string
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

TRADITIONAL = "zh-TW"  # made of "zh"
LANGUAGES = ("ko", "ja", "zh", TRADITIONAL)  # beside English
TRADITIONAL_PLACES = ("TW", "HK", "MO", "Hant")
MAX_SENTENCE_CHARACTERS = 800  # a longer one is not looked up

_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Catalogue:
    """One language's words by English ones. `labels` are put in place by the browser, `texts` here;
    `sentences` are those of lower layers."""

    labels: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    sentences: Mapping[str, str] = field(default_factory=dict)

    def get(self, english: str) -> str | None:
        """The entry of exactly these words."""
        for table in (self.texts, self.labels, self.sentences):
            if english in table:
                return table[english]
        return None


@cache
def catalogue(language: str) -> Catalogue:
    """Empty for English."""
    if language not in LANGUAGES:
        return Catalogue()
    if language == TRADITIONAL:
        simplified = catalogue("zh")
        return Catalogue(
            *(
                {english: traditional(text) for english, text in table.items()}
                for table in (simplified.labels, simplified.texts, simplified.sentences)
            )
        )
    text = (_HERE / "languages" / f"{language}.toml").read_text(encoding="utf-8")
    return Catalogue(**tomllib.loads(text))


def traditional(simplified: str) -> str:
    """A Chinese text in traditional characters and in the words of Taiwan."""
    phrases, characters = _counterparts()
    return phrases.sub(lambda found: characters[found[0]], simplified)


@cache
def _counterparts() -> tuple[re.Pattern[str], Mapping[str, str]]:
    """What to look for, the longest first, and what to write for it."""
    table = tomllib.loads((_HERE / "languages" / "traditional.toml").read_text(encoding="utf-8"))
    known = dict(zip(table["simplified"], table["traditional"], strict=True)) | table["phrases"]
    return re.compile("|".join(sorted(known, key=len, reverse=True))), known


@dataclass(frozen=True, slots=True)
class Words:
    """All that can be said in one language."""

    language: str = "en"

    def __call__(self, template: str, /, **values: object) -> str:
        """The template in this language, with these values in it."""
        text = catalogue(self.language).get(template) or template
        return text.format_map(values) if values else text

    def sentence(self, english: str) -> str:
        """What a lower layer says in English, in this language; as it is if nobody knows it."""
        if self.language == "en" or len(english) > MAX_SENTENCE_CHARACTERS:
            return english
        return _read(self.language, english)[1]

    def sentences(self, english: str, mark: str = "; ") -> str:
        """Several that were joined by a mark, each for itself."""
        return mark.join(map(self.sentence, english.split(mark)))

    def within(self, sentence: str) -> str:
        """A sentence as a part of another one; an English one then begins with a small letter."""
        return sentence[:1].lower() + sentence[1:] if self.language == "en" else sentence

    def counted(self, number: object, noun: str) -> str:
        """ "1 job", "2 jobs". Other languages than English have no plural here."""
        if self.language == "en":
            return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
        return self(f"{{count}} {noun}", count=number)

    def duration(self, seconds: float) -> str:
        """Seconds for people: "0.8 s", "34 s", "3 min 20 s", "2 h 5 min"."""
        if seconds < 9.95:
            return self("{seconds} s", seconds=f"{seconds:.1f}")
        whole = round(seconds)
        if whole < 120:
            return self("{seconds} s", seconds=whole)
        minutes, rest_s = divmod(whole, 60)
        if minutes < 120:
            if rest_s:
                return self("{minutes} min {seconds} s", minutes=minutes, seconds=rest_s)
            return self("{minutes} min", minutes=minutes)
        hours, minutes = divmod(minutes, 60)
        if minutes:
            return self("{hours} h {minutes} min", hours=hours, minutes=minutes)
        return self("{hours} h", hours=hours)

    def whole(self, seconds: float) -> str:
        """Seconds without a fraction, for what changes every second."""
        return (
            self.duration(seconds)
            if seconds >= 119
            else self("{seconds} s", seconds=round(seconds))
        )

    def about(self, expected_s: float | None, elsewhere: bool = False) -> str:
        """An expected duration, whole seconds. `elsewhere`: it was measured on another machine."""
        if expected_s is None:
            return self("time not known yet")
        if elsewhere:
            return self("about {time} (measured on another machine)", time=self.whole(expected_s))
        return self("about {time}", time=self.whole(expected_s))

    def gone(self, elapsed_s: float, expected_s: float | None) -> str:
        """ "12 s of about 30 s", "12 s so far"."""
        elapsed = self.whole(elapsed_s)
        if expected_s is None:
            return self("{elapsed} so far", elapsed=elapsed)
        return self("{elapsed} of {expected}", elapsed=elapsed, expected=self.about(expected_s))


ENGLISH = Words()


def words_for(accept_language: str | None) -> Words:
    """Those of the language that a browser likes best, by its Accept-Language header.

    The first counts and no other, as Gradio has it for the labels: one page, one language. Gradio
    knows Chinese of two places alone; chinese.py tells it which is meant.
    """
    first = (accept_language or "").split(",")[0].split(";")[0].strip()
    language, *places = first.split("-")
    if language == "zh":
        return Words(TRADITIONAL if set(places) & set(TRADITIONAL_PLACES) else "zh")
    return Words(language) if language in LANGUAGES else ENGLISH


def names_in(template: str) -> list[str]:
    """The values that a template takes, in order."""
    return [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]


def patterns_of(template: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Match what can come of a template, with its values as groups: short first ones, or long."""
    short, long = "", ""
    for text, name, _, _ in string.Formatter().parse(template):
        group = "" if name is None else f"(?P<{name}>.+"
        short += re.escape(text) + (f"{group}?)" if group else "")
        long += re.escape(text) + (f"{group})" if group else "")
    return re.compile(short, re.DOTALL), re.compile(long, re.DOTALL)


@cache
def _sentences(language: str) -> list[tuple[re.Pattern[str], str]]:
    """The patterns of those that take values, and what they are in the language."""
    known = catalogue(language).sentences
    return [
        (pattern, text)
        for template, text in known.items()
        if names_in(template)
        for pattern in patterns_of(template)
    ]


@lru_cache(maxsize=4_096)
def _read(language: str, english: str) -> tuple[int, str]:
    """A sentence in another language, and how many characters of it nobody knew.

    Values may be sentences, and a template may match in more than one way: the reading that leaves
    the least unknown is taken.
    """
    if (known := catalogue(language).get(english)) is not None:
        return 0, known
    best = len(english), english
    for pattern, text in _sentences(language):
        if found := pattern.fullmatch(english):
            read = {name: _read(language, value) for name, value in found.groupdict().items()}
            unknown = sum(count for count, _ in read.values())
            if unknown < best[0]:
                values = {name: value for name, (_, value) in read.items()}
                best = unknown, text.format_map(values)
    return best
