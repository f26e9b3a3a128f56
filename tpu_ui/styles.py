"""Styles: words to put around a prompt, as data in one TOML file beside the presets.

Knows which model each one suits; what is made of a prompt with them is `request.validate`'s. The
first wrong field stops the start, and is named with the file.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError, field_validator, model_validator

from tpu_ui.errors import PresetError
from tpu_ui.presets import PRESETS_FOLDER, STYLES_FILE, Table, first_problem, read_toml
from tpu_ui.request import Style

PLACE = "{prompt}"
Suiting = dict[str, tuple[Style, ...]]


class StyleTable(Table):
    """One style. It suits every model but `unsuited`, or those in `suits` alone."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str = Field(min_length=1)
    prompt: str = Field(max_length=500)
    negative: str = Field(default="", max_length=500)
    suits: tuple[str, ...] = Field(default=(), strict=False)
    unsuited: tuple[str, ...] = Field(default=(), strict=False)

    @field_validator("prompt")
    @classmethod
    def _has_one_place(cls, prompt: str) -> str:
        if prompt.count(PLACE) != 1:
            raise ValueError("must hold {prompt} once, where the prompt goes")
        _plain(prompt.replace(PLACE, ""))
        return prompt

    @field_validator("negative")
    @classmethod
    def _is_plain(cls, negative: str) -> str:
        return _plain(negative)

    @model_validator(mode="after")
    def _says_one_of_both(self) -> Self:
        if self.suits and self.unsuited:
            raise ValueError("suits and unsuited cannot both be said")
        return self

    def suits_model(self, model: str) -> bool:
        return model in self.suits if self.suits else model not in self.unsuited


def _plain(text: str) -> str:
    if set("{|}") & set(text):
        raise ValueError("may hold no { | } but in {prompt}")
    return text


class StylesFile(Table):
    """The whole file."""

    styles: tuple[StyleTable, ...] = Field(strict=False)

    @field_validator("styles")
    @classmethod
    def _no_name_twice(cls, styles: tuple[StyleTable, ...]) -> tuple[StyleTable, ...]:
        if len({style.name for style in styles}) != len(styles):
            raise ValueError("names a style twice")
        return styles


def load(models: Iterable[str], path: Path = PRESETS_FOLDER / STYLES_FILE) -> Suiting:
    """The styles that suit each model, in the file's order. Raises PresetError."""
    try:
        tables = StylesFile.model_validate(read_toml(path)).styles
    except ValidationError as error:
        raise PresetError(f"{path.name}: {first_problem(error)}") from error
    names = tuple(models)
    for index, table in enumerate(tables):
        for field, said in (("suits", table.suits), ("unsuited", table.unsuited)):
            for name in said:
                if name not in names:
                    raise PresetError(
                        f"{path.name}: styles.{index}.{field}: there is no model {name!r}."
                    )
    return {
        model: tuple(
            Style(table.name, table.title, table.prompt, table.negative)
            for table in tables
            if table.suits_model(model)
        )
        for model in names
    }
