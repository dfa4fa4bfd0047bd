"""Killed at any point of a cycle, agents go on, and what they say is what the ledger has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path

import pytest
from tests.e2e.agents.paying_agents import Crew, at_rest, goes_on, hire, landed_on, told_truly
from tests.e2e.agents.state_after_kill import Deeds, examine
from tests.e2e.agents.supervised import Supervised
from tests.support.localnet import localnet_process

from solward.agents.cycle import Phase
from solward.vault.money.steps import PAID_STEPS

pytestmark = [
    pytest.mark.more,
    pytest.mark.sqlite(
        "cycles in the service's own process; tests/e2e/scale kills workers in theirs"
    ),
]

# In the order a cycle passes them: the money path lies between thinking and having acted.
POINTS: tuple[StrEnum, ...] = (
    Phase.ENTERED,
    Phase.OBSERVED,
    Phase.THOUGHT,
    # Nobody is asked about these, and no seller is paid by them.
    *PAID_STEPS,
    Phase.ACTED,
    Phase.REMEMBERED,
)
# The agents of a crew fall due together: these numbers meet each of them first, between and last.
TURNS = (1, 3, 2, 4)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Supervised]:
    """Not yet alive; gone when the test ends."""
    made = Supervised(tmp_path / "home")
    yield made
    if made.process is not None:
        made.stop()


def live_and_die(
    service: Supervised, deaths: Iterable[tuple[StrEnum, int]], ledger_url: str | None = None
) -> None:
    """One growing history through many deaths; each is looked into, and outlived.

    The ledger dies with the service, but for one that lives at `ledger_url`.
    """
    service.live()
    crew = hire(service)
    left: dict[str, Deeds] = {}
    goes_on(service, crew, left)
    for point, nth in deaths:
        service.die(point, nth)
        earlier, left = left, examine(service.home)
        told(crew, earlier, left)
        service.live()
        goes_on(service, crew, left)
    at_rest(service, crew)
    service.end()
    last = examine(service.home)
    told(crew, left, last)
    if ledger_url is not None:
        by_the_ledger(ledger_url, crew, last)
        return
    with localnet_process(service.home / "localnet.db") as localnet:
        by_the_ledger(localnet.http, crew, last)


def told(crew: Crew, earlier: dict[str, Deeds], now: dict[str, Deeds]) -> None:
    """Nothing once decided has changed, and every payment is told as it went."""
    for agent, before in earlier.items():
        assert before.decisions.items() <= now[agent].decisions.items()
        assert before.cycle < now[agent].cycle
    for payer in crew.payers:
        told_truly(now[payer.agent])
    assert now[crew.looker].payments == {}


def by_the_ledger(url: str, crew: Crew, last: dict[str, Deeds]) -> None:
    """What the ledger's own history has of each payee is what its payer remembers, once each."""
    for payer in crew.payers:
        payments = last[payer.agent].payments.values()
        confirmed = [each.signature for each in payments if each.status == "confirmed"]
        landed = landed_on(url, payer.payee_address)
        assert len(landed) == len(set(landed))
        assert set(landed) == set(confirmed)


@pytest.mark.timeout(300)
def test_agents_killed_at_every_point_of_a_cycle_go_on_and_pay_once(service: Supervised) -> None:
    deaths = [(point, TURNS[number % 3]) for number, point in enumerate(POINTS)]
    live_and_die(service, deaths)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("point", POINTS)
def test_twenty_deaths_at_one_point(service: Supervised, point: StrEnum) -> None:
    live_and_die(service, [(point, TURNS[number % len(TURNS)]) for number in range(20)])


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_every_point_twice_beside_a_ledger_that_lives_on(tmp_path: Path) -> None:
    with localnet_process(tmp_path / "ledger.db") as localnet:
        away = {"SOLANA_RPC_URL": localnet.http, "SOLANA_NETWORK": "localnet"}
        service = Supervised(tmp_path / "home", **away)
        deaths = [(point, TURNS[number % 3]) for number, point in enumerate(POINTS * 2)]
        try:
            live_and_die(service, deaths, localnet.http)
        finally:
            if service.process is not None:
                service.stop()
