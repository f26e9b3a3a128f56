"""How often in a row one worker has died, and how long it is left alone. Knows no process."""

import time

MAX_DEATHS = 5  # in a row; then it is down
FIRST_REST = 300  # first pauses; how long it stays down
GROWTH = 4
MAX_PAUSE_S = 30.0
STEADY_S = 600.0  # who has lived that long did not die of its start


class Deaths:
    """The first death costs no pause: most come alone. A finished picture ends the row."""

    def __init__(self, first_pause_s: float) -> None:
        self._first_pause_s = first_pause_s
        self._in_a_row = 0
        self._reason = ""
        self._born_s = self._down_since_s = time.monotonic()

    def born(self) -> None:
        """A process is started."""
        self._born_s = time.monotonic()

    def died(self, reason: str) -> None:
        """`reason` is a sentence."""
        if time.monotonic() - self._born_s > STEADY_S:
            self._in_a_row = 0
        self._in_a_row += 1
        self._reason = reason
        self._down_since_s = time.monotonic()

    def forget(self) -> None:
        """It works again; or somebody has asked for another try."""
        self._in_a_row = 0

    def grant_one(self) -> None:
        """One more try after a rest; if that ends in a death, it is down again."""
        self._in_a_row = MAX_DEATHS - 1

    @property
    def down(self) -> bool:
        return self._in_a_row >= MAX_DEATHS

    @property
    def rested(self) -> bool:
        """Whether one that is down has been left alone for long enough."""
        return self.down and time.monotonic() - self._down_since_s >= self.rest_s

    @property
    def rest_s(self) -> float:
        return FIRST_REST * self._first_pause_s

    @property
    def pause_s(self) -> float:
        """Before the next try; 0 after the first death, and after a rest."""
        if self._in_a_row < 2 or time.monotonic() - self._down_since_s >= self.rest_s:
            return 0.0
        return min(float(self._first_pause_s * GROWTH ** (self._in_a_row - 2)), MAX_PAUSE_S)

    @property
    def told(self) -> str:
        """Why it is not there, and what follows."""
        reason, seconds = self._reason, self.rest_s
        if not self.down:
            number = self._in_a_row + 1
            return f"{reason} Next try in {self.pause_s:g} s ({number} of {MAX_DEATHS})."
        again = f"It is tried again every {seconds:g} s."
        if seconds >= 60:
            again = f"It is tried again every {seconds / 60:g} min."
        return f"{reason} That was {MAX_DEATHS} times in a row. {again}"
