"""What the owner has chosen while the app ran, kept in one JSON file for the next start.

A file that is missing or damaged costs a warning in the log, and the choices.
"""

import json
import logging
from pathlib import Path

from tpu_ui.folders import write_whole
from tpu_ui.shapes import Strategy

FILE_NAME = "choices.json"
AUTOMATIC = "auto"

log = logging.getLogger(__name__)


class Choices:
    """Each model's strategy; None: by itself."""

    def __init__(self, cache: Path) -> None:
        self._path = cache / FILE_NAME
        self.strategies: dict[str, Strategy | None] = self._read()

    def choose(self, model: str, strategy: Strategy | None) -> None:
        """From now on, and after the next start."""
        self.strategies[model] = strategy
        table = {name: one or AUTOMATIC for name, one in sorted(self.strategies.items())}
        try:
            write_whole(self._path, json.dumps({"strategies": table}, indent=1).encode())
        except OSError as error:
            log.warning("the choice cannot be kept: %s", error.strerror)

    def _read(self) -> dict[str, Strategy | None]:
        try:
            table = json.loads(self._path.read_text("utf-8"))["strategies"]
            return {
                str(name): None if one == AUTOMATIC else Strategy(one)
                for name, one in table.items()
            }
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("%s cannot be read and is left out: %r", FILE_NAME, error)
        return {}
