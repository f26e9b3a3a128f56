"""How latents of one kind of VAE look, roughly: a linear map from their channels to colours.

Data in `previews/*.toml` beside the presets, which name them. Knows nothing of torch or of models.
"""

import re
import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tpu_ui.errors import PresetError

FOLDER_NAME = "previews"
NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")

Number = Annotated[float, Field(allow_inf_nan=False)]
Colour = Annotated[tuple[Number, Number, Number], Field(strict=False)]


class PreviewMap(BaseModel):
    """Red, green and blue, from -1 to 1, are `bias` and what each channel adds, a row of `rgb`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    rgb: tuple[Colour, ...] = Field(min_length=1, strict=False)
    bias: Colour = (0.0, 0.0, 0.0)

    @property
    def channels(self) -> int:
        """Of the latents, unpacked."""
        return len(self.rgb)


def load(presets: Path, name: str) -> PreviewMap:
    """The map of that name beside the presets in this folder. Raises PresetError."""
    if not NAME.fullmatch(name):
        raise PresetError(f"preview: {name!r} is not a name.")
    where = f"preview: {FOLDER_NAME}/{name}.toml"
    try:
        table = tomllib.loads((presets / FOLDER_NAME / f"{name}.toml").read_text("utf-8"))
        return PreviewMap.model_validate(table)
    except OSError as error:
        raise PresetError(f"{where} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PresetError(f"{where} is not valid TOML: {error}.") from error
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(str(part) for part in problem["loc"])
        raise PresetError(f"{where}: {field}: {problem['msg']}.") from error
