"""Claims about the record of a job."""

import threading

from tests.dispatch.driving import COMPILED, SQUARE, in_time
from tpu_ui.dispatch.interface import Queued
from tpu_ui.dispatch.jobs import Job, JobBook, Target, worst
from tpu_ui.protocol import Cancelled, Failed, Finished, Stepped

TARGET = Target("demo", COMPILED, SQUARE)


def test_first_ending_stands_and_nothing_follows_it() -> None:
    job = Job(TARGET)
    assert job.record(Queued(job.id, 0))
    assert job.record(Finished(job.id))
    assert not job.record(Cancelled(job.id))
    assert not job.record(Queued(job.id, 1))
    assert list(job.follow()) == [Queued(job.id, 0), Finished(job.id)]
    assert job.ending == Finished(job.id)


def test_many_threads_that_end_a_job_end_it_once() -> None:
    job = Job(TARGET)
    taken: list[bool] = []
    start = threading.Barrier(8)

    def end() -> None:
        start.wait()
        taken.append(job.record(Cancelled(job.id)))

    threads = [threading.Thread(target=end) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert taken.count(True) == 1


def test_listener_hears_what_comes_while_it_waits() -> None:
    job = Job(TARGET)
    threading.Timer(0.05, job.record, [Finished(job.id)]).start()
    assert in_time(lambda: list(job.follow())) == [Finished(job.id)]


def test_paced_listener_hears_the_newest_step_and_all_else_at_once() -> None:
    job = Job(TARGET)
    first, other = Queued(job.id, 0), Queued(job.id, 1)
    for update in (first, stepped(job, 1), stepped(job, 2), other, stepped(job, 3)):
        job.record(update)
    listener = job.follow(pace_s=30.0)
    heard = [next(listener) for _ in range(3)]
    assert heard == [first, other, stepped(job, 3)]
    job.record(stepped(job, 4))
    threading.Timer(0.05, job.record, [Finished(job.id)]).start()
    assert in_time(lambda: list(listener)) == [Finished(job.id)], "it waited, or told step 4"
    assert len(list(job.follow())) == 7, "without a pace nothing is left out"


def stepped(job: Job, step: int, preview: bytes = b"") -> Stepped:
    return Stepped(job.id, 1, 1, step, 30, None, preview)


def test_only_the_newest_preview_is_kept() -> None:
    job = Job(TARGET)
    for step in range(1, 4):
        job.record(stepped(job, step, b"%d" % step))
    job.record(stepped(job, 4))
    assert previews_of(job) == [b"", b"", b"3", b""]
    job.record(Finished(job.id))
    assert previews_of(job) == [b""] * 4


def previews_of(job: Job) -> list[bytes]:
    return [update.preview for update in job.recorded() if isinstance(update, Stepped)]


def test_paced_listener_sees_the_newest_preview_though_its_step_was_overtaken() -> None:
    job = Job(TARGET)
    for step, preview in ((1, b"one"), (2, b"two"), (3, b"")):
        job.record(stepped(job, step, preview))
    assert next(job.follow(pace_s=30.0)) == stepped(job, 3, b"two")


def test_ids_cannot_be_guessed() -> None:
    ids = {Job(TARGET).id for _ in range(100)}
    assert len(ids) == 100
    assert {len(job) for job in ids} == {32}


def test_only_the_oldest_ended_jobs_are_forgotten() -> None:
    book = JobBook(kept=3)
    running = Job(TARGET)
    book.add(running)
    ended = [Job(TARGET) for _ in range(6)]
    for job in ended:
        job.record(Finished(job.id))
        book.add(job)
    kept = [job for job in ended if book.get(job.id)]
    assert kept == ended[3:]
    assert book.get(running.id) is running


def test_warm_up_of_several_workers_ends_as_its_worst_part() -> None:
    failed = Failed("j", "RuntimeError", "why")
    assert worst([Finished("j"), failed, Cancelled("j")]) is failed
    assert worst([Finished("j"), Cancelled("j")]) == Cancelled("j")
    assert worst([Finished("j"), Finished("j")]) == Finished("j")
