"""Run by itself: the program of a matrix product, as torch_tpu would hand it over.

`python small_program.py FILE SIDE` writes it where `tpu_ui.plan.libtpu` reads it. The matrices are
SIDE x SIDE, of float32, and take no memory here.
"""

import os
import pickle
import sys
from pathlib import Path


def main(file: Path, side: int) -> None:
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    from tpu_ui.runtime import software_tpu

    plugin = software_tpu.install()
    import torch
    from torch_tpu._internal import execution_mode
    from torch_tpu._internal.compile import tpu_torch_compile

    from tpu_ui.plan.standin import Compiler

    one, other = (tpu_torch_compile.placeholder([side, side], torch.float32, False) for _ in "ab")
    gathering = execution_mode.EagerMode._INTERNAL_COMPILE_FX_GRAPH
    compiler = Compiler(plugin)
    with compiler.taking(), execution_mode.set_eager_mode(gathering):
        tpu_torch_compile.traverse_and_compile(
            result_tensors=[one @ other],
            argument_tensors=[one, other],
            build_mlir_module=False,
            use_stablehlo_bounds=False,
            argument_layouts=[],
            donated_inputs=[],
            module_name=None,
        )
    (program,) = compiler.taken
    file.write_bytes(pickle.dumps(program))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
