"""After which steps the host waits for the device."""

from tpu_ui.runtime.pace import MOST_STEPS, Pace


def steps_waited_for(step_s: list[float], interval_s: float = 0.1) -> list[int]:
    """The steps named, on a clock by which each step takes so long."""
    now_s = 0.0
    pace = Pace(interval_s, clock=lambda: now_s)
    pace.start()
    named = []
    for step, took_s in enumerate(step_s, start=1):
        now_s += took_s
        if pace.is_due(step):
            named.append(step)
            pace.waited(step)
    return named


def test_slow_steps_are_all_waited_for() -> None:
    assert steps_waited_for([0.3] * 5) == [1, 2, 3, 4, 5]


def test_quick_steps_are_waited_for_every_tenth_of_a_second() -> None:
    assert steps_waited_for([0.03] * 10) == [1, 4, 7, 10]


def test_a_first_step_that_had_to_compile_is_followed_by_every_step_until_it_is_quick() -> None:
    assert steps_waited_for([60.0, *[0.05] * 6]) == [1, 2, 4, 6]


def test_steps_in_one_go_are_limited() -> None:
    named = steps_waited_for([0.0001] * 40)
    assert named == [1, 1 + MOST_STEPS, 1 + 2 * MOST_STEPS]


def test_no_interval_names_every_step() -> None:
    assert steps_waited_for([0.0] * 4, interval_s=0.0) == [1, 2, 3, 4]
