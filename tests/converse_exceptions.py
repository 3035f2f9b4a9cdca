"""The exceptions of ConverseStream by AWS's own description of the service, and what each means."""

from __future__ import annotations

from botocore.loaders import Loader

from gateway.errors import ModelErrorKind

SERVICE = Loader().load_service_model("bedrock-runtime", "service-2")

MEANINGS = {
    "AccessDeniedException": (ModelErrorKind.AUTHENTICATION, False),
    "ThrottlingException": (ModelErrorKind.THROTTLED, True),
    "ResourceNotFoundException": (ModelErrorKind.NOT_FOUND, False),
    "ModelTimeoutException": (ModelErrorKind.TIMEOUT, True),
    "InternalServerException": (ModelErrorKind.SERVER, True),
    "ServiceUnavailableException": (ModelErrorKind.OVERLOADED, True),
    "ValidationException": (ModelErrorKind.INVALID, False),
    "ModelNotReadyException": (ModelErrorKind.OVERLOADED, True),
    "ModelErrorException": (ModelErrorKind.SERVER, True),
    "ServiceQuotaExceededException": (ModelErrorKind.QUOTA, False),
    "ModelStreamErrorException": (ModelErrorKind.SERVER, True),
}


def of_streams() -> list[str]:
    """Those that may come in the middle of a stream."""
    members = SERVICE["shapes"]["ConverseStreamOutput"]["members"]
    return [name for name, member in members.items() if SERVICE["shapes"][member["shape"]].get("exception")]
