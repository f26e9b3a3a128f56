"""Tensor parallelism: a group of ranks, one a device, that run the same commands in step.

Rank 0 talks to the UI process; before each piece of work it tells the others whether to go on. What
they compute together crosses between devices inside diffusers' and transformers' sharded modules.
"""

import atexit
import contextlib
import logging
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_never

import diffusers
import torch
import torch.distributed
from diffusers import TensorParallelConfig
from diffusers.hooks import tensor_parallel
from torch.distributed.device_mesh import DeviceMesh
from transformers import DistributedConfig, PretrainedConfig

from tpu_ui.errors import StrategyError, TpuUiError, WorkerDiedError
from tpu_ui.protocol import (
    Generate,
    ImageMade,
    Load,
    Loading,
    Memory,
    Started,
    Stepped,
    Warmed,
    Warming,
    WarmUp,
)
from tpu_ui.runtime.device import OpenDevice
from tpu_ui.runtime.interface import Runtime
from tpu_ui.shapes import Device
from tpu_ui.tokens import Reader

GO_ON, STOP, FAILED = "go on", "stop", "failed"  # and None: there is nothing more to do
IDLE_S = timedelta(days=365)  # a rank waits for its next command; torchrun knows who has died
PATIENCE_S = 300.0  # at the end of a command: one rank may read its share later than another
LAST_WORD_S = 10.0  # for rank 0, which should tell what has ended this rank

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ranks:
    """This process's place in the group, and what it shares with the others."""

    rank: int
    mesh: DeviceMesh
    control: Any  # a process group on the host
    patience_s: float = PATIENCE_S

    def share(self, word: Any = None) -> Any:
        """What rank 0 says. Every rank calls this at the same point. Raises WorkerDiedError."""
        box = [word]
        with _group_errors():
            torch.distributed.broadcast_object_list(box, src=0, group=self.control)
        return box[0]

    def meet(self) -> None:
        """Wait until every rank is here. Raises WorkerDiedError."""
        with _group_errors():
            torch.distributed.barrier(self.control)


@contextlib.contextmanager
def ending_after(seconds: float) -> Iterator[None]:
    """A context in which to wait for ranks that may be waiting for this one. If it takes longer,
    this process ends by SIGALRM, which reaches it wherever it waits, and torchrun ends the others.
    """
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def _group_errors() -> Iterator[None]:
    """Turns what gloo raises when a rank is gone into our error."""
    try:
        yield
    except RuntimeError as error:
        raise WorkerDiedError(
            "One of the model's processes has ended, or does not answer, so the others end too."
            " New ones are starting; try again."
        ) from error


def join(device: OpenDevice) -> Ranks:
    """Meet the other ranks of torchrun's group, on chips or on the CPU."""
    on_chips = device.device is Device.TPU
    torch.distributed.init_process_group("tpu_dist" if on_chips else "gloo")
    ranks = list(range(torch.distributed.get_world_size()))
    return Ranks(
        rank=torch.distributed.get_rank(),
        mesh=DeviceMesh(device.torch_device.type, ranks),
        control=torch.distributed.new_group(ranks, timeout=IDLE_S, backend="gloo"),
    )


def loading_options(kind: type, mesh: DeviceMesh) -> dict[str, Any]:
    """Arguments with which `kind.from_pretrained` reads this rank's share and no more."""
    if issubclass(kind, diffusers.ModelMixin):
        return {"parallel_config": TensorParallelConfig(mesh=mesh)}
    return {"distributed_config": DistributedConfig(tp_plan="auto"), "device_mesh": mesh}


@contextlib.contextmanager
def sharding_on(device: OpenDevice) -> Iterator[None]:
    """A context for loading. diffusers 0.42.1 lets no CPU shard, though its code runs on them."""
    if device.device is not Device.CPU:
        yield
        return
    supported, count = tensor_parallel._SUPPORTED_TP_DEVICES, torch.accelerator.device_count
    tensor_parallel._SUPPORTED_TP_DEVICES = (*supported, "cpu")
    torch.accelerator.device_count = lambda: 1
    try:
        yield
    finally:
        tensor_parallel._SUPPORTED_TP_DEVICES = supported
        torch.accelerator.device_count = count


def check_heads(component: str, config: Any, ranks: int) -> None:
    """Raises StrategyError if attention heads cannot be shared out. `config`: the component's."""
    if isinstance(config, PretrainedConfig):
        text = config.get_text_config()
        heads = [text.num_attention_heads, getattr(text, "num_key_value_heads", None)]
    else:
        heads = [config.get("num_attention_heads")]
    for count in heads:
        if count and count % ranks:
            able = [str(n) for n in range(2, count + 1) if count % n == 0 and n <= 16]
            raise StrategyError(
                f"The {count} attention heads of {component} cannot be shared out among {ranks}"
                f" chips. Use {', '.join(able)} chips."
            )


class LeadingRuntime:
    """Rank 0's runtime: does its own share, and has the others do theirs. See `Runtime`."""

    def __init__(self, own: Runtime, ranks: Ranks) -> None:
        self._own = own
        self._ranks = ranks
        atexit.register(self._dismiss)

    def started(self) -> Started:
        return self._own.started()

    def programs_compiled(self) -> int:
        return self._own.programs_compiled()

    def programs_since(self, before: int) -> int:
        return self._own.programs_since(before)

    def memory(self) -> Memory:
        return self._own.memory()

    def program_names(self, after: int) -> tuple[str, ...]:
        return self._own.program_names(after)

    def load(self, command: Load) -> Iterator[Loading]:
        return self._together(command)

    def loading(self, command: Load) -> Loading | None:
        return self._own.loading(command)

    def readers(self) -> tuple[Reader, ...]:
        return self._own.readers()

    def warm_up(self, command: WarmUp) -> Iterator[Warming | Warmed]:
        return self._together(command)

    def generate(self, command: Generate) -> Iterator[Stepped | ImageMade]:
        return self._together(command)

    def _together(self, command: Load | WarmUp | Generate) -> Iterator[Any]:
        """The command's own events. Before each, and at the end, the others hear a word."""
        self._ranks.share(command)
        events = begin(self._own, command)
        word: str | None = STOP
        try:
            while True:
                self._ranks.share(GO_ON)
                event = next(events, None)
                if event is None:
                    return
                yield event
        except Exception as error:
            word = FAILED if _survives(error) else None
            raise
        finally:  # at the end, after an error, or closed by a cancel
            with ending_after(self._ranks.patience_s):
                self._ranks.share(word)
                events.close()
                if word is not None:
                    self._ranks.meet()

    def _dismiss(self) -> None:
        with ending_after(LAST_WORD_S), contextlib.suppress(WorkerDiedError):  # they are gone
            self._ranks.share(None)
        torch.distributed.destroy_process_group()


class FollowingRuntime:
    """Any other rank's runtime: does as rank 0 says until it is dismissed."""

    def __init__(self, own: Runtime, ranks: Ranks) -> None:
        self._own = own
        self._ranks = ranks

    def follow(self) -> None:
        """Returns when rank 0 has ended. Raises what this process cannot go on after."""
        while (command := self._ranks.share()) is not None and self._follow(command):
            with ending_after(self._ranks.patience_s):
                self._ranks.meet()
        torch.distributed.destroy_process_group()

    def _follow(self, command: Load | WarmUp | Generate) -> bool:
        """Do this rank's part of a command. False: rank 0 ends by it."""
        events = begin(self._own, command)
        try:
            while (word := self._ranks.share()) == GO_ON:
                next(events, None)
        except Exception as error:
            log.exception("rank %d", self._ranks.rank)
            # Rank 0 has met it too, and says so; or it waits for what this rank was to add.
            patience_s = self._ranks.patience_s if _survives(error) else LAST_WORD_S
            with ending_after(patience_s):
                word = self._ranks.share()
            if word != (FAILED if _survives(error) else None):
                raise
        finally:
            events.close()
        return word is not None


def _survives(error: Exception) -> bool:
    """Whether a process goes on after it; the worker's loop decides in the same way."""
    return not isinstance(error, TpuUiError) or error.survives


def begin(runtime: Runtime, command: Load | WarmUp | Generate) -> Any:
    """The events of a command; a generator."""
    match command:
        case Load():
            return runtime.load(command)
        case WarmUp():
            return runtime.warm_up(command)
        case Generate():
            return runtime.generate(command)
        case _:
            assert_never(command)
