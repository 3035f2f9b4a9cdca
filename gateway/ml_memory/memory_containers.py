"""Memory containers: reads the bodies that make and change one.

Below: fields, retention. Above: the protocol, and whoever makes a container for an agent. A container keeps the members
of ml-commons' configuration. Models, and strategies that need them, are missing here: a container that names any is
refused.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.messages import JsonObject, JsonValue
from gateway.ml_commons.answers import chosen_id, milliseconds, new_document_id
from gateway.ml_memory.retention import read_policy
from gateway.protocol.fields import Fields
from gateway.wire.merge_patch import merge_patch

CONTAINER_ID: Final = "memory container id"
_FIELD: Final = "memory_container_id"
_POLICY: Final = "retention_policy"
_USUAL: Final[JsonObject] = {
    "index_prefix": "default",
    "disable_history": False,
    "disable_session": False,
    "use_system_index": True,
}
_OF_MODELS: Final = ("llm_id", "embedding_model_id", "embedding_model_type", "embedding_dimension", "strategies")
_MODEL_TYPES: Final = ("TEXT_EMBEDDING", "SPARSE_ENCODING")
_STRATEGY_TYPES: Final = ("semantic", "user_preference", "summary")
_MOST_INFERRED: Final = 10
_MOST_ROLE_CHARACTERS: Final = 128
_OPTIONAL: Final = ("description", "backend_roles")
_MOST_SHOWN: Final = 100
_NOT_IN_A_PREFIX: Final = dict.fromkeys(' "*\\<|,>/?').keys()
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def new_container(body: JsonObject, owner: str, now: float) -> tuple[str, JsonObject]:
    """The id and the document (of the kind CONTAINERS) of the container that this body asks for.

    Raises:
        InvalidRequestError: the body is wrong.
    """
    container_id = new_document_id() if body.get(_FIELD) is None else chosen_id(CONTAINER_ID, _FIELD, body[_FIELD])
    fields = Fields(body)
    if body.get("name") is None:
        fields.wrong("name", "name is null")
    described, configuration = _described(fields), _configuration(fields)
    fields.check()
    time = milliseconds(now)
    document: JsonObject = {
        **described,
        "owner": {"name": owner, "backend_roles": [], "roles": [], "custom_attribute_names": []},
        "created_time": time,
        "last_updated_time": time,
        "configuration": {**_USUAL, **configuration},
    }
    return container_id, document


def changed_container(document: JsonObject, body: JsonObject, now: float) -> JsonObject:
    """The document as this body changes it: objects are merged, and null removes a member that a container may be
    without.

    Raises:
        InvalidRequestError: the body is wrong.
    """
    sent = {name: value for name, value in body.items() if value is not None or name in _OPTIONAL}
    before: JsonObject = {name: document[name] for name in (*_OPTIONAL, "name", "configuration") if name in document}
    fields = Fields(merge_patch(before, sent))
    described, configuration = _described(fields), _configuration(fields)
    fields.check()
    stays = {name: value for name, value in document.items() if name not in before}
    changed: JsonObject = {**stays, **described, "configuration": {**_USUAL, **configuration}}
    return {**changed, "last_updated_time": milliseconds(now)}


def keeps_history(document: JsonObject) -> bool:
    """Whether changes of the container's long-term memories are recorded."""
    configuration = document["configuration"]
    return isinstance(configuration, dict) and not configuration.get("disable_history")


def keeps_sessions(document: JsonObject) -> bool:
    """Whether the container shows its sessions."""
    configuration = document["configuration"]
    return isinstance(configuration, dict) and not configuration.get("disable_session")


def retention_policy(document: JsonObject) -> JsonObject:
    """The container's retention policy; empty: it has none."""
    configuration = document["configuration"]
    policy = configuration.get(_POLICY) if isinstance(configuration, dict) else None
    return policy if isinstance(policy, dict) else {}


def _described(fields: Fields) -> JsonObject:
    roles = fields.strings("backend_roles")
    for role in roles or ():
        if not role.strip():
            fields.wrong("backend_roles", "Backend role cannot be empty or blank")
        elif len(role) > _MOST_ROLE_CHARACTERS:
            shown = f"exceeds maximum length of {_MOST_ROLE_CHARACTERS} characters: {role[:_MOST_ROLE_CHARACTERS]}..."
            fields.wrong("backend_roles", f"Backend role {shown}")
    listed: list[JsonValue] | None = None if roles is None else [*roles]
    given = {"name": fields.text("name"), "description": fields.text("description"), "backend_roles": listed}
    if given["name"] is not None and not str(given["name"]).strip():
        fields.wrong("name", "name must not be blank")
    return {name: value for name, value in given.items() if value is not None}


def _configuration(body: Fields) -> JsonObject:
    fields = body.inner("configuration")
    if fields is None:
        return {}
    prefix = fields.text("index_prefix")
    if prefix is not None and _CONTROL.search(prefix):
        fields.wrong("index_prefix", "Index prefix must not contain any control characters")
    elif prefix is not None and not _NOT_IN_A_PREFIX.isdisjoint(prefix):
        said = f"[{prefix[:_MOST_SHOWN]}] must not contain the following characters [{', '.join(_NOT_IN_A_PREFIX)}]"
        fields.wrong("index_prefix", f"missing or invalid index prefix {said}")
    inferred = fields.number("max_infer_size", least=1)
    if inferred is not None and inferred > _MOST_INFERRED:
        fields.wrong("max_infer_size", f"Maximum infer size cannot exceed {_MOST_INFERRED}")
    policy = fields.inner(_POLICY)
    read: JsonObject = {
        "index_prefix": prefix,
        "max_infer_size": inferred,
        **{name: fields.boolean(name) for name in ("disable_history", "disable_session", "use_system_index")},
        **{name: fields.object(name) for name in ("index_settings", "parameters")},
        _POLICY: None if policy is None else read_policy(policy),
    }
    _check_models(fields)
    return {name: value for name, value in read.items() if value is not None}


def _check_models(fields: Fields) -> None:
    """Note problems of the models and strategies that are named; if there are none, that models are not supported
    here.
    """
    given = [name for name in _OF_MODELS if fields.value.get(name) not in (None, [])]
    if not (_is_wrong_embedding(fields) or _are_wrong_strategies(fields)) and given:
        named = ", ".join(given)
        fields.wrong(
            given[0],
            f"{named}: models, connectors and strategies of memory containers are not available here yet; leave "
            f"{'it' if len(given) == 1 else 'them'} out, and write long-term memories yourself",
        )


def _is_wrong_embedding(fields: Fields) -> bool:
    model, kind = fields.value.get("embedding_model_id"), fields.value.get("embedding_model_type")
    dimension = fields.value.get("embedding_dimension")
    if model is not None and kind is None:
        fields.wrong("embedding_model_type", "Embedding model type is required when embedding model ID is provided")
    elif kind is not None and model is None:
        fields.wrong("embedding_model_id", "Embedding model ID is required when embedding model type is provided")
    elif kind is not None and str(kind).upper() not in _MODEL_TYPES:
        fields.wrong("embedding_model_type", f"Embedding model type must be either {' or '.join(_MODEL_TYPES)}")
    elif str(kind).upper() == _MODEL_TYPES[0] and dimension is None:
        fields.wrong("embedding_dimension", "Dimension is required for TEXT_EMBEDDING")
    elif str(kind).upper() == _MODEL_TYPES[1] and dimension is not None:
        fields.wrong("embedding_dimension", "Dimension is not allowed for SPARSE_ENCODING")
    else:
        return False
    return True


def _are_wrong_strategies(fields: Fields) -> bool:
    given = fields.value.get("strategies")
    strategies = given if isinstance(given, list) else []
    needed = {"LLM model (llm_id)": "llm_id", "embedding model (embedding_model_id)": "embedding_model_id"}
    missing = [shown for shown, name in needed.items() if fields.value.get(name) is None]
    if strategies and missing:
        fields.wrong(
            "strategies",
            "Strategies require both an LLM model and embedding model to be configured. Missing: "
            f"{', '.join(missing)}. Add them, or leave the strategies out.",
        )
        return True
    return any(_is_wrong_strategy(fields, strategy) for strategy in strategies)


def _is_wrong_strategy(fields: Fields, strategy: JsonValue) -> bool:
    kind = strategy.get("type") if isinstance(strategy, dict) else None
    if not isinstance(strategy, dict) or not isinstance(kind, str) or kind.lower() not in _STRATEGY_TYPES:
        listed = ", ".join(_STRATEGY_TYPES)
        fields.wrong("strategies", f"Invalid strategy type: {str(kind)[:64]}. Must be one of: {listed}")
    elif not isinstance(strategy.get("namespace"), list) or not strategy["namespace"]:
        fields.wrong("strategies", "Strategy namespace is required. Please provide a non-empty namespace array.")
    else:
        return False
    return True
