"""What strangers write is words to the page, wherever it stands: nothing runs, nothing is loaded, no link does harm."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Request, expect

from tests.page.hostile_payloads import DECEPTIONS, PAYLOADS
from tests.page_browser import DEMONSTRATION, Screen, file, shown_page
from tests.running_gateway import agent, run_body, scripted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]

# Everything that is ever put into the page is looked at when it comes, also what goes again at once.
WATCH = """
    window.stolen = [];
    window.steal = () => window.stolen.push(new Error().stack);
    for (const name of ["alert", "confirm", "prompt", "print", "open"]) window[name] = window.steal;
    window.suspects = [];
    window.elements = 0;
    const harmless = ["data:image/png;base64,", "http:", "https:", "mailto:"];
    const forbidden = "script, style, iframe, frame, object, embed, base, meta, link, video, audio, source, track,"
        + " area, map, math, marquee, template, noscript, foreignObject, image, use, animate, set";
    function look(element) {
        window.elements++;
        if (element.matches(forbidden)) window.suspects.push(element.outerHTML);
        for (const { name, value } of element.attributes) {
            const address = ["href", "src", "srcset", "action", "formaction", "data", "ping", "background", "poster"];
            if (name.startsWith("on") || name === "style" || name === "ping") window.suspects.push(element.outerHTML);
            if (address.includes(name) && element.localName === "img" && !value.startsWith(harmless[0]))
                window.suspects.push(element.outerHTML);
            if (address.includes(name) && !harmless.some((each) => element[name]?.startsWith?.(each)))
                window.suspects.push(element.outerHTML);
        }
    }
    document.addEventListener("DOMContentLoaded", () => {
        new MutationObserver((records) => {
            for (const { addedNodes, target, type } of records) {
                if (type === "attributes") look(target);
                for (const node of addedNodes)
                    if (node.nodeType === 1) [node, ...node.querySelectorAll("*")].forEach(look);
            }
        }).observe(document.body, { subtree: true, childList: true, attributes: true });
    });
"""
TOOLS = """
async def echo(text: str) -> str:
    "Say it again."
    return text


async def fail(text: str) -> str:
    "Fail with it."
    raise RuntimeError(text)
"""
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


async def expect_unharmed(screen: Screen, least_elements: int) -> None:
    """Nothing happened, and nothing that could do harm was ever on the page. (The screen looks at the requests.)"""
    assert await screen.evaluate("window.elements") >= least_elements, "what is looked for has to have been seen"
    assert await screen.evaluate("window.stolen") == []
    assert await screen.evaluate("window.suspects") == []
    assert await screen.violations() == ["script-src eval"]


async def test_there_are_enough_attacks_and_the_watch_sees_them(browser: Browser, tmp_path: Path) -> None:
    assert len(set(PAYLOADS)) >= 90
    html = "<a href=javascript:steal()>x</a><img src=x><svg onload=steal()></svg>"
    async with shown_page(browser, tmp_path, script=WATCH, expected=["404", "Security Policy"]) as screen:
        await screen.evaluate("(html) => document.body.insertAdjacentHTML('beforeend', html)", html)
        assert len(await screen.evaluate("window.suspects")) == 3


async def test_words_and_reasoning_that_stream_are_words(browser: Browser, tmp_path: Path) -> None:
    """In pieces of two characters, so that each attack is there in every stage of its becoming."""
    steps = [step for text in PAYLOADS for step in ({"reasoning": text}, {"text": text})]
    talker = agent("talker", scripted(steps, chunk_characters=2, switch_every_delta=True))
    async with shown_page(browser, tmp_path, [talker], script=WATCH) as screen:
        await screen.ask("Attack")
        await expect(screen.answers.last).to_contain_text("onerror")
        for each in await screen.page.get_by_test_id("reasoning").get_by_role("button").all():
            await each.click()
        await expect_unharmed(screen, 2 * len(PAYLOADS))


async def test_a_thread_that_is_read_again_is_words(browser: Browser, tmp_path: Path) -> None:
    """Questions and answers, each attack by itself."""
    talker = agent("talker", scripted([{"text": "Well."}]))
    async with shown_page(browser, tmp_path, [talker], script=WATCH) as screen:
        assert screen.gateway is not None
        for start in range(0, len(PAYLOADS), 25):
            messages = [
                {"id": f"{role}-{number}", "role": role, "content": text}
                for number, text in enumerate(PAYLOADS[start : start + 25])
                for role in ("user", "assistant")
            ]
            body = run_body(
                thread_id=f"t{start}", run_id=f"r{start}", messages=[*messages, messages[0] | {"id": "last"}]
            )
            await screen.gateway.client.run("talker", body)
        for start in range(0, len(PAYLOADS), 25):
            await screen.evaluate("(id) => sessionStorage.setItem('agui-thread', id)", f"t{start}")
            await screen.page.reload()
            await expect(screen.answers.last).to_have_text("Well.")
            await expect(screen.answers).to_have_count(min(25, len(PAYLOADS) - start) + 1)
            await expect_unharmed(screen, 100)


async def test_titles_are_words(browser: Browser, tmp_path: Path) -> None:
    """Those that a first message gives and those that a person does, in the list and in the questions about them."""
    talker = agent("talker", scripted([{"text": "Well."}]))
    async with shown_page(browser, tmp_path, [talker], script=WATCH) as screen:
        assert screen.gateway is not None
        client = screen.gateway.client
        for number, text in enumerate(PAYLOADS[:25]):
            await client.run("talker", run_body(text, thread_id=f"t{number}", run_id=f"r{number}"))
        for start in range(0, len(PAYLOADS), 25):
            for number, text in enumerate(PAYLOADS[start : start + 25] if start else ()):
                patched = await client.http.patch(f"/threads/t{number}", json={"title": text[:200]})
                assert patched.status_code == 204
            await screen.page.reload()
            await expect(screen.threads.get_by_role("listitem")).to_have_count(25)
            await screen.threads.get_by_role("listitem").first.hover()
            await screen.threads.get_by_role("button", name=re.compile("^Delete")).first.click()
            await screen.threads.get_by_role("group").get_by_role("button", name="Cancel").click()
            await expect_unharmed(screen, 25)


async def test_tool_cards_are_words(browser: Browser, tmp_path: Path) -> None:
    """Names, arguments, results and errors, of the gateway's tools and of tools that nobody has."""
    (tmp_path / "hostile_tools.py").write_text(TOOLS, "utf-8")
    calls: list[Mapping[str, Any]] = []
    for text in PAYLOADS:
        calls += [
            {"tool": "echo", "arguments": {"text": text}},
            {"tool": "fail", "arguments": {"text": text}},
            {"tool": text.replace("\n", " ")[:60], "arguments": {text: text}},
        ]
    batches = [calls[start : start + 45] for start in range(0, len(calls), 45)]
    rules = [
        {"when": {"last_user_contains": f"batch {number:02}", "turn": 0}, "response": batch}
        for number, batch in enumerate(batches)
    ]
    told = [{"when": {"turn": 1}, "response": [{"text": "Done."}]}]
    names = [
        {"type": "PythonTool", "name": each, "parameters": {"function": f"hostile_tools:{each}"}}
        for each in ("echo", "fail")
    ]
    talker = agent(
        "talker", scripted(rules=rules + told), tools=names, parameters={"max_tool_calls": 50, "max_repeated_calls": 50}
    )
    async with shown_page(browser, tmp_path, [talker], script=WATCH) as screen:
        for number, batch in enumerate(batches):
            await screen.button("New conversation").first.click()
            await screen.ask(f"batch {number:02}")
            cards = screen.page.get_by_test_id("tool-card")
            await expect(cards).to_have_count(len(batch))
            await screen.evaluate("document.querySelectorAll('.agui-call-head').forEach((each) => each.click())")
            await expect(screen.page.locator("pre.agui-json")).to_have_count(2 * len(batch))
        await expect_unharmed(screen, 10 * len(calls))


async def test_file_names_are_words(browser: Browser, tmp_path: Path) -> None:
    talker = agent("talker", scripted([{"text": "Thanks."}]))
    async with shown_page(browser, tmp_path, [talker], script=WATCH) as screen:
        for start in range(0, len(PAYLOADS), 20):
            files = []
            for text in PAYLOADS[start : start + 20]:
                name = text.replace("/", "\u2215").replace("\n", " ").replace("\x01", "")
                files += [
                    file(f"{name}.png", "image/png", PIXEL),
                    file(f"{name}.txt", "text/plain", b"x"),
                    file(name, "x/y", b"x"),
                ]
            await screen.page.get_by_test_id("file-input").set_input_files(files)
            await expect(screen.page.locator(".agui-composer .agui-chip")).to_have_count(len(files) * 2 // 3)
            await expect(screen.page.locator(".agui-refused")).to_contain_text("cannot be sent")
            await screen.ask(f"Look {start}")
            await expect(screen.page.locator(".agui-sent-image")).to_have_count(min(start + 20, len(PAYLOADS)))
        await screen.page.reload()
        await expect(screen.page.locator(".agui-sent-image").first).to_be_attached()
        await expect_unharmed(screen, len(PAYLOADS))


async def test_the_shared_state_is_words(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, script=WATCH) as screen:
        assert screen.gateway is not None
        shapes: list[Any] = [shape for text in PAYLOADS for shape in (text, {"text": text}, {text: text}, [text])]
        body = run_body("hello", thread_id="t1", state={"list": shapes, PAYLOADS[0]: PAYLOADS[1]})
        await screen.gateway.client.run("assistant", body)
        await screen.evaluate("sessionStorage.setItem('agui-thread', 't1')")
        await screen.page.reload()
        await expect(screen.page.get_by_test_id("shared_list").get_by_role("listitem")).to_have_count(len(shapes))
        await expect_unharmed(screen, len(shapes))


async def test_what_a_person_is_asked_is_words(browser: Browser, tmp_path: Path) -> None:
    """Approvals and dialogs: what is asked could try to answer in the person's place."""
    asked = PAYLOADS[::6]
    refunds = [{"tool": "refund", "arguments": {"order_id": text, "amount": 1}} for text in asked]
    dialogs = [{"tool": "confirm", "arguments": {"question": text}} for text in asked]
    rules = [
        {"when": {"last_user_contains": "money", "turn": 0}, "response": refunds},
        {"when": {"last_user_contains": "dialogs", "turn": 0}, "response": dialogs},
        {"when": {"turn": 1}, "response": [{"text": "Done."}]},
    ]
    asker = {**DEMONSTRATION, "model": scripted(rules=rules)}
    async with shown_page(browser, tmp_path, [asker], script=WATCH) as screen:
        await screen.say("dialogs")
        for text in asked:
            dialog = screen.page.get_by_role("dialog")
            await expect(dialog.locator(".page-question")).to_have_text(text.replace("\x01", "U+0001"))
            await dialog.get_by_role("button", name="Yes").click()
        await expect(screen.answers).to_have_text("Done.")
        await screen.say("money")
        await expect(screen.button("Approve")).to_have_count(len(asked))
        for text, each in zip(asked, await screen.page.get_by_label("Order id").all(), strict=True):
            assert (await each.input_value()).split() == text.split()
        for _ in asked:
            await screen.button("Deny").first.click()
        await screen.expect_idle()
        await expect(screen.card("refund")).to_have_count(len(asked))
        await expect_unharmed(screen, 10 * len(asked))


# --- what reads otherwise than it is

# Prose keeps what its letters need; everywhere else nothing is left that turns text around or cannot be seen.
UNSEEN = r"""
    [...document.body.querySelectorAll("*")].flatMap((element) => [
        ...[...element.childNodes].filter(({ nodeType }) => nodeType === 3).map(({ data }) => data),
        ...["aria-label", "title"].map((name) => element.getAttribute(name) ?? ""),
    ]).filter((text) => /[\u200b-\u200f\u202a-\u202e\u2060-\u2069\u3164\ufeff\x00-\x08\u{e0000}-\u{e0fff}]/u.test(text))
"""


async def test_what_is_approved_is_what_was_shown_and_nothing_of_it_is_hidden(browser: Browser, tmp_path: Path) -> None:
    refunds = [{"tool": "refund", "arguments": {"order_id": text, "amount": 1}} for text in DECEPTIONS]
    rules = [
        {"when": {"turn": 0}, "response": refunds},
        {"when": {"turn": 1}, "response": [{"text": "Done."}]},
    ]
    asker = {**DEMONSTRATION, "model": scripted(rules=rules)}
    sent: list[dict[str, Any]] = []
    async with shown_page(browser, tmp_path, [asker]) as screen:

        def note(request: Request) -> None:
            if request.url.endswith("/run"):
                sent.append(json.loads(request.post_data or "{}"))

        screen.page.on("request", note)
        await screen.say("money")
        cards = screen.page.get_by_role("group", name="Approval needed")
        await expect(cards).to_have_count(len(DECEPTIONS))
        for card, (text, shown) in zip(await cards.all(), DECEPTIONS.items(), strict=True):
            order = card.get_by_label("Order id")
            assert await order.input_value() == text
            await expect(order).to_have_accessible_description(re.compile("cannot be seen"))
            await expect(card.locator(".agui-unseen pre")).to_have_text(shown)
        assert await screen.evaluate(UNSEEN) == []
        await screen.expect_accessible("values with marks")

        await cards.first.get_by_label("Order id").fill("4321")
        await expect(cards.first.locator(".agui-unseen")).to_have_count(0)
        for card in await cards.all():
            await card.get_by_role("button", name="Approve").click()
        await expect(screen.answers).to_have_text("Done.")
        assert [answer["payload"] for answer in sent[-1]["resume"]] == [
            {"approved": True, "editedArgs": {"order_id": "4321", "amount": 1}},
            *[{"approved": True}] * (len(DECEPTIONS) - 1),
        ]
        await screen.evaluate("document.querySelectorAll('.agui-call-head').forEach((each) => each.click())")
        results = screen.page.locator("pre.agui-json").filter(has_text="refunded")
        await expect(results).to_have_count(len(DECEPTIONS))
        for result, ran in zip(await results.all(), ["4321", *list(DECEPTIONS.values())[1:]], strict=True):
            await expect(result).to_contain_text(ran.replace("U+0008", "\\b"))  # as JSON writes it
        assert await screen.evaluate(UNSEEN) == []


async def test_nothing_is_hidden_in_names_files_lists_titles_links_and_code(browser: Browser, tmp_path: Path) -> None:
    deceptions = [text for text in DECEPTIONS if "\x08" not in text]
    calls = [{"tool": f"tool{text}", "arguments": {f"name{text}": text}} for text in deceptions]
    links = " ".join(f"[bank.example/{text}](https://evil.example) `{text}`" for text in deceptions)
    rules = [
        {"when": {"last_user_contains": "call", "turn": 0}, "response": calls},
        {"when": {"last_user_contains": "link", "turn": 0}, "response": [{"text": links}]},
        {"when": {}, "response": [{"text": "Done."}]},
    ]
    talker = agent("talker", scripted(rules=rules), parameters={"max_tool_calls": 50})
    async with shown_page(browser, tmp_path, [talker]) as screen:
        await screen.ask("call\u202e them")
        await screen.ask("link them")
        await expect(screen.answers.last.get_by_role("link")).to_have_text(
            [f"bank.example/{DECEPTIONS[text]} (evil.example)" for text in deceptions]
        )
        await screen.evaluate("document.querySelectorAll('.agui-call-head').forEach((each) => each.click())")
        await expect(screen.page.locator(".agui-call-name")).to_have_text(
            [f"tool{DECEPTIONS[text]}" for text in deceptions]
        )
        files = [file(f"cv{text}fdp.txt", "text/plain", b"x") for text in deceptions]
        await screen.page.get_by_test_id("file-input").set_input_files([*files, file("x\u202egpj.exe", "x/y", b"x")])
        await expect(screen.page.locator(".agui-refused")).to_contain_text("x[U+202E]gpj.exe")
        assert screen.gateway is not None
        body = run_body("hello", thread_id="t1", state={"list": deceptions})
        await screen.gateway.client.run("talker", body)
        await screen.ask("Look")
        await expect(screen.threads.get_by_role("listitem").filter(has_text="callU+202E them")).to_be_visible()
        said = ["call\u202e them"]  # a person's own words, in which nothing is marked
        assert await screen.evaluate(UNSEEN) == said
        await screen.evaluate("sessionStorage.setItem('agui-thread', 't1')")
        await screen.page.reload()
        await expect(screen.page.get_by_test_id("shared_list").get_by_role("listitem")).to_have_count(len(deceptions))
        assert await screen.evaluate(UNSEEN) == []


async def test_a_value_turns_none_of_its_neighbours_around(browser: Browser, tmp_path: Path) -> None:
    """Letters that run from right to left take numbers and signs beside them along, unless each value is isolated."""
    calls = [{"tool": "pay", "arguments": {"\u05e9\u05dd": "\u05d0\u05d1", "n": 12, "m": "34"}}]
    rules = [{"when": {"turn": 0}, "response": calls}, {"when": {}, "response": [{"text": "Done."}]}]
    where = """
        [...document.querySelectorAll(".agui-call-preview bdi, pre.agui-json bdi")].map((element) =>
            Math.round(element.getBoundingClientRect().left))
    """
    async with shown_page(browser, tmp_path, [agent("talker", scripted(rules=rules))]) as screen:
        await screen.ask("pay")
        await screen.evaluate("document.querySelectorAll('.agui-call-head').forEach((each) => each.click())")
        await expect(screen.page.locator("pre.agui-json").first).to_be_visible()
        places = await screen.evaluate(where)
    assert len(places) == 5
    assert places[:3] == sorted(places[:3])  # \u05d0\u05d1 · 12 · 34
    assert places[3:] == sorted(places[3:])  # "\u05e9\u05dd": "\u05d0\u05d1"
