"""Whatever is sent to the API, well-formed or not, the answer is one that the document promises."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.server import ServerProcess, serving

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
# What says no to a request that is not as the document has it.
REFUSED = ["400", "403", "404", "405", "410", "413", "422"]
# Streams do not end, an endpoint is looked for at the address that is given, and every file is a good one.
LEFT_OUT = ("/events", "/endpoints", "/files")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("any") / "data", "--no-local-model") as running:
        yield running


@pytest.mark.fault
def test_any_input_is_answered_as_documented(server: ServerProcess):
    headers = {"authorization": f"Bearer {server.add_user()}"}
    config = schemathesis.Config.from_dict(
        {"checks": {"negative_data_rejection": {"expected-statuses": REFUSED}}}
    )
    schema = schemathesis.openapi.from_url(f"{server.url}/api/v1/openapi.json", config=config)
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()
        if not operation.path.endswith(LEFT_OUT):
            _try(operation.as_strategy(generation_mode=GenerationMode.POSITIVE), headers)
            if "requestBody" in operation.definition.raw:
                _try(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE), headers)


def _try(cases: Any, headers: dict[str, str]) -> None:
    @settings(max_examples=8, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None)
    @given(case=cases)
    def one(case: Any) -> None:
        case.call_and_validate(checks=CHECKS, headers=headers)

    one()
