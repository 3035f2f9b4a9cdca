"""Words matched with tools: the tools they ask for and the arguments they hold."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gateway.demo.word_matching import match_tools
from gateway.messages import JsonObject, ToolSpec


def tool(name: str, description: str, properties: dict[str, Any], required: list[str] | None = None) -> ToolSpec:
    schema: JsonObject = {"type": "object", "properties": properties}
    schema["required"] = list(properties) if required is None else list(required)
    return ToolSpec(name, description, schema)


NUMBER = {"type": "number"}
TEXT = {"type": "string"}
TOOLS = [
    tool("add", "Add two numbers.", {"a": NUMBER, "b": NUMBER}),
    tool("refund", "Refund an amount of money to the customer of an order.", {"order_id": TEXT, "amount": NUMBER}),
    tool("add_to_list", "Add an item to the list that the user sees.", {"item": TEXT}),
    tool("changeBackground", "Change the background color of the page.", {"color": TEXT}),
    tool(
        "show_alert",
        "Show an alert to the user",
        {"message": TEXT, "level": {"type": "string", "enum": ["info", "warning", "error"]}},
        ["message"],
    ),
    tool("set_theme", "Set the theme", {"theme": {"type": "string", "enum": ["light", "dark"]}}),
    tool(
        "send_email",
        "Send an email",
        {"to": {"type": "string", "format": "email"}, "subject": TEXT, "urgent": {"type": "boolean"}},
        ["to", "subject"],
    ),
    tool(
        "get_weather",
        "Get the weather for a city",
        {"city": TEXT, "days": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        ["city"],
    ),
    tool("toggle_sidebar", "Open or close the sidebar", {"open": {"type": "boolean"}}),
    tool("navigate_to", "Go to a page", {"url": {"type": "string", "format": "uri"}}),
    tool("plot", "Plot numbers", {"values": {"type": "array", "items": NUMBER}}),
    tool("pick_sizes", "Pick sizes", {"sizes": {"type": "array", "items": {"enum": ["small", "large"]}}}),
]


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("add 2 and 3", "add", {"a": 2, "b": 3}),
        ("What is -1.5 plus 1,000?", "add", {"a": -1.5, "b": 1000}),
        ("What is 2 + 3?", "add", {"a": 2, "b": 3}),
        ("what's 2+3", "add", {"a": 2, "b": 3}),
        ("Put oat milk on my list", "add_to_list", {"item": "oat milk"}),
        ("sum of two and five", "add", {"a": 2, "b": 5}),
        ("refund 20 dollars for order A-17", "refund", {"order_id": "A-17", "amount": 20}),
        ("Refund order 1234, amount 12.50", "refund", {"order_id": "1234", "amount": 12.5}),
        ("add milk to the list", "add_to_list", {"item": "milk"}),
        ("make the background #ff8800 please", "changeBackground", {"color": "#ff8800"}),
        ("could you change the backdrop to dark green?", "changeBackground", {"color": "dark green"}),
        ('show an alert saying "Hello there"', "show_alert", {"message": "Hello there"}),
        ("show a warning alert: 'Be careful'", "show_alert", {"message": "Be careful", "level": "warning"}),
        ("switch to the dark theme", "set_theme", {"theme": "dark"}),
        ('email bob@example.com with subject "Lunch"', "send_email", {"to": "bob@example.com", "subject": "Lunch"}),
        ("what's the weather in New York City for 3 days?", "get_weather", {"city": "New York City", "days": 3}),
        ("close the sidebar", "toggle_sidebar", {"open": False}),
        ("open the sidebar", "toggle_sidebar", {"open": True}),
        ("go to https://example.com/a?b=c.", "navigate_to", {"url": "https://example.com/a?b=c"}),
        ("plot 1, 2 and 4.5", "plot", {"values": [1, 2, 4.5]}),
        ("pick the sizes small and large", "pick_sizes", {"sizes": ["small", "large"]}),
    ],
)
def test_words_choose_a_tool_and_fill_its_arguments(text: str, name: str, arguments: JsonObject) -> None:
    (match,) = match_tools(text, TOOLS)
    assert (match.spec.name, match.arguments, match.missing) == (name, arguments, ())


FORM = [
    tool("fill_form", "Fill the contact form", {"name": TEXT, "email": TEXT, "subject": TEXT}, ["name", "email"]),
    tool("send_note", "Send a note", {"recipient": TEXT, "text": TEXT}),
    tool("get_weather", "Get the weather for a city", {"city": TEXT}),
]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("Fill the form with name Ada Lovelace and email ada@x.org", {"name": "Ada Lovelace", "email": "ada@x.org"}),
        ("Fill the form: the email ada@x.org, the name is Ada", {"name": "Ada", "email": "ada@x.org"}),
        (
            "Fill the contact form, name Ada, subject Lunch on Friday, email ada@x.org",
            {"name": "Ada", "email": "ada@x.org", "subject": "Lunch on Friday"},
        ),
        ("Fill the form for Ada Lovelace, ada@x.org", {"name": "Ada Lovelace", "email": "ada@x.org"}),
        ("Send a note with recipient Bob and text hello my friend", {"recipient": "Bob", "text": "hello my friend"}),
        ("Send a note, text hello, recipient Bob Smith", {"recipient": "Bob Smith", "text": "hello"}),
        ("What is the weather for the city of Paris?", {"city": "Paris"}),
        ("What is the weather in Quebec City tomorrow?", {"city": "Quebec City tomorrow"}),
    ],
)
def test_text_behind_an_arguments_name_is_that_arguments_and_ends_at_the_next_ones(
    text: str, arguments: JsonObject
) -> None:
    [match] = match_tools(text, FORM)
    assert (match.arguments, match.missing) == (arguments, ())


@pytest.mark.parametrize("text", ["", "hello", "who are you?", "ändere was", "the of and", "???", "\n\n"])
def test_words_that_fit_no_tool_choose_none(text: str) -> None:
    assert match_tools(text, TOOLS) == []


def test_one_wish_after_the_other_is_one_match_each() -> None:
    matches = match_tools("Change the background to green, add eggs to my list and then add 1 and 2.", TOOLS)
    assert [match.spec.name for match in matches] == ["changeBackground", "add_to_list", "add"]


def test_what_is_quoted_is_not_taken_apart() -> None:
    (match,) = match_tools('show an alert saying "add 1 and add 2"', TOOLS)
    assert match.arguments == {"message": "add 1 and add 2"}


_GOODS = ["Stoneware teapot", "Copper kettle", "Sencha green tea", "Darjeeling black tea", "Linen tea towel"]


@pytest.mark.parametrize(
    ("text", "product"),
    [
        ("Put the teapot into my cart", "Stoneware teapot"),
        ("Put a copper kettle into my cart", "Copper kettle"),
        ("Put the black tea into my cart", "Darjeeling black tea"),
        ("Put tea into my cart", None),  # which?
        ("Put the towel and the kettle into my cart", None),
    ],
)
def test_a_word_that_one_choice_alone_has_names_it(text: str, product: str | None) -> None:
    cart = tool("add_to_cart", "Put something into the cart.", {"product": {"type": "string", "enum": [*_GOODS]}})
    (match,) = match_tools(text, [cart])
    assert match.arguments.get("product") == product


def test_what_is_missing_is_named() -> None:
    (match,) = match_tools("refund my order", TOOLS)
    assert match.missing == ("order_id", "amount")


def test_without_tools_there_are_no_matches() -> None:
    assert match_tools("add 2 and 3", []) == []


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": []},
        {"type": "object", "properties": {"a": True, "b": {"type": ["null", "string"]}}, "required": "a"},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a", 7, "nowhere"]},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"anyOf": []}}, "required": ["a"]},
        {"type": "object", "properties": {"": {"enum": []}}, "required": [""]},
    ],
)
def test_odd_schemas_do_no_harm(schema: JsonObject) -> None:
    (match,) = match_tools("frobnicate 1 and 2 please", [ToolSpec("frobnicate", "", schema)])
    assert match.spec.name == "frobnicate"


@pytest.mark.parametrize(
    "text", ["'" * 2000, '"a' * 1000, "add " * 500, "1," * 1000, "a" * 2000, "-" * 2000, "@." * 1000, "the text " * 300]
)
def test_odd_words_take_no_time(text: str) -> None:
    start = time.process_time()
    match_tools(text, [*TOOLS, *FORM])
    assert time.process_time() - start < 2
