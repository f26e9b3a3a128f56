"""How much one visitor may ask for: requests a minute, and images an hour. Figures and clocks."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable

from tpu_ui.errors import AllowanceError

MINUTE_S, HOUR_S = 60.0, 3600.0
SWEPT_AT = 10_000  # keys, before those that have nothing left are forgotten

Clock = Callable[[], float]


class Window:
    """So many of something in the last so many seconds, by key. Safe for several threads."""

    def __init__(self, most: int, seconds: float, clock: Clock = time.monotonic) -> None:
        self.most = most
        self._seconds = seconds
        self._clock = clock
        self._taken: dict[str, deque[tuple[float, int]]] = {}
        self._lock = threading.Lock()

    def take(self, key: str, count: int = 1) -> float:
        """0 if there was room, and it is taken; else the seconds until there is, if ever."""
        with self._lock:
            if wait_s := self._wait_s(key, count):
                return wait_s
            self._taken.setdefault(key, deque()).append((self._clock(), count))
            return 0.0

    def left(self, key: str) -> int:
        with self._lock:
            return self.most - sum(count for _, count in self._recent(key))

    def wait_s(self, key: str, count: int = 1) -> float:
        """What `take` would say; nothing is taken."""
        with self._lock:
            return self._wait_s(key, count)

    def give_back(self, key: str, count: int = 1) -> None:
        """What was taken last is not wanted."""
        with self._lock:
            recent = self._recent(key)
            for at in reversed(range(len(recent))):
                if recent[at][1] == count:
                    del recent[at]
                    break

    def forget(self) -> None:
        with self._lock:
            self._taken.clear()

    def _wait_s(self, key: str, count: int) -> float:
        if count > self.most:
            return math.inf
        recent = self._recent(key)
        over = sum(one for _, one in recent) + count - self.most
        for at_s, one in recent:
            if over <= 0:
                break
            over -= one
            if over <= 0:
                return max(at_s + self._seconds - self._clock(), 0.001)
        return 0.0

    def _recent(self, key: str) -> deque[tuple[float, int]]:
        self._sweep()
        return self._without_old(self._taken.get(key, deque()))

    def _without_old(self, taken: deque[tuple[float, int]]) -> deque[tuple[float, int]]:
        while taken and taken[0][0] + self._seconds <= self._clock():
            taken.popleft()
        return taken

    def _sweep(self) -> None:
        if len(self._taken) >= SWEPT_AT:
            kept = {key: one for key, one in self._taken.items() if self._without_old(one)}
            self._taken = kept


class Allowance:
    """What one account, a name or an address, may ask for. 0: no limit of that kind.

    Images count when they are asked for, whether or not the job is done.
    """

    def __init__(
        self, rate: int = 0, images_per_hour: int = 0, clock: Clock = time.monotonic
    ) -> None:
        self._requests = Window(rate, MINUTE_S, clock) if rate else None
        self._images = Window(images_per_hour, HOUR_S, clock) if images_per_hour else None

    def __bool__(self) -> bool:
        return bool(self._requests or self._images)

    def take(self, account: str, images: int) -> None:
        """One request for so many images. Raises AllowanceError, and then nothing is taken."""
        if self._requests and (wait_s := self._requests.take(account)):
            raise AllowanceError.of_requests(self._requests.most, wait_s)
        if self._images and (wait_s := self._images.take(account, images)):
            if self._requests:
                self._requests.give_back(account)
            left = self._images.left(account)
            raise AllowanceError.of_images(self._images.most, left, wait_s)

    def give_back(self, account: str, images: int) -> None:
        """The images that were taken last; their job was refused. The request counts."""
        if self._images:
            self._images.give_back(account, images)
