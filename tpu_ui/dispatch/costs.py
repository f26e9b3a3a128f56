"""What each warm-up cost last time, kept in one JSON file. Knows nothing of jobs or workers.

The file is a convenience: when it is missing, damaged or cannot be written, the app says so in its
log and goes on without.
"""

import json
import logging
import threading
from dataclasses import dataclass
from pathlib import Path

from tpu_ui.dispatch.jobs import Target
from tpu_ui.folders import write_whole
from tpu_ui.shapes import Device, Strategy

FILE_NAME = "warmup-costs.json"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one warm-up took."""

    seconds: float
    programs: int


@dataclass(frozen=True, slots=True)
class RunsOn:
    """What, besides the programs, decides how long a warm-up takes."""

    device: Device
    chip: str
    strategy: Strategy


class Costs:
    """The remembered costs. Safe for use by several threads."""

    def __init__(self, cache: Path) -> None:
        self._path = cache / FILE_NAME
        self._lock = threading.Lock()
        self._costs: dict[str, Cost] | None = None  # None: the file has not been read yet

    def get(self, target: Target, on: RunsOn) -> Cost | None:
        """The cost of this warm-up in this place; None when nobody knows."""
        with self._lock:
            return self._read().get(_key(target, on))

    def remember(self, target: Target, on: RunsOn, cost: Cost) -> None:
        """Keep what a warm-up took, in memory and, if it can be, in the file."""
        with self._lock:
            costs = self._read()
            costs[_key(target, on)] = cost
            table = {
                key: {"seconds": round(cost.seconds, 3), "programs": cost.programs}
                for key, cost in sorted(costs.items())
            }
            try:
                write_whole(self._path, json.dumps(table, indent=1).encode())
            except OSError as error:
                log.warning("the costs of warm-ups cannot be kept: %s", error.strerror)

    def _read(self) -> dict[str, Cost]:
        if self._costs is None:
            self._costs = {}
            try:
                self._costs = _parse(self._path.read_text("utf-8"))
            except FileNotFoundError:
                pass
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                log.warning("%s cannot be read and is left out: %r", FILE_NAME, error)
        return self._costs


def _key(target: Target, on: RunsOn) -> str:
    return f"{target.model}/{target.mode}/{on.device} ({on.chip}) {on.strategy}/{target.size}"


def _parse(text: str) -> dict[str, Cost]:
    table = json.loads(text)
    return {
        str(key): Cost(float(entry["seconds"]), int(entry["programs"]))
        for key, entry in table.items()
    }
