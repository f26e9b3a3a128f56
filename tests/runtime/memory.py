"""How much memory a process takes. Must not import torch: a device may have to be opened first."""

import threading
from pathlib import Path

SAMPLE_S = 0.002


class Peak:
    """The most anonymous memory this process has while the context lasts."""

    def __init__(self) -> None:
        self.bytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(SAMPLE_S):
            self.bytes = max(self.bytes, anonymous_bytes())


def anonymous_bytes(pid: int | str = "self") -> int:
    """Memory that weights are copied to. A file that is looked at does not count: the kernel can
    take it back."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (kib,) = [line.split()[1] for line in lines if line.startswith("RssAnon:")]
    return int(kib) * 1024
