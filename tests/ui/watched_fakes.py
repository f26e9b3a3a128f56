"""The app with the fake runtime, noting what it touches: tests.ui.watched_fakes FOLDER PORT.

What it writes outside FOLDER, what it reads of FOLDER/secret.txt or /etc/passwd, what it connects
to and what it starts, besides its workers, stands in FOLDER/touched.txt, one a line.
"""

import os
import sys
from pathlib import Path
from typing import Any

from tests.ui.serving_fakes import main

SECRETS = ("secret.txt", "passwd")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.rename", "os.mkdir", "os.link", "os.symlink", "os.remove", "os.rmdir")
STARTS = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen")


def watch(folder: Path) -> None:
    """From here on. An audit hook cannot be taken back, so this is for a process of its own."""
    notes = os.open(folder / "touched.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    mine = f"{os.path.realpath(folder)}/"

    def outside(path: object) -> bool:
        name = os.path.realpath(os.fsdecode(path)) if isinstance(path, str | bytes) else ""
        return not name.startswith((mine, "/dev/", "/proc/")) and bool(name)

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = given
            secret = isinstance(path, str) and path.endswith(SECRETS)
            said = secret or bool(flags & WRITING and outside(path))
        elif event in CHANGES:
            # Two names or one; a folder's number comes last, where a name is of what is in it.
            said = given[-1] == -1 and any(outside(path) for path in given[:2])
        elif event in STARTS:
            said = "tpu_ui.worker" not in str(given)
        elif event == "socket.connect":
            address = given[1]
            said = isinstance(address, tuple) and address[0] not in ("127.0.0.1", "localhost")
        else:
            return
        if said:
            os.write(notes, f"{event} {given[:2]!r}\n".encode("utf-8", "replace"))

    sys.addaudithook(hook)


if __name__ == "__main__":
    at = Path(sys.argv[1])
    (at / "secret.txt").write_text("the-secret")
    watch(at)
    main(at, int(sys.argv[2]))
