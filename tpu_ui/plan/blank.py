"""A preset's pipeline at full size without its weights, made from its components' configurations.

What is captured as a program has placeholders for weights: they have a shape, a dtype and a place
on the device, and no memory. What runs beside those programs has zeros. Knows nothing of capturing.
"""

import functools
import inspect
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import diffusers
import tokenizers
import torch
import transformers
from torch.distributed.device_mesh import DeviceMesh
from torch_tpu._internal.compile import tpu_torch_compile

from tpu_ui.plan.components import folder, made
from tpu_ui.plan.sharding import shard
from tpu_ui.presets import Preset
from tpu_ui.runtime import placement

CHARACTERS_A_TOKEN = 3  # of a stand-in's tokens; about what real tokenizers make of English


def pipeline(
    preset: Preset,
    device: torch.device,
    repeated: bool = False,
    mesh: DeviceMesh | None = None,
) -> Any:
    """The preset's pipeline on `device`, a TPU. Its text encoders, its VAE's decoder and its
    denoiser have placeholders for weights; `repeated`: of the denoiser, its repeated blocks;
    `mesh`: of the denoiser, the share of one of these devices.
    """
    dtype = getattr(torch, preset.dtype)
    components: dict[str, Any] = {}
    for name in preset.components.weighted:
        model = made(preset, name).eval()
        if mesh is not None and name == preset.components.denoiser:
            shard(model, mesh, functools.partial(_placeholder, dtype=dtype))
        for part in _captured(preset, name, model, repeated):
            _fill(part, dtype, device, placeholders=True)
        _fill(model, dtype, device, placeholders=False)
        components[name] = model
    index = _index(preset)
    kind = getattr(diffusers, preset.pipeline)
    components["scheduler"] = _scheduler(kind, index)
    for name in inspect.signature(kind.__init__).parameters:
        if name.startswith("tokenizer") and name not in preset.components.omitted:
            encoder = components[name.replace("tokenizer", "text_encoder")]
            components[name] = Tokenizer(_longest(encoder, preset.text_tokens))
    return placement.assembled(preset, kind, components, index, device)


def _captured(preset: Preset, name: str, model: Any, repeated: bool) -> Iterable[torch.nn.Module]:
    if name == preset.components.vae:
        return [model.decoder]
    if name == preset.components.denoiser and repeated:
        kinds = model._repeated_blocks
        return [part for part in model.modules() if type(part).__name__ in kinds]
    return [model]


def _fill(
    model: torch.nn.Module, dtype: torch.dtype, device: torch.device, placeholders: bool
) -> None:
    """Put something in the place of each tensor that is still on the meta device. What is one
    weight in two places, such as tied embeddings, stays one."""
    parameters: dict[torch.Tensor, torch.nn.Parameter] = {}

    def filled(tensor: torch.Tensor) -> torch.Tensor:
        wanted = dtype if tensor.is_floating_point() else tensor.dtype
        if placeholders:
            return _placeholder(tensor.shape, wanted)
        return torch.zeros(tensor.shape, dtype=wanted, device=device)

    for part in model.modules():
        for name, weight in part._parameters.items():
            if weight is not None and weight.is_meta:
                if weight not in parameters:
                    parameters[weight] = torch.nn.Parameter(filled(weight), requires_grad=False)
                part._parameters[name] = parameters[weight]
        for name, buffer in part._buffers.items():
            if buffer is not None and buffer.is_meta:
                part._buffers[name] = filled(buffer)
        for name, value in vars(part).items():  # tables that are plain attributes: never arguments
            if isinstance(value, torch.Tensor) and value.is_meta:
                setattr(part, name, torch.zeros(value.shape, dtype=value.dtype, device=device))


def _placeholder(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    given: torch.Tensor = tpu_torch_compile.placeholder(list(shape), dtype, False)
    return given


def _index(preset: Preset) -> dict[str, Any]:
    """What is kept of model_index.json: what matters for the programs, for some models nothing."""
    path = folder(preset) / "model_index.json"
    read: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return read


def _scheduler(kind: Any, index: dict[str, Any]) -> Any:
    """A scheduler of the pipeline's class, in its default configuration: its arithmetic is done on
    the host, and is part of no program."""
    if "scheduler" in index:
        return getattr(diffusers, index["scheduler"][1])()
    return inspect.signature(kind.__init__).parameters["scheduler"].annotation()


def _longest(encoder: Any, text_tokens: int) -> int:
    """Tokens that an encoder can read, or the preset's number where it has no limit."""
    limit = getattr(encoder.config.get_text_config(), "max_position_embeddings", None)
    return limit or text_tokens


class Tokenizer:
    """Stands in for a tokenizer where only the number of tokens matters: every id is 0."""

    def __init__(self, model_max_length: int) -> None:
        self.model_max_length = model_max_length
        self.pad_token_id = 0
        # Any text is one token to it: no word is ever told to be cut off.
        self.backend_tokenizer = tokenizers.Tokenizer(
            tokenizers.models.WordLevel({"": 0}, unk_token="")
        )

    def __call__(
        self,
        text: str | list[str],
        *,
        padding: bool | str = False,
        max_length: int | None = None,
        return_tensors: str | None = None,
        **_: Any,
    ) -> Any:
        texts = [text] if isinstance(text, str) else text
        limit = max_length or self.model_max_length
        real = [min(2 + math.ceil(len(one) / CHARACTERS_A_TOKEN), limit) for one in texts]
        length = limit if padding == "max_length" else max(real)
        ids = torch.zeros(len(texts), length, dtype=torch.long)
        mask = torch.stack([(torch.arange(length) < count).long() for count in real])
        if return_tensors is None:
            rows = ids.tolist()
            return {"input_ids": rows[0] if isinstance(text, str) else rows}
        return transformers.BatchEncoding({"input_ids": ids, "attention_mask": mask})

    def apply_chat_template(self, messages: Any, *, tokenize: bool = True, **options: Any) -> Any:
        talks = messages if isinstance(messages[0], list) else [messages]
        texts = [" ".join(str(message["content"]) for message in talk) for talk in talks]
        return self(texts, **options) if tokenize else texts[0]

    def num_special_tokens_to_add(self) -> int:
        return 2

    def tokenize(self, _: str) -> list[str]:
        return []

    def decode(self, *_: Any) -> str:
        return ""

    def batch_decode(self, *_: Any, **__: Any) -> list[str]:
        return [""]
