"""What this server answers beside Gradio's page and endpoints."""

from starlette.routing import Route

from tpu_ui.dispatch.interface import Dispatcher
from tpu_ui.ui.door import Door
from tpu_ui.ui.health import health_routes
from tpu_ui.ui.openai_images import openai_routes
from tpu_ui.ui.sign_in import sign_in_routes


def routes(dispatcher: Dispatcher, door: Door) -> list[Route]:
    """All of them, each behind the door unless it says otherwise."""
    return [
        *health_routes(dispatcher, door),
        *openai_routes(dispatcher, door),
        *sign_in_routes(door),
    ]
