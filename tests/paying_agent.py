"""What clients of a gateway that is killed ask for, and what has to be in the store afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from gateway.events import RunStarted, RunTakenOver
from gateway.messages import Message
from gateway.store import NumberedEvent, RunStatus, Store
from tests.fault_scenes import check_kept
from tests.invariants import check_thread
from tests.observed_runs import OWNER
from tests.returning_clients import AGENT, ReturningClient, words_seen
from tests.running_gateway import agent, scripted
from tests.told_runs import words

# A tool that leaves a trace outside the process: one line for each time it really ran.
TOOLS = '''
from pathlib import Path

from gateway.tool import ToolContext


async def pay(context: ToolContext) -> str:
    """Pay once."""
    with Path(__file__).with_name("trace.txt").open("a") as trace:
        trace.write(context.call_id + "\\n")
    return "paid"
'''
PAYER = agent(
    AGENT,
    scripted(
        [{"reasoning": "hm"}, {"text": "word ", "repeat": 30, "delta_seconds": 0.005}, {"tool": "pay"}],
        [{"text": "{{result}} for {{user}}", "chunk_characters": 3}],
    ),
    tools=[{"type": "PythonTool", "name": "pay", "parameters": {"function": "kill_tools:pay"}}],
    on_disconnect="continue",
    history="append",
)


GOER = {**PAYER, "on_takeover": "continue"}


async def check_client(store: Store, client: ReturningClient, *, takes_back: bool = False) -> None:
    """What its client saw begin is there, each question is on its thread once, and the log of each run is whole.
    `takes_back`: what a client saw of an answer that was cut off is gone.
    """
    begun = [asked for asked in client.asked if asked.frames]
    named = {await thread_of(store, asked.sent.run_id) for asked in begun if asked.sent.run_id}
    threads = sorted(named or {client.thread_id})
    found = [message for each in threads for message in await check_runs(store, each, goes_on=takes_back)]
    questions = [message.text for message in found if message.role == "user"]
    assert len(set(questions)) == len(questions), "no message is doubled"
    assert {asked.text for asked in begun} <= set(questions) <= {asked.text for asked in client.asked}
    for asked in begun:
        if not asked.sent.repeats and not takes_back:
            assert answer_to(asked.text, found).startswith(words_seen(asked)), "what was seen is there"


async def check_runs(store: Store, thread_id: str, *, goes_on: bool = False) -> tuple[Message, ...]:
    """The messages of a thread, after a look at each of its runs. `goes_on`: each completed, or was given
    up.
    """
    thread = await store.load_thread(OWNER, thread_id)
    assert thread is not None
    runs = (await store.list_runs(OWNER, thread_id, limit=1000, cursor=None)).items
    for run in runs:
        log = await check_kept(store, run.run_id)
        check_thread(log, thread.messages)
        if goes_on and run.status is not RunStatus.COMPLETED:
            assert is_given_up(log), run
    assert len(runs) == sum(message.role == "user" for message in thread.messages), "each question began one run"
    return thread.messages


def is_given_up(log: Sequence[NumberedEvent]) -> bool:
    """Whether the run was taken over three times, or never began: it waited for its thread."""
    first = log[0].event
    has_begun = isinstance(first, RunStarted) and first.input is not None
    return not has_begun or sum(isinstance(row.event, RunTakenOver) for row in log) == 3


async def thread_of(store: Store, run_id: str) -> str:
    run = await store.load_run(OWNER, run_id)
    assert run is not None
    return run.thread_id


def answer_to(question: str, messages: Sequence[Message]) -> str:
    """The assistant's words up to the next question."""
    behind = messages[[message.text for message in messages].index(question) + 1 :]
    answer = takewhile(lambda message: message.role != "user", behind)
    return words(" ".join(message.text for message in answer if message.role == "assistant"))
