"""Presets: one model each, as data in TOML files. Knows nothing of torch or of how a model runs.

A preset says where the weights are, which diffusers pipeline runs them, and what a caller may ask
for. A difference between two models is a field here, never an `if` in code. `load_all` stops at the
first wrong file and names the file and the field.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tpu_ui import previews
from tpu_ui.errors import InvalidRequestError, PresetError
from tpu_ui.previews import PreviewMap
from tpu_ui.request import IntegerRange, Limits, NumberRange
from tpu_ui.shapes import Device, ImageSize, Mode, Strategy

STYLES_FILE = "styles.toml"  # lies among the presets, and is none
PRESETS_FOLDER = Path(__file__).resolve().parent.parent / "presets"


def _size(text: str) -> str:
    ImageSize.parse(text)
    return text


# "./" and a path beside the preset, or OWNER/NAME on the hub.
SOURCE = r"^(\./.+|[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)$"
# What a request says, or the app itself; `call` is for the rest.
NOT_TO_CALL = (
    "prompt",
    "negative_prompt",
    "prompt_embeds",
    "negative_prompt_embeds",
    "height",
    "width",
    "num_inference_steps",
    "num_images_per_prompt",
    "generator",
    "latents",
    "output_type",
    "return_dict",
    "callback_on_step_end",
    "callback_on_step_end_tensor_inputs",
)

SizeText = Annotated[str, AfterValidator(_size)]
StrategyName = Annotated[Strategy, Field(strict=False)]  # TOML has strings only
Gib = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Table(BaseModel):
    """A table of a file: what its schema does not name is wrong."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class StepsTable(Table):
    """Denoising steps a caller may ask for."""

    minimum: int = Field(ge=1)
    maximum: int = Field(le=200)
    default: int

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.minimum <= self.default <= self.maximum:
            raise ValueError("default must lie between minimum and maximum")
        return self


class GuidanceTable(Table):
    """Guidance scale. `off` is the scale at and below which diffusers skips the second half of the
    batch; leave it out for a model whose batch never depends on the scale: one that was distilled
    with guidance has a range and no `off`, one without guidance has minimum = maximum.

    `argument` is the pipeline's argument that takes the scale.
    """

    minimum: float = Field(ge=0)
    maximum: float = Field(le=50)
    default: float
    off: float | None = Field(default=None, ge=0, le=50, allow_inf_nan=False)
    argument: str = Field(default="guidance_scale", pattern=r"^[a-z][a-z0-9_]*$")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.minimum <= self.default <= self.maximum:
            raise ValueError("default must lie between minimum and maximum")
        return self


class ComponentsTable(Table):
    """Names of the pipeline's components by their part in making an image.

    `omitted` names optional components that the pipeline runs without, such as SD3's T5 encoder.
    `sharded` names those that tensor parallelism shares out: their classes say how, others' do not.
    """

    denoiser: str
    text_encoders: tuple[str, ...] = Field(min_length=1, strict=False)
    vae: str
    omitted: tuple[str, ...] = Field(default=(), strict=False)
    sharded: tuple[str, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _sharded_are_there(self) -> Self:
        for name in self.sharded:
            if name not in self.weighted:
                raise ValueError(f"sharded: {name} is not one of the components with weights")
        return self

    @property
    def weighted(self) -> tuple[str, ...]:
        """The components that have weights."""
        return (self.denoiser, *self.text_encoders, self.vae)


class PaddingTable(Table):
    """For a pipeline whose shapes follow the prompt's length: what to pad, and to how many tokens.

    `encoder_tokens`: the inputs of text encoders, on the right; nothing changes where attention is
    causal or masked. `masked_tokens`: the embeddings, with their mask, which the denoiser obeys.
    `flagged_tokens`: embeddings that come in lists without a mask, for a denoiser that is taught to
    tell what is real. The lengths of the latter are multiples of 32.
    """

    encoder_tokens: int | None = Field(default=None, ge=1)
    masked_tokens: int | None = Field(default=None, ge=1)
    flagged_tokens: int | None = Field(default=None, ge=32, multiple_of=32)


class LoraTable(Table):
    """A LoRA file that a request may choose. `file` is a hub name, or a path beside the preset when
    it begins "./"; `weight_name` is the file's name within a hub repository."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    file: str = Field(pattern=SOURCE)
    weight_name: str | None = Field(default=None, pattern=r"^[^/]+\.safetensors$")
    folder: Path = Field(default=PRESETS_FOLDER, exclude=True, strict=False)

    @property
    def source(self) -> str:
        """What diffusers loads from."""
        return str((self.folder / self.file).resolve()) if self.file.startswith("./") else self.file


class Preset(Table):
    """One model. `repository` is a hub name, or a folder beside the preset when it begins "./".

    Of the `text_tokens` that a prompt may take, the pipeline's template takes `template_tokens`
    before it.

    `weights_gib` is what each component with weights takes in the preset's dtype, in GiB (2**30
    bytes); empty where nobody has to choose by it. `whole_gib` is what of each sharded component
    every device holds, since its class's plan leaves it alone. `working_gib` is what the largest
    program of the largest size takes beside the weights. `on_host` names methods of the pipeline
    that read values back from the device to make shapes of them: they run on the host. `preview`,
    in the file the name of a map, is how latents look; without it nothing is seen of a picture
    until it is done.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    title: str = Field(min_length=1)
    description: str
    repository: str = Field(pattern=SOURCE)
    revision: str | None = Field(default=None, min_length=1)
    licence: str
    gated: bool = False
    pipeline: str = Field(pattern=r"^[A-Z]\w*Pipeline$")
    dtype: Literal["float32", "bfloat16", "float16"]
    sizes: tuple[SizeText, ...] = Field(min_length=1, strict=False)
    steps: StepsTable
    guidance: GuidanceTable
    negative_prompt: bool
    max_count: int = Field(default=4, ge=1, le=16)
    text_tokens: int = Field(ge=1)
    template_tokens: int = Field(default=0, ge=0)
    mode: Literal["eager", "fused", "compiled"] = "compiled"
    components: ComponentsTable
    padding: PaddingTable = PaddingTable()
    strategies: tuple[StrategyName, ...] = Field(
        default=(Strategy.RESIDENT,), min_length=1, strict=False
    )
    weights_gib: dict[str, Gib] = {}
    whole_gib: dict[str, Gib] = Field(default={}, validate_default=True)
    working_gib: float = Field(default=0, ge=0, allow_inf_nan=False)
    on_host: tuple[str, ...] = Field(default=(), strict=False)
    call: dict[str, str | int | float | bool] = {}
    preview: PreviewMap | None = None
    examples: tuple[str, ...] = Field(default=(), strict=False)
    loras: tuple[LoraTable, ...] = Field(default=(), strict=False)
    folder: Path = Field(default=PRESETS_FOLDER, exclude=True, strict=False)

    @model_validator(mode="after")
    def _room_for_a_prompt(self) -> Self:
        if self.template_tokens >= self.text_tokens:
            raise ValueError("template_tokens must be less than text_tokens")
        return self

    @field_validator("call")
    @classmethod
    def _only_what_is_free(cls, call: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        guidance = info.data.get("guidance")
        taken = (*NOT_TO_CALL, guidance.argument if guidance else "")
        for name in call:
            if name in taken:
                raise ValueError(f"{name} is said by each request or by the app; leave it out")
        return call

    @model_validator(mode="after")
    def _no_size_twice(self) -> Self:
        if len(set(self.sizes)) != len(self.sizes):
            raise ValueError("sizes names a size twice")
        return self

    @field_validator("strategies")
    @classmethod
    def _no_strategy_twice(cls, strategies: tuple[Strategy, ...]) -> tuple[Strategy, ...]:
        if len(set(strategies)) != len(strategies):
            raise ValueError("names a strategy twice")
        return strategies

    @field_validator("weights_gib")
    @classmethod
    def _weights_of_all(cls, weights: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        components = info.data.get("components")
        if weights and components is not None:  # a wrong table of components is told by itself
            _check_names(weights, components.weighted, "the components")
        return weights

    @field_validator("loras")
    @classmethod
    def _no_lora_twice(cls, loras: tuple[LoraTable, ...]) -> tuple[LoraTable, ...]:
        if len({lora.name for lora in loras}) != len(loras):
            raise ValueError("names a LoRA twice")
        return loras

    @field_validator("whole_gib")
    @classmethod
    def _whole_of_all(cls, whole: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        components, weights = info.data.get("components"), info.data.get("weights_gib")
        if components is not None and (weights or whole):
            _check_names(whole, components.sharded, "components.sharded")
        return whole

    @model_validator(mode="after")
    def _shards_something(self) -> Self:
        if Strategy.SHARDED in self.strategies and not self.components.sharded:
            raise ValueError("components.sharded is missing, and sharded is one of the strategies")
        if Strategy.SHARDED in self.strategies and self.loras:
            raise ValueError("strategies: a model with loras cannot be sharded (diffusers 0.42.1)")
        return self

    @property
    def image_sizes(self) -> tuple[ImageSize, ...]:
        """The sizes on offer; the first is the default."""
        return tuple(ImageSize.parse(size) for size in self.sizes)

    @property
    def source(self) -> str:
        """What diffusers loads from: a folder's path, or the hub name."""
        if self.repository.startswith("./"):
            return str((self.folder / self.repository).resolve())
        return self.repository

    @property
    def is_local(self) -> bool:
        return self.repository.startswith("./")

    def guidance_states(self) -> tuple[bool, ...]:
        """The values of "guidance is on" that this model's range of scales can give."""
        if self.guidance.off is None:
            return (False,)
        states = []
        if self.guidance.maximum > self.guidance.off:
            states.append(True)
        if self.guidance.minimum <= self.guidance.off:
            states.append(False)
        return tuple(states)

    def limits(self, device: Device) -> Limits:
        """What a caller may ask of this model on `device`."""
        unavailable = tuple((mode, why) for mode in Mode if (why := unavailable_mode(mode, device)))
        modes = tuple(mode for mode in Mode if mode not in dict(unavailable))
        preferred = Mode(self.mode)
        return Limits(
            model=self.name,
            sizes=self.image_sizes,
            default_size=self.image_sizes[0],
            steps=IntegerRange(self.steps.minimum, self.steps.maximum, self.steps.default),
            guidance=NumberRange(
                self.guidance.minimum, self.guidance.maximum, self.guidance.default
            ),
            guidance_off=self.guidance.off,
            takes_negative_prompt=self.negative_prompt,
            max_count=self.max_count,
            default_mode=preferred if preferred in modes else modes[0],
            modes=modes,
            unavailable_modes=unavailable,
            loras=tuple(lora.name for lora in self.loras),
        )


def _check_names(figures: dict[str, float], names: tuple[str, ...], where: str) -> None:
    for name in figures:
        if name not in names:
            raise ValueError(f"{name} is not one of {where}")
    for name in names:
        if name not in figures:
            raise ValueError(f"{name} is missing")


def unavailable_mode(mode: Mode, device: Device) -> str | None:
    """Why `mode` cannot run on `device`; None where it can."""
    if device is not Device.CPU or mode is Mode.EAGER:
        return None
    if mode is Mode.FUSED:
        return "fused eager is TorchTPU's, and this is plain PyTorch on a CPU"
    return "compiled mode uses TorchTPU's compiler, and this is plain PyTorch on a CPU"


def load(path: Path) -> Preset:
    """Read one preset file. Raises PresetError that names the file and the field."""
    table = read_toml(path)
    try:
        preset = Preset.model_validate(_beside(path, table))
    except (ValidationError, InvalidRequestError) as error:
        raise PresetError(f"{path.name}: {first_problem(error)}") from error
    if preset.name != path.stem:
        raise PresetError(f"{path.name}: name: is {preset.name!r}; it must be {path.stem!r}.")
    return preset


def read_toml(path: Path) -> dict[str, Any]:
    """A file's table. Raises PresetError that names the file."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise PresetError(f"{path.name}: cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PresetError(f"{path.name}: not valid TOML: {error}.") from error


def _beside(path: Path, table: dict[str, Any]) -> dict[str, Any]:
    """The file's table, with the folder that its paths start from and what lies beside it."""
    folder = path.parent
    loras = table.get("loras", [])
    tables = [table, *(one for one in (loras if isinstance(loras, list) else []))]
    if any(isinstance(one, dict) and "folder" in one for one in tables):
        raise PresetError(f"{path.name}: folder: there is no such field.")
    if isinstance(loras, list):
        loras = [{**one, "folder": folder} if isinstance(one, dict) else one for one in loras]
    if isinstance(preview := table.get("preview"), str):
        try:
            table = {**table, "preview": previews.load(folder, preview)}
        except PresetError as error:
            raise PresetError(f"{path.name}: {error}") from error
    return {**table, "loras": loras, "folder": folder}


def load_all(folder: Path = PRESETS_FOLDER) -> dict[str, Preset]:
    """Every preset in `folder`, by name. Raises PresetError at the first wrong file."""
    files = [path for path in sorted(folder.glob("*.toml")) if path.name != STYLES_FILE]
    presets = [load(path) for path in files]
    if not presets:
        raise PresetError(f"{folder} holds no preset (*.toml).")
    return {preset.name: preset for preset in presets}


def first_problem(error: ValidationError | InvalidRequestError) -> str:
    """The first thing that a file's schema has against it: "field: what is wrong."."""
    if isinstance(error, InvalidRequestError):
        return f"sizes: {error}"
    problem = error.errors()[0]
    field = ".".join(str(part) for part in problem["loc"]) or "the file"
    if problem["type"] == "extra_forbidden":
        return f"{field}: there is no such field."
    return f"{field}: {problem['msg']}."
