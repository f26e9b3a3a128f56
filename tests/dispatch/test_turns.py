"""Claims about turns: fair across visitors, first in, first out within one."""

import random
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.dispatch.driving import COMPILED, SQUARE, WIDE, make_preset
from tpu_ui.dispatch.costs import Cost
from tpu_ui.dispatch.interface import Queued
from tpu_ui.dispatch.jobs import Job, Target
from tpu_ui.dispatch.state import WorkerState
from tpu_ui.dispatch.turns import Turns
from tpu_ui.presets import Preset
from tpu_ui.request import GenerationRequest

TARGET = Target("demo", COMPILED, SQUARE)
COLD = Target("demo", COMPILED, WIDE)
REQUEST = GenerationRequest("a hill", "", "demo", COMPILED, SQUARE, 2, 4.0, 7, 1)


def job_of(visitor: str) -> Job:
    return Job(TARGET, REQUEST, visitor=visitor)


def served(turns: Turns) -> list[str]:
    """The visitors in the order in which they are served, until nobody waits."""
    order = []
    while (job := next(iter(turns), None)) is not None:
        turns.take(job)
        order.append(job.visitor)
    return order


def test_fifty_jobs_of_one_visitor_hold_up_another_by_one() -> None:
    turns = Turns()
    for _ in range(50):
        turns.add(job_of("greedy"))
    turns.add(job_of("modest"))
    turns.add(job_of("third"))
    assert served(turns)[:4] == ["greedy", "modest", "third", "greedy"]


def test_visitor_who_asks_one_by_one_waits_for_one_job_of_the_other() -> None:
    turns = Turns()
    for _ in range(20):
        turns.add(job_of("greedy"))
    order = []
    for _ in range(10):
        turns.add(job_of("modest"))
        for _ in range(2):
            job = next(iter(turns))
            turns.take(job)
            order.append(job.visitor)
    assert order == ["greedy", "modest"] * 10


def test_stream_of_new_visitors_does_not_starve_an_old_one() -> None:
    turns = Turns()
    old = [job_of("old") for _ in range(3)]
    for job in old:
        turns.add(job)
    order = []
    for number in range(40):
        turns.add(job_of(f"new {number}"))
        turns.add(job_of(f"newer {number}"))
        job = next(iter(turns))
        turns.take(job)
        order.append(job.visitor)
    assert order.count("old") == 3


@given(st.lists(st.sampled_from("abcd"), max_size=40), st.integers(0, 2**32))
def test_every_job_is_served_once_and_each_visitors_own_in_order(
    visitors: list[str], seed: int
) -> None:
    turns, chance = Turns(), random.Random(seed)
    jobs = [job_of(visitor) for visitor in visitors]
    taken: list[Job] = []
    for job in jobs:
        turns.add(job)
        if chance.random() < 0.3:
            taken.append(next(iter(turns)))
            turns.take(taken[-1])
    while (job := next(iter(turns), None)) is not None:
        turns.take(job)
        taken.append(job)
    assert Counter(job.id for job in taken) == Counter(job.id for job in jobs)
    for visitor in "abcd":
        own = [job.id for job in taken if job.visitor == visitor]
        assert own == [job.id for job in jobs if job.visitor == visitor]


@given(st.lists(st.integers(1, 12), min_size=2, max_size=8))
def test_nobody_is_served_twice_before_all_who_wait_were_served_once(counts: list[int]) -> None:
    turns = Turns()
    for visitor, count in enumerate(counts):
        for _ in range(count):
            turns.add(job_of(str(visitor)))
    order, left = served(turns), dict(enumerate(counts))
    while left:
        this_round, order = order[: len(left)], order[len(left) :]
        assert sorted(this_round) == sorted(map(str, left))
        left = {visitor: count - 1 for visitor, count in left.items() if count > 1}
    assert order == []


def test_warm_up_takes_a_turn_and_one_nobody_asked_for_is_last() -> None:
    turns = Turns()
    background, asked = Job(TARGET, background=True), Job(TARGET)
    turns.add_background([background])
    mine, later = job_of("me"), job_of("me")
    for job in (mine, later, asked):
        turns.add(job)
    assert list(turns) == [mine, asked, later, background]


def test_job_that_nobody_could_take_is_next_again() -> None:
    turns = Turns()
    first, second, other = job_of("a"), job_of("a"), job_of("b")
    for job in (first, second, other):
        turns.add(job)
    turns.take(first)
    assert next(iter(turns)) is other
    turns.add_first(first)
    assert list(turns) == [first, other, second]
    assert first in turns
    turns.drop(first)
    assert first not in turns


def abandoned(visitor: str) -> Job:
    """Somebody has listened, and has gone."""
    job = Job(TARGET, REQUEST, visitor=visitor, kept=False)
    job.record(Queued(job.id, 0))
    listener = job.follow()
    next(listener)
    listener.close()  # type: ignore[attr-defined]
    assert job.abandoned
    return job


def worker(preset: Preset, *, settled: bool, warmed: Target | None = None) -> WorkerState:
    known = {} if warmed is None else {warmed: Cost(1.0, 1)}
    return WorkerState(0, preset, loaded=True, settled=settled, warmed=known)


def test_what_is_cold_is_foreseen_after_the_warm_ups_of_the_start(tmp_path: Path) -> None:
    preset = make_preset(tmp_path)
    turns = Turns()
    start_up = Job(COLD, background=True)
    cold, ready, asked = Job(COLD, REQUEST), job_of("a"), Job(TARGET)
    for job in (cold, ready, asked):
        turns.add(job)
    turns.add_background([start_up])
    states = [worker(preset, settled=False, warmed=TARGET)]
    assert turns.foreseen(states) == [ready, asked, start_up, cold]
    states.append(worker(preset, settled=True))
    assert turns.foreseen(states) == [cold, ready, asked, start_up]


def test_whose_caller_has_gone_is_not_foreseen_and_costs_the_visitor_no_turn() -> None:
    turns = Turns()
    left, own, other, last = abandoned("a"), job_of("a"), job_of("b"), job_of("b")
    for job in (left, own, other, last):
        turns.add(job)
    assert turns.foreseen([]) == [own, other, last]
    turns.drop(left)
    assert served(turns) == ["a", "b", "b"]
