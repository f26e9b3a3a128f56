"""Run by a test: load a model on a device and watch what memory that takes.

Arguments: a device, and files of two presets: of a small model, for what a first load takes by
itself, and of a large one. Prints bytes: the peak, all weights, the largest one.
"""

import gc
import json
import sys

from tests.runtime.memory import Peak, anonymous_bytes
from tpu_ui.runtime.device import open_device


def main(device: str, small_file: str, large_file: str) -> None:
    opened = open_device(device)
    from tests.runtime.ranks.loading import load, read_preset
    from tpu_ui.strategy import RESIDENT

    load(read_preset(small_file), opened, RESIDENT, None)
    gc.collect()
    before_bytes = anonymous_bytes()
    with Peak() as peak:
        pipeline = load(read_preset(large_file), opened, RESIDENT, None)
    tensors = [
        *pipeline.transformer.parameters(),
        *pipeline.text_encoder.parameters(),
        *pipeline.vae.parameters(),
    ]
    result = {
        "peak": peak.bytes - before_bytes,
        "after": anonymous_bytes() - before_bytes,
        "all": sum(one.nbytes for one in tensors),
        "largest": max(one.nbytes for one in tensors),
        "dtypes": sorted({str(one.dtype) for one in tensors}),
        "devices": sorted({one.device.type for one in tensors}),
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
