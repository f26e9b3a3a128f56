"""TPU UI: start the app. `python app.py --help` lists the options.

Settings, presets, dispatcher, page, server: in that order, and nothing at import.
"""

import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import FrameType

from tpu_ui import presets, settings, styles
from tpu_ui.dispatch.housekeeping import Keeping
from tpu_ui.dispatch.interface import Dispatcher
from tpu_ui.dispatch.local import LocalDispatcher
from tpu_ui.dispatch.logs import folder_of
from tpu_ui.dispatch.remote import RemoteDispatcher
from tpu_ui.dispatch.watchdog import Patience
from tpu_ui.errors import SettingsError, TpuUiError
from tpu_ui.folders import Bounds, make_writable, own_temporary
from tpu_ui.passwords import Secret, known_logins
from tpu_ui.settings import Settings
from tpu_ui.shapes import Mode, Strategy

FIRST_LOOK_S = 1.0  # a far app may be away; the page is up all the same
TEMPORARY = "tpu-ui-page"
PRIVATE_NETWORKS = "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,::1,fc00::/7"
LOG_LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def main(arguments: list[str]) -> int:
    """Run until interrupted. Returns the exit status: 0, or 2 for settings that cannot work."""
    logging.basicConfig(level=logging.INFO, format=LOG_LINE)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with temporary_folder() as temporary:
        try:
            chosen = settings.from_process(arguments)
            check_port(chosen.host, chosen.port)
            chosen = with_folders(chosen)
            check_outputs(chosen.outputs)
            logins = known_logins(chosen.auth or chosen.owner, chosen.visitors)
            keep_log(chosen.cache)
            dispatcher = make_dispatcher(chosen, temporary)
        except TpuUiError as error:
            print(f"app.py: {error}", file=sys.stderr)
            return 2
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            serve(chosen, dispatcher, logins)
        except KeyboardInterrupt:
            logging.info("stopping")
        finally:
            dispatcher.close()
    return 0


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for what the page uploads and is handed: of this process alone, gone with it.

    Gradio's own would be shared by all apps of a machine. Folders of processes that were killed go.
    """
    parent = Path(os.environ.get("GRADIO_TEMP_DIR") or tempfile.gettempdir())
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(f"{TEMPORARY}-*"):
        if not Path("/proc", left.name.split("-")[-2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(
        prefix=f"{TEMPORARY}-{os.getpid()}-", dir=parent, ignore_cleanup_errors=True
    ) as folder:
        os.environ["GRADIO_TEMP_DIR"] = folder
        yield Path(folder)


def keep_log(cache: Path) -> None:
    """Write the app's log into a file as well, never more than a few MB."""
    path = folder_of(cache) / "app.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = RotatingFileHandler(path, maxBytes=2_000_000, backupCount=3, encoding="utf-8")
    except OSError as error:
        logging.warning("the app has no log file: %s", error.strerror)
        return
    kept.setFormatter(logging.Formatter(LOG_LINE))
    logging.getLogger().addHandler(kept)


def make_dispatcher(chosen: Settings, temporary: Path | None = None) -> Dispatcher:
    """The workers, already starting, or the way to those of another app.

    Raises TpuUiError for a wrong preset, style, model or mode.
    """
    models = presets.load_all()
    keeping = Keeping(
        pictures=Bounds(
            chosen.keep_images or None,
            round(chosen.keep_gb * 1e9) or None,
            chosen.keep_days * 86_400 or None,
        ),
        temporary=temporary,
    )
    # Where nobody can show that she is the owner, nobody can have unlocked it.
    lock_is_fixed = chosen.lock_given or (chosen.lock and not chosen.has_owner)
    if chosen.remote is not None:
        return RemoteDispatcher(
            models,
            url=chosen.remote,
            token=chosen.remote_token,
            locked=chosen.lock,
            lock_is_fixed=lock_is_fixed,
            outputs=chosen.outputs,
            cache=chosen.cache,
            keeping=keeping,
            log_prompts=chosen.log_prompts,
        )
    return LocalDispatcher(
        models,
        model=chosen.model,
        mode=None if chosen.mode is None else Mode(chosen.mode),
        strategy=None if chosen.strategy == "auto" else Strategy(chosen.strategy),
        chips=chosen.chips,
        device=chosen.device,
        warm=chosen.warm,
        locked=chosen.lock,
        lock_is_fixed=lock_is_fixed,
        workers=chosen.workers,
        outputs=chosen.outputs,
        cache=chosen.cache,
        queue_limit=chosen.queue,
        visitor_limit=chosen.queue_per_visitor,
        patience=Patience.of(chosen.patience_s),
        keeping=keeping,
        log_prompts=chosen.log_prompts,
        styles=styles.load(models),
    )


def serve(chosen: Settings, dispatcher: Dispatcher, logins: dict[str, Secret]) -> None:
    """Open the port at once, say where, and serve the page; blocks until interrupted."""
    from tpu_ui.ui.blocks import build  # noqa: PLC0415 - Gradio takes seconds; workers start first
    from tpu_ui.ui.launch import launch_arguments, queued  # noqa: PLC0415
    from tpu_ui.ui.opening import opened  # noqa: PLC0415

    if isinstance(dispatcher, RemoteDispatcher):
        dispatcher.wait_for_first_look(FIRST_LOOK_S)  # most of it has gone by
    if chosen.hosted:
        # The server takes a visitor's address from such proxies alone; a Space is behind one.
        os.environ.setdefault("FORWARDED_ALLOW_IPS", PRIVATE_NETWORKS)
    door = opened(chosen, logins, dispatcher.locked_at_start)
    page = queued(build(dispatcher, door))
    _, local_url, share_url = page.launch(
        quiet=True,
        prevent_thread_lock=True,
        server_name=chosen.host,
        server_port=chosen.port,
        root_path=chosen.root_path,
        share=chosen.share,
        **launch_arguments(dispatcher, door),
    )
    print(f"TPU UI is at {local_url} ; warm-up goes on behind it.", flush=True)
    if share_url:
        print(f"Anyone can reach it at {share_url}", flush=True)
    elif chosen.share:
        print("No share link could be made; the network does not let it through.", flush=True)
    try:
        threading.Event().wait()
    finally:
        dispatcher.close()  # first, so that whoever waits is told
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


def with_folders(chosen: Settings) -> Settings:
    """The usual folders, where nobody has named others and they cannot be written: temporary ones.

    As in a container whose disk is read-only.
    """
    found = {"outputs": chosen.outputs, "cache": chosen.cache}
    for name, folder in found.items():
        if folder != Path(name):
            continue
        try:
            make_writable(folder)
        except OSError as error:
            found[name] = own_temporary(name)
            logging.warning(
                "The folder %s cannot be written (%s). %s is used; it may not outlive a restart of"
                " this machine. Name another with --%s.",
                *(folder, error.strerror, found[name], name),
            )
    return replace(chosen, **found)


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
