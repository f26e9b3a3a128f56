"""A runtime of which one rank can fail alone. A step is a sum over all ranks."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from tpu_ui.protocol import Generate, ImageMade, Stepped
from tpu_ui.runtime import parallel
from tpu_ui.runtime.device import open_device
from tpu_ui.runtime.fake import FakeRuntime

PATIENCE_S = 2.0


class Lopsided(FakeRuntime):
    """`rank 1` in a prompt: that rank fails at step 2, while the others add up."""

    def generate(self, command: Generate) -> Iterator[Stepped | ImageMade]:
        for event in super().generate(command):
            alone = f"rank {torch.distributed.get_rank()}" in command.request.prompt
            if alone and isinstance(event, Stepped) and event.step == 2:
                raise RuntimeError("something that no other rank has met")
            torch.distributed.all_reduce(torch.ones(1))
            yield event


def lopsided_runtime(
    device: str, cache: Path
) -> parallel.LeadingRuntime | parallel.FollowingRuntime:
    ranks = replace(parallel.join(open_device(device)), patience_s=PATIENCE_S)
    kind = parallel.FollowingRuntime if ranks.rank else parallel.LeadingRuntime
    return kind(Lopsided(device, cache), ranks)
