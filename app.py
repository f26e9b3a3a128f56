"""TPU UI: start the app. `python app.py --help` lists the options.

Settings, presets, dispatcher, page, server: in that order, and nothing at import.
"""

import logging
import signal
import socket
import sys
import threading
from pathlib import Path
from types import FrameType

from tpu_ui import presets, settings, styles
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.errors import SettingsError, TpuUiError
from tpu_ui.folders import make_writable
from tpu_ui.settings import Settings
from tpu_ui.shapes import Mode, Strategy


def main(arguments: list[str]) -> int:
    """Run until interrupted. Returns the exit status: 0, or 2 for settings that cannot work."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        chosen = settings.from_process(arguments)
        check_port(chosen.host, chosen.port)
        check_outputs(chosen.outputs)
        dispatcher = make_dispatcher(chosen)
    except TpuUiError as error:
        print(f"app.py: {error}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        serve(chosen, dispatcher)
    except KeyboardInterrupt:
        logging.info("stopping")
    finally:
        dispatcher.close()
    return 0


def make_dispatcher(chosen: Settings) -> LocalDispatcher:
    """The workers, already starting. Raises TpuUiError for a wrong preset, style, model or mode."""
    models = presets.load_all()
    return LocalDispatcher(
        models,
        model=chosen.model,
        mode=None if chosen.mode is None else Mode(chosen.mode),
        strategy=None if chosen.strategy == "auto" else Strategy(chosen.strategy),
        chips=chosen.chips,
        device=chosen.device,
        warm=chosen.warm,
        locked=chosen.lock,
        workers=chosen.workers,
        outputs=chosen.outputs,
        cache=chosen.cache,
        styles=styles.load(models),
    )


def serve(chosen: Settings, dispatcher: LocalDispatcher) -> None:
    """Open the port at once, say where, and serve the page; blocks until interrupted."""
    from tpu_ui.ui.blocks import build  # noqa: PLC0415 - Gradio takes seconds; workers start first
    from tpu_ui.ui.launch import launch_arguments, queue_arguments  # noqa: PLC0415

    page = build(dispatcher, chosen.auth).queue(**queue_arguments())
    _, local_url, share_url = page.launch(
        quiet=True,
        prevent_thread_lock=True,
        server_name=chosen.host,
        server_port=chosen.port,
        share=chosen.share,
        **launch_arguments(dispatcher, chosen.auth),
    )
    print(f"TPU UI is at {local_url} ; warm-up goes on behind it.", flush=True)
    if share_url:
        print(f"Anyone can reach it at {share_url}", flush=True)
    elif chosen.share:
        print("No share link could be made; the network does not let it through.", flush=True)
    try:
        threading.Event().wait()
    finally:
        page.close(verbose=False)


def check_port(host: str, port: int) -> None:
    """Raises SettingsError if the port is in use, before anything is started."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise SettingsError(
                f"Port {port} on {host} cannot be opened ({error.strerror})."
                " Choose another with --port."
            ) from error


def check_outputs(folder: Path) -> None:
    """Raises SettingsError if no picture could be written into `folder`, which is made."""
    try:
        make_writable(folder)
    except OSError as error:
        raise SettingsError(
            f"Pictures cannot be written into {folder} ({error.strerror})."
            " Choose another folder with --outputs."
        ) from error


def _interrupt(signal_number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
