"""The section `ml_commons`: the settings `plugins.ml_commons.*`, with their defaults and what they are for.

Below: section. Above: sections; ml_commons.feature_settings, for which these are all the settings that there are.
https://docs.opensearch.org/latest/ml-commons-plugin/cluster-settings/
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field

from gateway.configuration.section import Section, no_boolean
from gateway.messages import JsonObject

_Number: TypeAlias = Annotated[int, Field(ge=-1, le=2**31 - 1), BeforeValidator(no_boolean)]
_OF_CALLERS = frozenset({"trusted_connector_endpoints_regex", "connector"})
"""The settings that the section `callers` has, too."""


class MlCommonsConnectorSection(Section):
    """How models and tools of callers are reached."""

    private_ip_enabled: bool | None = None
    """false: as callers.private_addresses: false; it wins. Absent or null: as callers.private_addresses says."""


class MlCommonsLocalModelSection(Section):
    """Models within OpenSearch; the gateway has none."""

    enabled: bool = True
    """Without effect."""


class MlCommonsMemorySection(Section):
    """Settings of memory containers."""

    retention_enabled: bool = True
    """Memories may be pinned, and containers may say how long theirs stay."""


class MlCommonsRemoteInferenceSection(Section):
    """Models at providers."""

    enabled: bool = True
    """Agents can be registered with a model, and executed."""


class MlCommonsSection(Section):
    """Settings of ml-commons' REST API, by the names that they have in OpenSearch behind 'plugins.ml_commons.'. What is
    set by PUT /_cluster/settings wins over them. Those without effect are kept and shown.
    """

    agent_framework_enabled: bool = True
    """Agents can be registered, changed and executed."""
    unified_agent_api_enabled: bool = True
    """Agents can be registered with 'model', and executed with 'input'."""
    stream_enabled: bool = True
    """Agents can be executed as a stream."""
    ag_ui_enabled: bool = True
    """The stream takes AG-UI input. The gateway's own AG-UI paths are always there."""
    agentic_memory_enabled: bool = True
    """There are memory containers."""
    memory_feature_enabled: bool = True
    """There are conversation memories."""
    memory: MlCommonsMemorySection = MlCommonsMemorySection()
    """How memory containers work."""
    execute_tools_enabled: bool = True
    """Tools can be run without an agent."""
    mcp_connector_enabled: bool = True
    """Agents can be registered with MCP servers, and executed with them."""
    mcp_server_enabled: bool = True
    """The MCP server of ml-commons, which the gateway does not have yet: without effect."""
    remote_inference: MlCommonsRemoteInferenceSection = MlCommonsRemoteInferenceSection()
    """Whether models are used that providers serve."""
    connector: MlCommonsConnectorSection = MlCommonsConnectorSection()
    """Which addresses models and tools of callers may have."""
    trusted_connector_endpoints_regex: tuple[str, ...] | None = None
    """Another name of callers.endpoints; give one of them."""
    max_json_size: _Number = 100_000_000
    """The largest request body of this API in bytes, where that is less than server.max_body_bytes; -1: no limit of its
    own."""
    allow_registering_model_via_local_file: bool = False
    """Without effect."""
    allow_registering_model_via_url: bool = False
    """Without effect."""
    connector_access_control_enabled: bool = False
    """Without effect."""
    controller_enabled: bool = True
    """Without effect."""
    index_insight_feature_enabled: bool = False
    """Without effect."""
    jvm_heap_memory_threshold: _Number = 85
    """Without effect."""
    local_model: MlCommonsLocalModelSection = MlCommonsLocalModelSection()
    """Whether there are models within OpenSearch."""
    mcp_header_passthrough_enabled: bool = False
    """Without effect."""
    ml_task_timeout_in_seconds: _Number = 600
    """Without effect."""
    model_access_control_enabled: bool = False
    """Without effect."""
    native_memory_threshold: _Number = 90
    """Without effect."""
    only_run_on_ml_node: bool = True
    """Without effect."""
    rag_pipeline_feature_enabled: bool = True
    """Without effect."""
    remote_agentic_memory_enabled: bool = False
    """Without effect."""
    task_dispatch_policy: str = "round_robin"
    """Without effect."""

    def by_name(self) -> JsonObject:
        """The settings by their names in OpenSearch, such as `memory.retention_enabled`, but for those that the section
        `callers` has, too.
        """
        settings: JsonObject = {}
        for name, value in self.model_dump(exclude=set(_OF_CALLERS)).items():
            inner = value if isinstance(value, dict) else None
            settings |= {name: value} if inner is None else {f"{name}.{last}": each for last, each in inner.items()}
        return settings
