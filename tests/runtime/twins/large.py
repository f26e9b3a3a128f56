"""The twin of FLUX.2 [dev] with weights of a size to measure, for scripts that a test runs."""

import pickle
from pathlib import Path

from diffusers import Flux2Transformer2DModel
from transformers import Mistral3Config, Mistral3ForConditionalGeneration

from tests.runtime import twins
from tpu_ui.presets import Preset, load_all


def small_and_large(folder: Path) -> list[Path]:
    """Files of two presets: what loading takes by itself, and what it takes for weights."""
    flux2 = load_all()["flux2-dev"]
    return [
        pickled(twins.of(flux2, folder / "small"), folder / "small preset"),
        pickled(_enlarged(twins.of(flux2, folder / "large")), folder / "large preset"),
    ]


def pickled(preset: Preset, path: Path) -> Path:
    """The preset in a file; its JSON does not say where it lies."""
    path.write_bytes(pickle.dumps(preset))
    return path


def _enlarged(preset: Preset) -> Preset:
    """The files are in float32, the preset in bfloat16, so that what is read is copied even on the
    CPU."""
    folder = Path(preset.source)
    config = Flux2Transformer2DModel.load_config(folder / "transformer")
    config |= {"attention_head_dim": 256, "axes_dims_rope": (64,) * 4}
    Flux2Transformer2DModel.from_config(config).save_pretrained(folder / "transformer")
    text = Mistral3Config.from_pretrained(folder / "text_encoder")
    text.text_config.update(
        {"hidden_size": 512, "head_dim": 128, "intermediate_size": 2048, "num_hidden_layers": 10}
    )
    Mistral3ForConditionalGeneration(text).save_pretrained(folder / "text_encoder")
    return preset.model_copy(update={"dtype": "bfloat16"})
