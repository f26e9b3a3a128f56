"""How many may wait on jobs, and how often they are told. Figures alone."""

# Everything that waits on a job shares this id and limit. The dispatcher has the real queue: a
# worker runs one job at a time, whatever happens here. These handlers only listen, so the limit is
# high on purpose: with Gradio's usual limit of 1 the second visitor would stand in Gradio's queue,
# where nobody can tell her how many jobs are before hers, and where none of them can be cancelled.
JOB_CONCURRENCY_ID = "device"
JOB_LISTENERS = 96

# Each answer that is streamed costs server, client and page some milliseconds, on two cores beside
# the worker's: for a page as many as an eye follows, for a program as many as it may want to log.
PROGRESS_S = 0.25
ANSWER_S = 1.0

# A program that went away while its job waits is noticed by the next answer that it does not take.
REPEAT_S = 2.0
