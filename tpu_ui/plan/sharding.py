"""One device's share of a model, among devices that are not here.

Sharded modules call `all_reduce` on a process group; this one has a single process and gives back
what it was given. Knows nothing of capturing.
"""

from collections.abc import Callable
from typing import Any

import torch
from diffusers import TensorParallelConfig
from diffusers.hooks import tensor_parallel
from torch import distributed
from torch._C._distributed_c10d import HashStore
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.futures import Future
from torch_tpu._internal.compile import tpu_torch_compile

BACKEND = "nowhere"

_HLO_NAMES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}


class Group(distributed.ProcessGroup):
    """Rank 0 of so many devices, of which there is none. `reduced`: the tensors whose sums over all
    devices were asked for, by shape and dtype, until somebody takes them out."""

    def __init__(self, rank: int, devices: int) -> None:
        super().__init__(rank, devices)  # type: ignore[call-arg]
        self.devices = devices
        self.reduced: list[tuple[tuple[int, ...], torch.dtype]] = []

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:  # type: ignore[override]
        self.reduced += [(tuple(one.shape), one.dtype) for one in tensors]
        return _done(tensors)

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:  # type: ignore[override]
        return _done(tensors)

    def barrier(self, opts: Any = None) -> Any:
        return _done([])

    @property
    def group_name(self) -> Any:
        return distributed.distributed_c10d._world.pg_names[self]

    def getBackendName(self) -> str:
        return BACKEND


def join(devices: int) -> tuple[Group, DeviceMesh]:
    """The group, and its devices as a mesh. Once in a process."""
    made: list[Group] = []

    def create(_: Any, rank: int, size: int, __: Any) -> Group:
        made.append(Group(rank, size))
        return made[-1]

    distributed.Backend.register_backend(BACKEND, create, devices=["cpu", "tpu"])
    distributed.init_process_group(BACKEND, store=HashStore(), rank=0, world_size=devices)
    return made[0], DeviceMesh("tpu", list(range(devices)))


def shard(
    model: Any, mesh: DeviceMesh, placeholder: Callable[[tuple[int, ...]], torch.Tensor]
) -> None:
    """Make a model on the meta device one device's share, as diffusers does when it reads one.

    `placeholder(shape)` gives what stands for a weight; what the model's plan leaves out stays
    whole. Raises ValueError where the plan cannot share it out so.
    """
    plan = type(model)._tp_plan
    specs = tensor_parallel.resolve_tp_shard_specs(model, plan, mesh.size())
    for path, weight in list(model.named_parameters()):
        if path not in specs:
            continue
        dim, shape = specs[path].dim, list(weight.shape)
        layout = Replicate() if dim is None else Shard(dim)
        if dim is not None:
            shape[dim] //= mesh.size()
        local = DTensor.from_local(
            placeholder(tuple(shape)),
            mesh,
            [layout],
            run_check=False,
            shape=weight.shape,
            stride=weight.stride(),
        )
        owner, _, name = path.rpartition(".")
        share = torch.nn.Parameter(local, requires_grad=False)
        model.get_submodule(owner)._parameters[name] = share
    config = TensorParallelConfig(mesh=mesh)
    config._mesh = mesh
    tensor_parallel.apply_tensor_parallel(model, config, plan, weights_already_sharded=True)


def all_reduce(shape: tuple[int, ...], dtype: torch.dtype, devices: int) -> tuple[bytes, bytes]:
    """The program of a sum over all devices: portable StableHLO and serialized compile options."""
    number = _HLO_NAMES[dtype]
    tensor = f"tensor<{'x'.join([*map(str, shape), number])}>"
    text = f"""module @all_reduce {{
      func.func public @main(%mine: {tensor}) -> {tensor} {{
        %sum = "stablehlo.all_reduce"(%mine) ({{
          ^bb0(%a: tensor<{number}>, %b: tensor<{number}>):
            %c = stablehlo.add %a, %b : tensor<{number}>
            stablehlo.return %c : tensor<{number}>
        }}) {{replica_groups = dense<[{list(range(devices))}]> : tensor<1x{devices}xi64>}}
          : ({tensor}) -> {tensor}
        return %sum : {tensor}
      }}
    }}"""
    module = tpu_torch_compile.parse_mlir_text(text)
    code = bytes(tpu_torch_compile.serialize_mlir_portable_artifact(module))
    return code, _options(devices)


def _options(devices: int) -> bytes:
    """XLA's CompileOptionsProto for one program on each of so many devices: of its
    executable_build_options (3) num_replicas (4), num_partitions (5), device_assignment (9)."""
    ids = bytes(range(devices))
    assignment = b"\x08" + bytes([devices]) + b"\x10\x01" + _field(3, _field(1, ids))
    return _field(3, b"\x20" + bytes([devices]) + b"\x28\x01" + _field(9, assignment))


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes in Protocol Buffers' encoding; short ones alone."""
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def _done(tensors: list[torch.Tensor]) -> Any:
    future: Any = Future()
    future.set_result(tensors)
    create: Any = torch._C._distributed_c10d
    return create._create_work_from_future(future)
