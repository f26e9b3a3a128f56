"""The owner's corner: programs and warm-up, the lock, the machine, the log. Layout and wiring."""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from tpu_ui.ui import parts
from tpu_ui.ui.labels import label
from tpu_ui.ui.owner import Owner
from tpu_ui.ui.parts import Component, WarmUps

TITLE = "For the owner: programs and warm-up, lock, log"
LOCK = "Only sizes that are ready can be asked for"
LOCK_NOTE = "For everybody, in the page and through the API. A waiting job for another size fails."
REFRESH_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class Corner:
    """Seen by the owner alone."""

    whole: Component
    locked: Component
    facts: Component
    log: Component
    warm_ups: WarmUps


def corner() -> Corner:
    with gr.Accordion(label(TITLE), open=False, elem_id="programs", visible=False) as whole:
        warm_ups = parts.warm_ups()
        locked = gr.Checkbox(label=label(LOCK), info=label(LOCK_NOTE), elem_id="lock")
        facts = gr.HTML(elem_id="machine", padding=False)
        log = gr.HTML(elem_id="log", padding=False)
    return Corner(whole, locked, facts, log, warm_ups)


def wire(
    page: gr.Blocks,
    owner: Owner,
    made: Corner,
    beside: tuple[Component, Component],
    quiet: dict[str, Any],
    speaking: dict[str, Any],
) -> None:
    """`beside`: what else depends on who looks, the picker's warm-up and the line that says who.
    `quiet` and `speaking`: how `blocks` wires what asks and what may be refused."""
    strategy, whole = made.warm_ups.strategy, made.whole
    page.load(owner.open_page, None, [whole, beside[0], strategy, beside[1]], **quiet)
    change = strategy.input(owner.set_strategy, strategy, None, **speaking)
    change.failure(owner.chosen_strategy, None, strategy, **quiet)
    lock = made.locked.input(owner.set_locked, made.locked, None, **speaking)
    lock.failure(owner.is_locked, None, made.locked, **quiet)
    seen = gr.State()
    # While the corner is closed nobody looks.
    timer = gr.Timer(REFRESH_EVERY_S, active=False)
    whole.expand(lambda: gr.Timer(active=True), None, timer, **quiet)
    whole.collapse(lambda: gr.Timer(active=False), None, timer, **quiet)
    gr.on(
        [timer.tick, whole.expand],
        owner.refresh,
        seen,
        [seen, made.locked, made.facts, made.log],
        **quiet,
    )
