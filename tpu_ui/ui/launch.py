"""How the page is served: queue, launch and look. Reads the style and the script beside it.

`app.py` does `queued(build(dispatcher)).launch(**launch_arguments(...), ...)`.
"""

from pathlib import Path
from typing import Any

import gradio as gr
from anyio import to_thread
from starlette.middleware import Middleware

from tpu_ui.dispatch.interface import Dispatcher
from tpu_ui.ui import labels
from tpu_ui.ui.bearer import Bearer
from tpu_ui.ui.chinese import Chinese
from tpu_ui.ui.cross_site import CrossSite
from tpu_ui.ui.delivery import Delivery
from tpu_ui.ui.door import Door, usual_door
from tpu_ui.ui.intake import MAX_FILE_BYTES, Intake
from tpu_ui.ui.knocking import Knocking
from tpu_ui.ui.listening import JOB_LISTENERS
from tpu_ui.ui.routes import routes
from tpu_ui.ui.visitor import Marking

# A listener occupies a thread while it waits. Status, cancel and file handlers need some too.
MAX_THREADS = JOB_LISTENERS + 40

QUEUE_SLEEP_S = 0.01

# Of so many pages what they show is kept on the server, some 100 kB each; of the oldest it is lost.
MAX_SESSIONS = 1000

_HERE = Path(__file__).resolve().parent
_SANS = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica", "Arial", "sans-serif"]
_MONO = ["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace"]


def queued(page: gr.Blocks) -> gr.Blocks:
    """`page` with its queue set up."""
    page.queue(default_concurrency_limit=JOB_LISTENERS, api_open=False)
    # Gradio 6.31 looks for work a thousand times a second, which takes 6 % of a core. Private.
    page._queue.sleep_when_free = QUEUE_SLEEP_S
    return page


def launch_arguments(dispatcher: Dispatcher, door: Door | None = None) -> dict[str, Any]:
    """For `Blocks.launch`: what belongs to the page and the API, whoever serves them.

    `door` is the one that the page was built with.

    `show_error` stays off: our own errors and Gradio's refusals are shown anyway, and the text of
    an unexpected exception is the log's business alone.
    """
    door = door or usual_door(dispatcher.locked_at_start)
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    return {
        "theme": theme(),
        "css_paths": [_HERE / "style.css"],
        "css": labels.style(),
        "i18n": labels.i18n(),
        "head": f"<script>{script}</script>",
        "footer_links": ["api"],
        "max_threads": MAX_THREADS,
        "max_file_size": MAX_FILE_BYTES,
        "state_session_capacity": MAX_SESSIONS,
        "show_error": False,
        "enable_monitoring": False,
        "ssr_mode": False,
        "mcp_server": True,
        **_asking(door),
        "app_kwargs": {
            "routes": routes(dispatcher, door),
            "middleware": [
                Middleware(CrossSite, door=door),
                Middleware(Delivery),
                Middleware(Chinese),
                Middleware(Intake),
                Middleware(Marking),
                Middleware(Knocking, wrong=door.wrong),
                *([Middleware(Bearer, door=door)] if door.closed else []),
            ],
        },
    }


def _asking(door: Door) -> dict[str, Any]:
    """How Gradio learns who calls: at its own door, or from ours, which keeps nobody out."""

    async def knows(name: str, password: str) -> bool:
        return await to_thread.run_sync(door.logins.knows, name, password)

    if door.closed:
        return {"auth": knows}
    return {"auth_dependency": door.name_of} if door.signs_in else {}


def theme() -> gr.themes.Base:
    """A plain theme on the system's own fonts: nothing is fetched from elsewhere."""
    return gr.themes.Base(
        primary_hue=gr.themes.colors.teal,
        secondary_hue=gr.themes.colors.teal,
        neutral_hue=gr.themes.colors.slate,
        font=[gr.themes.Font(name) for name in _SANS],
        font_mono=[gr.themes.Font(name) for name in _MONO],
        radius_size=gr.themes.sizes.radius_md,
        spacing_size=gr.themes.sizes.spacing_md,
    ).set(
        body_background_fill="*neutral_50",
        body_background_fill_dark="*neutral_950",
        block_background_fill="white",
        block_background_fill_dark="*neutral_900",
        block_border_width="1px",
        block_info_text_color="*neutral_500",
        block_info_text_color_dark="*neutral_400",
        body_text_color_subdued="*neutral_500",
        body_text_color_subdued_dark="*neutral_400",
        input_background_fill="white",
        input_background_fill_dark="*neutral_950",
        input_border_width="1px",
        input_border_color="*neutral_300",
        input_border_color_dark="*neutral_700",
        input_border_color_focus="*primary_600",
        input_border_color_focus_dark="*primary_500",
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_background_fill_dark="*primary_700",
        button_primary_background_fill_hover_dark="*primary_800",
        button_primary_text_color="white",
        button_primary_text_color_dark="white",
    )
