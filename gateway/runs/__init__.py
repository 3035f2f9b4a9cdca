"""A run from its begin to its end, with everything that may happen to it in between.

driver.py        begins runs, follows their loops, stores and shows events, ends runs
beginnings.py    calls the listeners of a thread when a run begins on it
live_run.py      a running run: its numbered events
phases.py        the phases of a run as one table
audience.py      a run's viewers, and how long it waits for one
viewer.py        one reader of a run's events
paced_viewer.py  a log with the pauses that it was stored with
thread_queue.py  one run at a time on each thread; the others wait in line
thread_versions.py lists, chooses, deletes and forks a thread's versions
thread_points.py finds the point at which a run left its thread, and the run's messages
thread_writes.py writes threads outside a run
intake.py        takes a request's input into its thread
waiting_input.py the part of a waiting run's input that its record stores
approvals.py     matches a request's answers with open interrupts
second_tries.py  recognises a repeated request whose run failed after its results or answers were stored
run_terms.py     combines an agent's definition with a request's options
limits.py        limits of a new run's input
ids.py           finds the stored run for a client's run id
endings.py       the records that a run's begin and end store
recovery.py      ends or continues the unfinished runs of an earlier process
replay.py        shows a finished run from its log
removal.py       deletes threads, here and at their providers
counts.py        counts a finished run in the metrics
run_trace.py     the span of a run
"""
