"""The part of the table of requests about what all paths share: methods, bodies, parameters of the URL, searches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.ml_commons.oracle_ask import Ask, P

_AGENTS: Final = f"{P}/agents"


def http_requests() -> Iterator[Ask]:
    """All of them. They want the agent `chat`."""
    yield Ask("root: info", "GET", "/", headers={"accept": "application/json"})
    yield from _paths()
    yield from _bodies()
    yield from _parameters()
    yield from _searches()


def _paths() -> Iterator[Ask]:
    yield Ask("paths: an unknown one", "GET", f"{P}/nosuch")
    yield Ask("paths: connectors", "GET", f"{P}/connectors/nope")
    yield Ask("paths: models", "GET", f"{P}/models/nope")
    yield Ask("paths: an index", "GET", "/nosuch/_search")
    yield Ask("paths: a slash more", "GET", f"{_AGENTS}/{{chat}}/")
    yield Ask("paths: an opaque id", "GET", f"{_AGENTS}/{{chat}}?filter_path=name", headers={"x-opaque-id": "mine"})
    yield Ask("paths: HEAD", "HEAD", f"{_AGENTS}/{{chat}}")
    yield Ask("paths: OPTIONS", "OPTIONS", f"{_AGENTS}/{{chat}}")
    yield Ask("paths: a wrong method", "POST", f"{_AGENTS}/{{chat}}", {})
    yield Ask("paths: GET on create", "GET", f"{P}/memory_containers/_create")
    yield Ask("paths: PUT on register", "PUT", f"{_AGENTS}/_register", {})
    yield Ask("paths: a wrong method of execute", "GET", f"{_AGENTS}/{{chat}}/_execute")
    yield Ask("paths: an unknown method", "PATCH", f"{_AGENTS}/{{chat}}", {})


def _bodies() -> Iterator[Ask]:
    register = f"{_AGENTS}/_register"
    execute = f"{_AGENTS}/{{chat}}/_execute"
    yield Ask("bodies: not JSON", "POST", register, raw='{"name": ')
    yield Ask("bodies: not JSON on execute", "POST", execute, raw='{"input": ')
    yield Ask("bodies: not JSON on a search", "POST", f"{_AGENTS}/_search", raw='{"query": ')
    yield Ask("bodies: not JSON on a memory", "POST", f"{P}/memory", raw='{"name": ')
    yield Ask("bodies: not JSON on a container", "POST", f"{P}/memory_containers/_create", raw='{"name": ')
    yield Ask("bodies: a member twice", "POST", f"{P}/memory", raw='{"name": "a", "name": "b"}')
    yield Ask("bodies: more than one", "POST", f"{P}/memory", raw='{"name": "a"} {"name": "b"}')
    plain, typeless, charset = (
        {"content-type": each} for each in ("text/plain", "", "application/json; charset=utf-8")
    )
    yield Ask("bodies: of a text's type", "POST", f"{P}/memory", {"name": "a"}, headers=plain)
    yield Ask("bodies: of no type", "POST", f"{P}/memory", {"name": "a"}, headers=typeless)
    yield Ask("bodies: with a charset", "POST", f"{P}/memory", {"name": "a"}, headers=charset)
    yaml = {"content-type": "application/yaml"}
    yield Ask("bodies: of YAML", "POST", f"{P}/memory", raw="name: a\n", headers=yaml)
    yield Ask("bodies: a comment in JSON", "POST", f"{P}/memory", raw='{"name": "a" /* why */}')


def _parameters() -> Iterator[Ask]:
    agent = f"{_AGENTS}/{{chat}}"
    yield Ask("parameters: an unknown one", "GET", f"{agent}?nonsense=1")
    yield Ask("parameters: two unknown ones", "GET", f"{agent}?nonsense=1&unheard=2")
    yield Ask("parameters: one much like another", "GET", f"{agent}?prety")
    yield Ask("parameters: an unknown one on execute", "POST", f"{agent}/_execute?nonsense=1", {"input": "hello"})
    yield Ask("parameters: an unknown one on a stream", "POST", f"{agent}/_execute/stream?nonsense=1", {"input": "a"})
    yield Ask("parameters: an unknown one on a memory", "GET", f"{P}/memory?nonsense=1")
    yield Ask("parameters: pretty", "GET", f"{agent}?pretty&filter_path=name,type")
    yield Ask("parameters: filter_path", "GET", f"{agent}?filter_path=name,tools.type")
    yield Ask("parameters: filter_path of an error", "GET", f"{_AGENTS}/nope?filter_path=status")
    yield Ask("parameters: filter_path of nothing", "GET", f"{agent}?filter_path=nosuch")
    yield Ask("parameters: filter_path on execute", "POST", f"{agent}/_execute?filter_path=**.name", {"input": "hello"})
    yield Ask("parameters: human", "GET", f"{agent}?human&filter_path=name")
    yield Ask("parameters: format", "GET", f"{agent}?format=yaml&filter_path=name")
    yield Ask("parameters: error_trace", "GET", f"{_AGENTS}/nope?error_trace=true&filter_path=**.reason,status")
    yield Ask("parameters: pretty as a text", "GET", f"{agent}?pretty=perhaps")
    yield Ask("parameters: human as a text", "GET", f"{agent}?human=perhaps")
    yield Ask("parameters: pretty without a value", "GET", f"{agent}?pretty=&filter_path=name")
    yield Ask("parameters: pretty in capitals", "GET", f"{agent}?pretty=TRUE&filter_path=name")
    yield Ask("parameters: flat_settings as a text", "GET", "/_cluster/settings?flat_settings=perhaps")
    yield Ask("parameters: async as a text", "POST", f"{agent}/_execute?async=perhaps", {"input": "hello"})
    yield Ask("parameters: a search by q", "GET", f"{_AGENTS}/_search?q=name:Chat&filter_path=hits.hits._source.name")
    yield Ask("parameters: a search of a size", "GET", f"{_AGENTS}/_search?size=1")


def _searches() -> Iterator[Ask]:
    def found(name: str, body: Any, of: str = "agents", method: str = "POST") -> Ask:
        return Ask(f"searches: {name}", method, f"{P}/{of}/_search", body)

    chats = {"match": {"name": "Chat"}}
    yield found("no body", None)
    yield Ask("searches: an empty body", "POST", f"{_AGENTS}/_search?filter_path=timed_out,hits.total.relation", {})
    yield found("a term of a text", {"query": {"term": {"name": "Chat"}}})
    yield found("a keyword", {"query": {"term": {"name.keyword": "Chat"}}})
    yield found("a type", {"query": {"term": {"type": "CONVERSATIONAL_V2"}}, "_source": ["name", "type"]})
    yield found("a member of parameters", {"query": {"term": {"parameters.x": "1"}}})
    yield found("left out members", {"query": chats, "_source": {"excludes": ["llm", "parameters", "memory", "model"]}})
    yield found("no source", {"query": chats, "_source": False})
    yield found("no hits", {"query": chats, "size": 0})
    yield found("a count", {"query": chats, "size": 0, "track_total_hits": True})
    yield found("a version", {"query": chats, "_source": ["name"], "version": True, "seq_no_primary_term": True})
    by_time = {"query": chats, "sort": [{"created_time": "asc"}]}
    yield Ask("searches: a sort", "POST", f"{_AGENTS}/_search?filter_path=hits.hits._source.name", by_time)
    yield found("a sort by an unknown field", {"query": chats, "_source": ["name"], "sort": ["nosuch"]})
    yield found("a sort by a text", {"query": chats, "_source": ["name"], "sort": ["name"]})
    yield found("ids", {"query": {"ids": {"values": ["{chat}"]}}, "_source": ["name"]})
    boolean = {"bool": {"must": [chats], "must_not": [{"exists": {"field": "nosuch"}}], "filter": [{"match_all": {}}]}}
    yield found("a bool", {"query": boolean, "_source": ["name"]})
    yield found("an unknown field", {"query": {"match": {"nosuch": "x"}}})
    yield found("a prefix", {"query": {"prefix": {"name": "cha"}}, "_source": ["name"]})
    yield found("a wildcard", {"query": {"wildcard": {"name": "ch?t"}}, "_source": ["name"]})
    yield found("a range", {"query": {"range": {"created_time": {"gte": "now+1d"}}}})
    yield found("an aggregation", {"query": chats, "size": 0, "aggs": {"t": {"terms": {"field": "type"}}}})
    yield found("a highlight", {"query": chats, "_source": ["name"], "highlight": {"fields": {"name": {}}}})
    script = {"script": {"script": "1 == 1"}}
    yield found("a script", {"query": script, "_source": ["name"]})
    yield found("an explanation", {"query": chats, "_source": ["name"], "explain": True})
    yield found("an unknown member", {"query": chats, "nosuch": 1})
    yield found("a negative size", {"query": chats, "size": -2})
    yield found("a large size", {"query": chats, "size": 10_001})
    yield found("a list", ["x"])
    yield found("two queries", {"query": {"match_all": {}, "match_none": {}}})
    yield found("a memory by GET", {"query": {"match": {"name": "Whole"}}, "_source": ["name"]}, "memory", "GET")
    yield found("all memories", {"query": {"match_all": {}}, "size": 0}, "memory")
    yield found("all containers", {"query": {"match_all": {}}, "size": 0}, "memory_containers", "GET")
    yield found("all tasks", {"query": {"match_none": {}}}, "tasks", "GET")
