"""The names of AWS's exceptions, and what each means. Proxies in front of Bedrock pass them on, too.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html#API_runtime_ConverseStream_Errors
and https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

ErrorKind: TypeAlias = Literal[
    "authentication",
    "context_overflow",
    "invalid",
    "not_found",
    "overloaded",
    "quota",
    "server",
    "throttled",
    "timeout",
]

# Names of exceptions, as the service model, the common errors of AWS and the stream's frames have them, in lower case.
EXCEPTION_KINDS: Mapping[str, ErrorKind] = MappingProxyType(
    {
        "accessdeniedexception": "authentication",
        "expiredtoken": "authentication",
        "expiredtokenexception": "authentication",
        "incompletesignature": "authentication",
        "incompletesignatureexception": "authentication",
        "invalidclienttokenid": "authentication",
        "invalidsignatureexception": "authentication",
        "missingauthenticationtoken": "authentication",
        "missingauthenticationtokenexception": "authentication",
        "notauthorized": "authentication",
        "optinrequired": "authentication",
        "unrecognizedclientexception": "authentication",
        "resourcenotfoundexception": "not_found",
        "unknownoperationexception": "not_found",
        "servicequotaexceededexception": "quota",
        "throttling": "throttled",
        "throttlingexception": "throttled",
        "toomanyrequestsexception": "throttled",
        "modelnotreadyexception": "overloaded",
        "serviceunavailable": "overloaded",
        "serviceunavailableexception": "overloaded",
        "modeltimeoutexception": "timeout",
        "requesttimeout": "timeout",
        "internalfailure": "server",
        "internalserverexception": "server",
        "modelerrorexception": "server",
        "modelstreamerrorexception": "server",
        "serializationexception": "invalid",
        "validationerror": "invalid",
        "validationexception": "invalid",
    }
)
