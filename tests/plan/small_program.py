"""Run by itself: the program of a small matrix product, as torch_tpu would hand it over.

`python small_program.py FILE` writes it where `tpu_ui.plan.libtpu` reads it.
"""

import os
import pickle
import sys
from pathlib import Path

SIDE = 1024


def main(file: Path) -> None:
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    from tpu_ui.runtime import software_tpu

    plugin = software_tpu.install()
    import torch

    taken: list[tuple[bytes, bytes]] = []
    square = torch.zeros(SIDE, SIDE, device="tpu")
    torch.accelerator.synchronize()
    with plugin.taking(lambda *program: taken.append(program)):
        try:
            (square @ square).cpu()
        except RuntimeError:
            file.write_bytes(pickle.dumps(taken[-1]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
