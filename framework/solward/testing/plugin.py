"""The pytest plugin `solward`: fixtures on a real service and a real ledger, no network.

Every pytest run in an environment with Solward loads it, so it imports nothing heavy: the service
is imported when a test first requests a fixture. The fixtures are async and need pytest-asyncio,
in either of its modes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from solward.context import SkillContext
    from solward.testing.scripted import ScriptedProvider
    from solward.testing.stand import Stand, TestWallet
    from solward.types.provider import CompletionRequest
    from solward_localnet.node import Localnet


def async_fixture(function: Callable[..., Any]) -> Any:
    """Make a pytest-asyncio fixture. Without pytest-asyncio, only tests with the fixture fail."""
    try:
        from pytest_asyncio import fixture
    except ImportError:

        @pytest.fixture(name=function.__name__)
        def missing() -> None:
            pytest.fail(f"the fixture {function.__name__} needs pytest-asyncio", pytrace=False)

        return missing
    return fixture(function)


@async_fixture
async def solward_stand(tmp_path: Path) -> AsyncIterator[Stand]:
    """Yield a whole service on an embedded ledger in a temporary home, with demo providers."""
    from solward.testing import open_stand

    async with open_stand(tmp_path / "solward-home") as stand:
        yield stand


@async_fixture
async def localnet(solward_stand: Stand) -> Localnet:
    """Return the embedded ledger: `call` for JSON-RPC, `advance_slots`, `advance_epochs`."""
    return solward_stand.localnet


@async_fixture
async def wallet(solward_stand: Stand) -> TestWallet:
    """Return a managed wallet with 10 SOL; `await wallet.run("skill", name=value)` runs a skill."""
    return await solward_stand.wallet()


@pytest.fixture
def skill_context(wallet: TestWallet) -> Callable[..., SkillContext]:
    """Return a function that makes a context of a skill (name or module) on `wallet`."""
    return wallet.context


@pytest.fixture
def provider_request() -> CompletionRequest:
    """Return an agent's request: prompt, conversation, tools, observation, strategy."""
    from solward.testing import provider_request as request

    return request()


@async_fixture
async def scripted_provider(solward_stand: Stand) -> ScriptedProvider:
    """Return a provider named `scripted` for the service's agents; `say` sets its answers."""
    from solward.testing import ScriptedProvider

    provider = ScriptedProvider()
    solward_stand.install(provider)
    return provider
