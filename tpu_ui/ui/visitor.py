"""Who asks, as far as turns in the queue go. Not an identity: a caller may choose another."""

import gradio as gr
from starlette.requests import Request


def visitor_of(request: gr.Request | None) -> str:
    """One open page, or one Gradio client; a caller without either, by address."""
    if request is None:  # called from within
        return ""
    return request.session_hash or address_of(request.request)


def address_of(request: Request | None) -> str:
    """Where a caller is. Callers behind one proxy have one address, and share a turn."""
    client = request.client if request else None
    return client.host if client else "unknown"
