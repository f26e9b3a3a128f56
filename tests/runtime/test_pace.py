"""Which steps the host waits for."""

import itertools

from tpu_ui.runtime.pace import MOST_STEPS, Pace


def steps_waited_for(step_s: list[float], interval_s: float = 0.1) -> list[int]:
    """The steps named, by a host that needs no time and a device that needs so long for each."""
    now_s = 0.0
    ends_s = list(itertools.accumulate(step_s))
    pace = Pace(interval_s, clock=lambda: now_s)
    pace.start()
    named = []
    for step in range(1, len(step_s) + 1):
        due = pace.due(step)
        if due is not None:
            now_s = max(now_s, ends_s[due - 1])
            named.append(due)
            pace.waited(due)
    return named


def test_slow_steps_are_all_waited_for() -> None:
    assert steps_waited_for([0.3] * 5) == [1, 2, 3, 4, 5]


def test_quick_steps_are_waited_for_every_tenth_of_a_second() -> None:
    assert steps_waited_for([0.03] * 11) == [1, 4, 7, 10]


def test_a_quick_step_is_waited_for_once_the_next_is_on_its_way() -> None:
    pace = Pace(0.1, clock=iter([0.0, 0.03]).__next__)
    assert pace.due(1) == 1
    pace.waited(1)
    assert [pace.due(step) for step in (2, 3, 4, 5)] == [None, None, None, 4]


def test_a_first_step_that_had_to_compile_is_followed_by_every_step_until_it_is_quick() -> None:
    assert steps_waited_for([60.0, *[0.05] * 6]) == [1, 2, 4, 6]


def test_steps_in_one_go_are_limited() -> None:
    named = steps_waited_for([0.0001] * 40)
    assert named == [1, 1 + MOST_STEPS, 1 + 2 * MOST_STEPS]


def test_no_interval_names_every_step() -> None:
    assert steps_waited_for([0.0] * 4, interval_s=0.0) == [1, 2, 3, 4]
