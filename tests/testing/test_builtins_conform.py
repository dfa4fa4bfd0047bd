"""The conformance kit over everything built in: no check fails, none is left out without need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from importlib.metadata import distribution

import pytest
import pytest_asyncio
from tests.hosts.test_egress import Site, says
from tests.support.examples import rest_is_long
from tests.support.vendors.server import vendor_server
from tests.testing.builtin_cases import CASES

from solward.operations.payments.requests import Sites
from solward.plugins import load_registry
from solward.testing import Stand
from solward.testing.conformance import Outcome, Report, check_provider, check_skill
from solward.testing.conformance.runner import open_conformance

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.samples(
        "test_a_built_in_skill_conforms[transfer]",
        "test_all_of_them_are_here",
    ),
]

BUILT_IN = [each for each in distribution("solward").entry_points if each.group != "pytest11"]
SKILLS = sorted(each.name for each in BUILT_IN if each.group == "solward.skills")
PROVIDERS = sorted(each.name for each in BUILT_IN if each.group == "solward.providers")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[str]:
    """A site on this machine that asks for nothing."""
    server = await asyncio.start_server(Site(says("42")).serve, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stand(site: str) -> AsyncIterator[Stand]:
    async with open_conformance() as opened:
        await opened.service.payments.sites.close()
        opened.service.payments.sites = Sites((site,))
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def providers() -> Mapping[str, Report]:
    """Beside each other: most of it is waiting for vendors that fail."""
    specs = {name: load_registry(["solward"], demo=True).providers[name].spec for name in PROVIDERS}
    async with vendor_server() as server:
        reports = await asyncio.gather(
            *(
                check_provider(name, address=server.base_urls.get(spec.base_url_env or ""))
                for name, spec in specs.items()
            )
        )
    return dict(zip(specs, reports, strict=True))


async def test_all_of_them_are_here() -> None:
    assert len(SKILLS) >= 18
    assert PROVIDERS == ["anthropic", "gemini", "grok", "openai", "rules"]


@pytest.mark.parametrize(
    "name", rest_is_long(SKILLS, "transfer", "swap", "withdraw_stake", "pay_request")
)
async def test_a_built_in_skill_conforms(stand: Stand, site: str, name: str) -> None:
    paid = ({"url": f"http://{site}/", "max": "0.05 USDC"},) if name == "pay_request" else ()
    report = await check_skill(name, cases=(*CASES.get(name, ()), *paid), stand=stand)
    found = {each.check: each.outcome for each in report.findings}
    if name == "pay_request":
        # That nothing landed: a site that asks for money is in tests/e2e/payments.
        assert found.pop("effects") is Outcome.WARNING, str(report)
    assert set(found.values()) == {Outcome.OK}, str(report)
    assert report.distribution == "solward"


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_built_in_provider_conforms(providers: Mapping[str, Report], name: str) -> None:
    report = providers[name]
    assert report.ok, str(report)
    assert not report.warnings, str(report)
    skipped = {each.check for each in report.findings if each.outcome is Outcome.SKIPPED}
    assert not skipped, str(report)
