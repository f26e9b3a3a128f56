"""What the owner has chosen while the app ran, kept in one JSON file for the next start.

A file that is missing or damaged costs a warning in the log, and the choices.
"""

import json
import logging
from pathlib import Path
from typing import Any

from tpu_ui.folders import write_whole
from tpu_ui.shapes import Strategy

FILE_NAME = "choices.json"
AUTOMATIC = "auto"

log = logging.getLogger(__name__)


class Choices:
    """Each model's strategy (None: by itself), and the lock (None: nothing was chosen)."""

    def __init__(self, cache: Path) -> None:
        self._path = cache / FILE_NAME
        self.strategies: dict[str, Strategy | None] = {}
        self.locked: bool | None = None
        try:
            self._take(json.loads(self._path.read_text("utf-8")))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("%s cannot be read and is left out: %r", FILE_NAME, error)

    def choose(self, model: str, strategy: Strategy | None) -> None:
        """From now on, and after the next start."""
        self.strategies[model] = strategy
        self._keep()

    def lock(self, locked: bool) -> None:
        """From now on, and after the next start."""
        self.locked = locked
        self._keep()

    def locked_or(self, locked: bool, fixed: bool) -> bool:
        """Whether the app starts locked: as was chosen, unless its start fixes it, as `locked`."""
        return locked if fixed or self.locked is None else self.locked

    def _take(self, kept: Any) -> None:
        strategies = {
            str(name): None if one == AUTOMATIC else Strategy(one)
            for name, one in kept["strategies"].items()
        }
        locked = kept.get("locked")
        if not (locked is None or isinstance(locked, bool)):
            raise ValueError(f"locked is {locked!r}")
        self.strategies, self.locked = strategies, locked

    def _keep(self) -> None:
        table = {name: one or AUTOMATIC for name, one in sorted(self.strategies.items())}
        content = json.dumps({"strategies": table, "locked": self.locked}, indent=1)
        try:
            write_whole(self._path, content.encode())
        except OSError as error:
            log.warning("the choice cannot be kept: %s", error.strerror)
