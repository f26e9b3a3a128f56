"""How often to wait for the device while it denoises. Knows nothing of pipelines or events.

The host runs ahead of the device. Waiting for it after each step keeps it idle for a moment each
time, which quick steps feel; never waiting would let a cancel, and the word of how far the picture
is, come steps too late. So quick steps are waited for a few times a second, and for all but the
last of them, which keeps the device at work meanwhile.
"""

import time
from collections.abc import Callable

INTERVAL_S = 0.25  # as often as a page can tell, and as late as a cancel may come
MOST_STEPS = 16  # in one go: however quick they were, the next may be slow


class Pace:
    """Names the steps of one image to wait for, by how long those before have taken.

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
        self._ahead = 0  # steps on their way while it is waited for

    def start(self) -> None:
        """The device has nothing to do, and denoising begins."""
        self._waited_at_s = self._clock()

    def due(self, step: int) -> int | None:
        """Which step to wait for, now that `step` (from 1) is on its way; None: for none."""
        return self._next_step if step >= self._next_step + self._ahead else None

    def waited(self, step: int) -> None:
        """The device has come to the end of `step`."""
        now_s = self._clock()
        took_s = (now_s - self._waited_at_s) / (step - self._waited_step)
        self._waited_at_s, self._waited_step = now_s, step
        steps = int(self._interval_s / max(took_s, 1e-9))
        self._next_step = step + min(max(steps, 1), MOST_STEPS)
        self._ahead = 1 if steps > 1 else 0
