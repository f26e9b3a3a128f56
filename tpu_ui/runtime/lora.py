"""LoRA: small changes to a denoiser's weights, chosen by a request and swapped without compiling.

Every file is read once, by diffusers' own loader, so that whatever forms it knows are known here.
The denoiser then carries one slot, of the largest rank and at every layer that a file changes; to
choose a file is to copy its numbers into the slot. A weight is multiplied in on the host: it is no
part of any program.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from peft.tuners.lora import LoraLayer
from torch.nn.functional import pad

from tpu_ui.errors import LoadError
from tpu_ui.presets import LoraTable
from tpu_ui.runtime.checkpoint import damage_of, is_pointer
from tpu_ui.runtime.weights import META

SLOT = "slot"
READING = "reading"


@dataclass(frozen=True)
class _Matrices:
    """One layer's change of weights is up @ down. float32, on the host.

    `down` is rank x inputs (x kernel), `up` is outputs x rank (x 1 x 1).
    """

    down: torch.Tensor
    up: torch.Tensor


Change = dict[str, _Matrices]  # by the layer's name


class Loras:
    """The LoRA files of one loaded pipeline, and the slot of its denoiser.

    Raises LoadError that names a file which cannot be read or does not fit.
    """

    def __init__(self, pipeline: Any, denoiser: Any, tables: Sequence[LoraTable]) -> None:
        self._denoiser = denoiser
        self._changes = {table.name: _read(pipeline, denoiser, table) for table in tables}
        self._active: tuple[str | None, float] = (None, 1.0)
        if not self._changes:
            return
        layers = sorted({layer for change in self._changes.values() for layer in change})
        rank = max(
            one.down.shape[0] for change in self._changes.values() for one in change.values()
        )
        # alpha = rank: what stands in the slot counts once. `up` begins as zeros, so no change.
        config = LoraConfig(r=rank, lora_alpha=rank, target_modules=layers)
        denoiser.add_adapter(config, adapter_name=SLOT)
        denoiser.eval().requires_grad_(False)

    @torch.no_grad()
    def use(self, name: str | None, weight: float) -> None:
        """Have the slot hold this file's change times `weight`; None: no change at all."""
        if (name, weight) == self._active:
            return
        change = self._changes[name] if name is not None else {}
        for layer, (down, up) in self._slots().items():
            one = change.get(layer)
            if one is None:
                up.copy_(torch.zeros(up.shape, dtype=up.dtype))  # a copy is no program, zero_() is
                continue
            down.copy_(_filled(one.down, down.shape).to(down.dtype))
            up.copy_(_filled(one.up * weight, up.shape).to(up.dtype))
        self._active = (name, weight)

    def _slots(self) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        return _weights(self._denoiser, SLOT)


def _read(pipeline: Any, denoiser: Any, table: LoraTable) -> Change:
    """What the file changes in the denoiser. The pipeline is left as it was."""
    source, weight_name = table.source, table.weight_name
    if table.file.startswith("./"):
        path = _file(table)
        source, weight_name = str(path.parent), path.name
    options = {} if weight_name is None else {"weight_name": weight_name}
    try:
        pipeline.load_lora_weights(source, adapter_name=READING, use_safetensors=True, **options)
        scaling = {
            name: part.scaling[READING]
            for name, part in denoiser.named_modules()
            if isinstance(part, LoraLayer)
        }
        change = {
            name: _Matrices(down.float().cpu(), up.float().cpu() * scaling[name])
            for name, (down, up) in _weights(denoiser, READING).items()
        }
        pipeline.unload_lora_weights()
    except Exception as error:
        if META in str(error):
            raise _failure(table, "it lacks some of its weights", "Get the file anew.") from error
        line = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
        raise _failure(table, line, _REMEDY) from error
    if not change:
        raise _failure(
            table, "it changes nothing in this model", "It is another model's; leave it out."
        )
    return change


_REMEDY = "Correct file and weight_name in the preset, or leave this LoRA out."


def _file(table: LoraTable) -> Path:
    """The one safetensors file that is meant by a path. Raises LoadError."""
    path = Path(table.source)
    if path.is_dir():
        found = sorted(path.glob(table.weight_name or "*.safetensors"))
        if len(found) != 1:
            held = ", ".join(sorted(one.name for one in path.iterdir())) or "nothing"
            what = f"the folder holds {held}; one safetensors file is needed"
            raise _failure(table, what, _REMEDY)
        (path,) = found
    if not path.is_file():
        raise _failure(table, "there is no such file beside the preset", _REMEDY)
    if path.suffix != ".safetensors":
        raise _failure(table, "only safetensors files are read", "Convert it.")
    if is_pointer(path):
        raise _failure(table, "it is a pointer of git-lfs", "Run `git lfs pull` beside it.")
    if (damage := damage_of(path)) is not None:
        raise _failure(table, f"{path.name} {damage}", "Get the file anew.")
    return path


def _failure(table: LoraTable, what: str, remedy: str) -> LoadError:
    return LoadError(f"LoRA {table.name} ({table.file}) cannot be used: {what}. {remedy}")


def _weights(module: Any, adapter: str) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """The two matrices of each layer that the adapter changes."""
    found = {}
    for name, part in module.named_modules():
        if isinstance(part, LoraLayer) and adapter in part.lora_A:
            layer: Any = part  # peft's dictionaries of modules have no types
            found[name] = (layer.lora_A[adapter].weight, layer.lora_B[adapter].weight)
    return found


def _filled(tensor: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """The tensor with zeros behind it: a smaller rank in a slot of a larger one."""
    missing = [(0, want - have) for have, want in zip(tensor.shape, shape, strict=True)]
    return pad(tensor, [edge for pair in reversed(missing) for edge in pair])
