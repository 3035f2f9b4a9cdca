"""A run from its begin to its end, with everything that may happen to it in between.

driver.py        follows an agent's loop, keeps what comes and shows it: the only place where runs begin and end
live_run.py      one run under way: its numbered events
phases.py        the phases of a run as one table
audience.py      who watches a run, and how long it waits for somebody
viewer.py        one reader of a run's events
thread_queue.py  one thread, one run at a time: who works, who waits
intake.py        what a thread becomes when a request is taken in
approvals.py     what a request's answers say about open interrupts
limits.py        how much a new run may bring
ids.py           which kept run a client's run id means
endings.py       what a run's begin and end make of the records that are kept
recovery.py      what becomes of the runs that an earlier process left behind
replay.py        a run that is over, from its log
removal.py       threads that are deleted, here and at their providers
counts.py        what a run that ended adds to the metrics
"""
