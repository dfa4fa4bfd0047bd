"""What schemathesis would ask of the endless stream, asked until its first bytes."""

from __future__ import annotations

from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from tests.e2e.fuzz.fuzzing import ENDLESS
from tests.support.processes import SECRET, Service

pytestmark = pytest.mark.more


@pytest.fixture(scope="module")
def stream(contract: Service) -> Any:
    """The described operation of a running service."""
    schema = schemathesis.openapi.from_url(f"{contract.url}/openapi.json")
    return schema[ENDLESS]["GET"]


def ask(contract: Service, case: Any, token: str | None) -> tuple[int, str, bytes]:
    """Status, type and the first bytes."""
    sent = case.as_transport_kwargs(base_url=contract.url.removesuffix("/api/v1"))
    headers = dict(sent["headers"]) | ({} if token is None else {"Authorization": token})
    with requests.request(
        sent["method"], sent["url"], params=sent.get("params"), headers=headers, stream=True,
        timeout=30,
    ) as answer:  # fmt: skip
        kind = answer.headers["Content-Type"].partition(";")[0]
        first = next(answer.iter_content(None)) if answer.status_code == 200 else answer.content
        return answer.status_code, kind, first


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize(
    "cases", [10, pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(1800)])]
)
def test_every_query_is_a_stream_or_a_400_that_names_a_field(
    contract: Service, stream: Any, mode: GenerationMode, cases: int
) -> None:
    counted = []

    @settings(max_examples=cases, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=stream.as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        status, kind, first = ask(contract, case, f"Bearer {SECRET}")
        counted.append(status)
        if status == 200:
            assert kind == "text/event-stream"
            assert first.startswith(b"retry: 2000\n\n")
        else:
            assert (status, kind) == (400, "application/json")
            assert first.startswith((b'{"error":"types ', b'{"error":"lastEventId ',
                                     b'{"error":"Last-Event-ID '))  # fmt: skip
        status, _, first = ask(contract, case, None)
        assert (status, first) == (
            401,
            '{"error":"Unauthorized — admin API secret required"}'.encode(),
        )

    run()
    assert len(counted) >= cases // 2
