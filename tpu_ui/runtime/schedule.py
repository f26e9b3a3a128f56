"""A scheduler's arithmetic on the host, so that no step count compiles anything.

A scheduler keeps `timesteps` as one device tensor, and a pipeline's loop slices it; on a TPU each
slice is a program of its own, so every new step count compiles some. Here the schedule is computed
on the host and each timestep is brought over by a copy, which compiles nothing. The numbers are the
same.
"""

import functools
from typing import Any


def on_host(scheduler: Any) -> Any:
    """A scheduler of the same kind and configuration whose schedule is made on the host.

    `timesteps` becomes a list of 0-d tensors on the device; the pipelines only iterate over it and
    take its length.
    """
    kind = type(scheduler)

    # `wraps` keeps the signature, which diffusers reads to learn whether `sigmas` are taken.
    @functools.wraps(kind.set_timesteps)
    def set_timesteps(self: Any, *args: Any, device: Any = None, **kwargs: Any) -> None:
        kind.set_timesteps(self, *args, device="cpu", **kwargs)
        self.timesteps = [timestep.clone().to(device) for timestep in self.timesteps]
        if hasattr(self, "set_begin_index"):
            self.set_begin_index(0)  # else the index is looked up by `nonzero`, which compiles

    host_kind: Any = type(kind.__name__, (kind,), {"set_timesteps": set_timesteps})
    return host_kind.from_config(scheduler.config)
