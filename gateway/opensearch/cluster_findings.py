"""What a cluster's answers about itself mean for a store.

Pure. Above: doctor, which asks. Below: indices and document_records, which say how the store's indices have to be. An
answer is None where the cluster does not give it: then there is nothing to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from gateway.messages import JsonObject, JsonValue
from gateway.opensearch.document_records import INDEX
from gateway.opensearch.indices import DOCUMENTS, MAPPINGS, SETTINGS
from gateway.store import Finding, Level


def member(value: JsonValue, *names: str) -> JsonObject:
    """The object at this place; {} if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


_SECURITY = "opensearch-security"
_SEARCHING: Final = ("opensearch-knn", "opensearch-neural-search", "opensearch-ml")
_FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {**MAPPINGS, DOCUMENTS: member(INDEX, "mappings", "properties")}
_USUAL_MAX_SHARDS = 1000
_SHARDS_EACH = 2  # one, and its replica
_FULL_SHARE = 0.9  # at 95 % the cluster closes its indices to writes
_CLOCK_SECONDS = 5.0
_BLOCKS: Final = ("read_only", "read_only_allow_delete", "write", "read", "metadata")
# What a template adds to an index that says nothing of it, and that changes documents or searches.
_UNWANTED: Final = ("index.default_pipeline", "index.final_pipeline", "index.search.default_pipeline")


def of_plugins(nodes: JsonObject | None) -> Iterator[Finding]:
    """Whether the cluster guards itself, and what a later search could use."""
    if nodes is None:
        return
    names = {
        str(plugin.get("name"))
        for node in member(nodes, "nodes").values()
        for plugin in _objects(member(node).get("plugins"))
    }
    if _SECURITY not in names:
        text = "the cluster has no security plugin: whoever reaches it may read and change the store"
        yield Finding("security", Level.WARNING, text, "let only the gateway reach the cluster, or install the plugin")
    there = [name for name in _SEARCHING if name in names]
    text = f"none is needed; for searches by meaning there would be: {', '.join(there)}" if there else "none is needed"
    yield Finding("plugins", Level.OK, text)


# --- indices


def of_indices(prefix: str, settings: JsonObject | None, mappings: JsonObject | None) -> Iterator[Finding]:
    """How the store's indices are made. Those that are not there come at the first start."""
    if settings is None:
        return
    missing = _missing(prefix, settings)
    found = [
        finding
        for name in _FIELDS
        if (index := f"{prefix}-{name}") in settings
        for finding in (
            *_of_settings(index, member(settings, index, "settings")),
            *_of_mapping(index, _FIELDS[name], member(mappings, index, "mappings", "properties")),
        )
    ]
    yield from found
    if len(missing) == len(_FIELDS):
        yield Finding("indices", Level.OK, f"there is none under '{prefix}-*'; the first start makes them")
    elif missing:
        yield Finding("indices", Level.OK, f"the next start makes those that are missing: {', '.join(missing)}")
    elif not found:
        yield Finding("indices", Level.OK, f"all that the store has are there, under '{prefix}-*'")


def _missing(prefix: str, settings: JsonObject) -> list[str]:
    return [index for name in _FIELDS if (index := f"{prefix}-{name}") not in settings]


def _of_settings(index: str, settings: JsonObject) -> Iterator[Finding]:
    durability = settings.get("index.translog.durability", "request")
    if durability != SETTINGS["translog"]["durability"]:
        text = f"{index!r} acknowledges writes before they are on the disk (translog.durability is {durability!r})"
        yield Finding("indices", Level.PROBLEM, text, _put(index, '{"index.translog.durability": "request"}'))
    interval = settings.get("index.refresh_interval")
    if interval != SETTINGS["refresh_interval"]:
        text = f"{index!r} has the refresh_interval {interval or 'of the cluster'}: lists lag, or wait"
        yield Finding("indices", Level.WARNING, text, _put(index, '{"index.refresh_interval": "1s"}'))
    shards = settings.get("index.number_of_shards")
    if shards != str(SETTINGS["number_of_shards"]):
        text = f"{index!r} has {shards} shards and not 1: versions of documents do not grow in it"
        yield Finding("indices", Level.PROBLEM, text, "export the store, and import it under another prefix")


def _put(index: str, body: str) -> str:
    return f"PUT /{index}/_settings {body}"


def _of_mapping(index: str, wanted: Mapping[str, Any], found: JsonObject) -> Iterator[Finding]:
    wrong = [
        f"{name} is {_type(member(found, name))}, not {_type(field)}"
        for name, field in wanted.items()
        if name in found and _type(member(found, name)) != _type(field)
    ]
    if wrong:
        text = f"{index!r} has another mapping: {', '.join(wrong)}"
        remedy = "delete the index if it is not the store's, or name another prefix"
        yield Finding("indices", Level.PROBLEM, text, remedy)


def _type(field: Mapping[str, Any]) -> str:
    return str(field.get("type", "object"))


def of_templates(
    prefix: str, settings: JsonObject | None, templates: JsonObject | None, older: JsonObject | None
) -> Iterator[Finding]:
    """Whether templates of others add something to indices that are still to be made."""
    missing = _missing(prefix, settings or {})
    named = [
        (str(each.get("name")), member(each, "index_template"), member(each, "index_template", "template"))
        for each in _objects((templates or {}).get("index_templates"))
    ]
    named += [(name, member(each), member(each)) for name, each in (older or {}).items()]
    adding = [
        name for name, head, content in named if _concerns(head.get("index_patterns"), missing) and _adds(content)
    ]
    if adding:
        text = f"templates change the indices that the first start makes: {', '.join(adding)}"
        remedy = f"exclude '{prefix}-*' from their index_patterns, or name another prefix"
        yield Finding("templates", Level.WARNING, text, remedy)


def _concerns(patterns: JsonValue, indices: Sequence[str]) -> bool:
    listed = patterns if isinstance(patterns, list) else []
    return any(fnmatchcase(index, str(pattern)) for pattern in listed for index in indices)


def _adds(template: JsonObject) -> bool:
    settings = _flat(member(template, "settings"))
    mappings = member(template, "mappings")
    return bool(mappings.get("properties") or mappings.get("dynamic_templates")) or any(
        name in settings or f"index.{name}" in settings for name in _UNWANTED
    )


def _flat(settings: JsonObject, above: str = "") -> dict[str, JsonValue]:
    flat: dict[str, JsonValue] = {}
    for name, value in settings.items():
        flat |= _flat(value, f"{above}{name}.") if isinstance(value, dict) else {f"{above}{name}": value}
    return flat


# --- the cluster


def of_health(health: JsonObject | None) -> Iterator[Finding]:
    """`health` is that of the store's own indices."""
    status = (health or {}).get("status")
    if status == "red":
        text = "a part of the store's indices is not available (the health is red)"
        yield Finding("health", Level.PROBLEM, text, "start the nodes that are missing; see GET /_cluster/health")
    elif status == "yellow":
        text = "the store's indices have no replica on another node (the health is yellow)"
        yield Finding("health", Level.WARNING, text, "add a node; until then what is lost with a node is lost")
    elif status is not None:
        yield Finding("health", Level.OK, str(status))


def of_blocks(prefix: str, limits: JsonObject | None, settings: JsonObject | None) -> Iterator[Finding]:
    """What is closed to writes: the cluster, or indices of the store."""
    found = 0
    for name in ("read_only", "read_only_allow_delete"):
        if _limit(limits, f"cluster.blocks.{name}") == "true":
            found += 1
            remedy = f'PUT /_cluster/settings {{"persistent": {{"cluster.blocks.{name}": null}}}}'
            yield Finding("blocks", Level.PROBLEM, f"the cluster takes no writes (cluster.blocks.{name})", remedy)
    if _missing(prefix, settings or {}) and _limit(limits, "cluster.blocks.create_index") == "true":
        found += 1
        remedy = "free disk space on the nodes: the cluster then lifts it"
        yield Finding("blocks", Level.PROBLEM, "the cluster makes no index (cluster.blocks.create_index)", remedy)
    for index in (f"{prefix}-{name}" for name in _FIELDS):
        own = member(settings, index, "settings")
        blocks = [name for name in _BLOCKS if own.get(f"index.blocks.{name}") == "true"]
        if blocks:
            found += 1
            yield _blocked(index, blocks)
    if not found and settings is not None:
        yield Finding("blocks", Level.OK, "no index of the store is closed")


def _blocked(index: str, blocks: Sequence[str]) -> Finding:
    if "read_only_allow_delete" in blocks:
        text = f"{index!r} takes no writes: a node's disk passed the flood stage, or somebody closed it"
        remedy = "free disk space on the nodes: the cluster then opens the index by itself"
    else:
        text = f"{index!r} is closed: {', '.join(blocks)}"
        names = ", ".join(f'"index.blocks.{name}": null' for name in blocks)
        remedy = _put(index, f"{{{names}}}")
    return Finding("blocks", Level.PROBLEM, text, remedy)


def of_shards(
    prefix: str, limits: JsonObject | None, settings: JsonObject | None, health: JsonObject | None
) -> Iterator[Finding]:
    """Whether the cluster has room for the shards of the indices that are still to be made."""
    if health is None or settings is None:
        return
    nodes = _number(health.get("number_of_data_nodes"))
    used = sum(_number(health.get(name)) for name in ("active_shards", "initializing_shards", "unassigned_shards"))
    each = _limit(limits, "cluster.max_shards_per_node") or ""
    room = (int(each) if each.isdigit() else _USUAL_MAX_SHARDS) * nodes - used
    needed = len(_missing(prefix, settings)) * _SHARDS_EACH
    if needed > room:
        text = f"the cluster takes {max(room, 0)} more shards, and the store's indices need {needed}"
        remedy = "delete indices, add a node, or raise cluster.max_shards_per_node"
        yield Finding("shards", Level.PROBLEM, text, remedy)
    else:
        yield Finding("shards", Level.OK, f"the cluster takes {room} more")


def of_nodes(nodes: JsonObject | None, asked: float, answered: float) -> Iterator[Finding]:
    """The nodes' disks and clocks. `asked` and `answered`: between which times of this machine they told theirs."""
    found = [(str(node.get("name")), node) for node in map(member, member(nodes, "nodes").values())]
    if not found:
        return
    full = [name for name, node in found if _used_share(member(node, "fs", "total")) >= _FULL_SHARE]
    if full:
        text = f"more than {_FULL_SHARE:.0%} of the disk is used, on: {', '.join(full)}"
        yield Finding("disk", Level.WARNING, text, "free disk space: at 95 % the cluster takes no more writes")
    else:
        yield Finding("disk", Level.OK, "the nodes' disks have room")
    off = {name: _seconds_off(_number(node.get("timestamp")) / 1000, asked, answered) for name, node in found}
    wrong = [f"{name} by {seconds:.0f} s" for name, seconds in off.items() if seconds > _CLOCK_SECONDS]
    if wrong:
        text = f"the clocks of nodes differ from this machine's: {', '.join(wrong)}"
        yield Finding("clock", Level.WARNING, text, "set the clocks by NTP")
    else:
        yield Finding("clock", Level.OK, "the nodes have this machine's time")


def _used_share(disk: JsonObject) -> float:
    total = _number(disk.get("total_in_bytes"))
    return 1 - _number(disk.get("available_in_bytes")) / total if total else 0.0


def _seconds_off(told: float, asked: float, answered: float) -> float:
    """Nodes may tell a time of a second ago: they keep it for that long."""
    return max(asked - 1 - told, told - answered, 0.0)


def _limit(limits: JsonObject | None, name: str) -> str | None:
    for kind in ("transient", "persistent", "defaults"):
        value = member(limits, kind).get(name)
        if isinstance(value, str):
            return value
    return None


def _objects(value: JsonValue) -> list[JsonObject]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _number(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0
