"""The app with the fake runtime: python -m tests.ui.serving_fakes FOLDER PORT."""

import sys
import threading
from pathlib import Path

from tests.conftest import FAKE_RUNTIME, presets_with
from tpu_ui import styles
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.ui.blocks import build
from tpu_ui.ui.launch import launch_arguments, queued


def main(folder: Path, port: int) -> None:
    presets = presets_with()
    dispatcher = LocalDispatcher(
        presets,
        model="demo",
        mode=None,
        device="auto",
        warm="default",
        locked=True,
        workers=1,
        outputs=folder / "outputs",
        cache=folder / "cache",
        runtime=FAKE_RUNTIME,
        styles=styles.load(presets),
        visitor_limit=50,
        queue_limit=40,  # fewer than come at once
    )
    page = queued(build(dispatcher))
    page.launch(
        server_name="127.0.0.1",
        server_port=port,
        prevent_thread_lock=True,
        quiet=True,
        **launch_arguments(dispatcher),
    )
    threading.Event().wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
