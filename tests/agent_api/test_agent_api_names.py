"""What `gateway.agent_api` gives the programs that import it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import gateway.agent_api
from gateway.agent_api_builder import schemas


def test_every_model_and_word_of_the_protocol_is_a_name_of_the_package() -> None:
    made = {name for name, value in vars(schemas).items() if isinstance(value, type) and name[0] != "_"}
    own = {name for name in made if getattr(schemas, name).__module__ == schemas.__name__}
    assert own <= set(gateway.agent_api.__all__)


@pytest.mark.parametrize("name", gateway.agent_api.__all__)
def test_a_name_of_the_package_is_there(name: str) -> None:
    assert isinstance(getattr(gateway.agent_api, name), type)


def test_the_longer_name_of_the_builder_is_the_same_class() -> None:
    assert gateway.agent_api.StreamingResponseBuilder is gateway.agent_api.ResponseBuilder


def test_a_name_that_is_not_there_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match=r"'gateway.agent_api' has no attribute 'Robot'"):
        _ = gateway.agent_api.Robot  # type: ignore[attr-defined]


def test_the_gateway_itself_makes_none_of_the_models() -> None:
    code = "import sys, gateway.application; print('gateway.agent_api_builder.schemas' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.strip() == "False"
