"""The ids of A2A lead back to their task."""

from __future__ import annotations

from gateway.a2a import ids


def test_a_tasks_runs_lead_back_to_it() -> None:
    task_id = ids.new_task_id()
    later = ids.later_run_id(task_id, 2)
    assert later != task_id
    assert ids.task_of_run(task_id) == ids.task_of_run(later) == task_id


def test_a_run_of_another_protocol_is_a_task_of_its_own() -> None:
    assert ids.task_of_run("run_1_2") == "run_1_2"


def test_a_key_gives_the_same_id_every_time() -> None:
    assert ids.new_task_id("once") == ids.new_task_id("once")
    assert ids.new_task_id("once") != ids.new_task_id("twice")
    assert len(ids.new_task_id("once")) == len(ids.new_task_id())
    assert ids.new_task_id() != ids.new_task_id()
    assert ids.new_context_id().startswith("ctx_")
