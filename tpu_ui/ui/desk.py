"""Where jobs are asked for: who may have which, and how many. The dispatcher does not know people.

A visitor's jobs are those of the model that is loaded, within her allowance. Warm-ups are the
owner's.
"""

import gradio as gr

from tpu_ui.dispatch.interface import Dispatcher
from tpu_ui.errors import NotTheOwnerError, TpuUiError
from tpu_ui.request import GenerationRequest
from tpu_ui.shapes import ImageSize, Mode
from tpu_ui.ui.door import Caller, Door


class Desk:
    """Bound to a dispatcher and to the rules of the app."""

    def __init__(self, dispatcher: Dispatcher, door: Door) -> None:
        self._dispatcher = dispatcher
        self._door = door

    def submit(self, asked: GenerationRequest, visit: gr.Request | None, kept: bool = True) -> str:
        """The job's id. Raises what `Dispatcher.submit` does, NotTheOwnerError, AllowanceError."""
        return self.submit_for(asked, self._door.caller(visit), kept)

    def submit_for(self, asked: GenerationRequest, caller: Caller, kept: bool = True) -> str:
        """The same for a caller that is known."""
        self._refuse_other_model(asked, caller)
        if caller.account:
            self._door.allowance.take(caller.account, asked.count)
        try:
            return self._dispatcher.submit(asked, caller.turn, kept)
        except TpuUiError:
            if caller.account:
                self._door.allowance.give_back(caller.account, asked.count)
            raise

    def warm_up(self, model: str, mode: Mode, size: ImageSize, visit: gr.Request | None) -> str:
        """The job's id. Raises what `Dispatcher.warm_up` does, and NotTheOwnerError."""
        self.check_owner(visit)
        return self._dispatcher.warm_up(model, mode, size)

    def check_owner(self, visit: gr.Request | None) -> None:
        """Raises NotTheOwnerError."""
        if self._door.owns(visit):
            return
        if self._door.owners:
            raise NotTheOwnerError("Only the owner can do this. Sign in as the owner first.")
        raise NotTheOwnerError(
            "Only the owner can do this. Start the app with --owner or --auth to have an owner's"
            " login."
        )

    def _refuse_other_model(self, asked: GenerationRequest, caller: Caller) -> None:
        """Of a locked app the dispatcher itself refuses what is not ready."""
        if caller.owns:
            return
        now = self._dispatcher.status()
        if not now.locked and asked.model != now.model:
            raise NotTheOwnerError(
                f"Only the owner can have another model loaded. The one that is: {now.model}."
            )
