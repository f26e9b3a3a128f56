"""A preset's pipeline, loaded by the ranks that this process is one of."""

import pickle
from pathlib import Path
from typing import Any

from tpu_ui.presets import Preset
from tpu_ui.runtime import placement
from tpu_ui.runtime.device import OpenDevice
from tpu_ui.runtime.parallel import Ranks
from tpu_ui.strategy import Placement


def read_preset(path: str) -> Preset:
    """A preset that a test has pickled: its JSON does not say where it lies."""
    preset: Preset = pickle.loads(Path(path).read_bytes())
    return preset


def load(preset: Preset, opened: OpenDevice, how: Placement, ranks: Ranks | None) -> Any:
    loading = placement.load_pipeline(preset, opened, how, ranks)
    while True:
        try:
            next(loading)
        except StopIteration as end:
            pipeline, _ = end.value
            return pipeline
