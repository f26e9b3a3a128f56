"""How often to wait for the device while it denoises. Knows nothing of pipelines or events.

The host runs ahead of the device. Waiting for it after each step keeps it idle for a moment each
time, which quick steps feel; never waiting would let a cancel, and the word of how far the picture
is, come steps too late.
"""

import time
from collections.abc import Callable

INTERVAL_S = 0.25  # as often as a page can tell, and as late as a cancel may come
MOST_STEPS = 16  # in one go: however quick they were, the next may be slow


class Pace:
    """Names the steps of one image after which to wait, by how long those before have taken.

    `interval_s` 0 names every step; so it must be where several processes have to agree.
    """

    def __init__(
        self, interval_s: float = INTERVAL_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._waited_at_s = clock()
        self._waited_step = 0
        self._next_step = 1

    def start(self) -> None:
        """The device has nothing to do, and denoising begins."""
        self._waited_at_s = self._clock()

    def is_due(self, step: int) -> bool:
        """Whether to wait after `step` (from 1)."""
        return step >= self._next_step

    def waited(self, step: int) -> None:
        """The device has come to the end of `step`."""
        now_s = self._clock()
        took_s = (now_s - self._waited_at_s) / (step - self._waited_step)
        self._waited_at_s, self._waited_step = now_s, step
        steps = int(self._interval_s / max(took_s, 1e-9))
        self._next_step = step + min(max(steps, 1), MOST_STEPS)
