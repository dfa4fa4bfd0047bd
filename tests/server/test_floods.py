"""Floods of guessed credentials: what they take is counted, and nobody else waits for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.promises import promise
from tests.support.services import SECRET, STRANGER, Answer, Api

from solward.credentials.credentials import Credentials
from solward.support.fair_turns import MOST_OF_SOURCE, MOST_WAITING, Crowded, FairTurns, source_of
from solward_server.http.auth import AT_ONCE, MOST_KNOWN, CredentialLookups

pytestmark = promise("guess-flood-starves-nobody")


class SlowLookUps:
    """Look-ups of keys that nobody has do not end before `release`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.running = self.most = self.total = 0
        self.release = asyncio.Event()
        real = Credentials.find

        async def find(keys: Credentials, hash_: str) -> Any:
            found = await real(keys, hash_)
            if found is None:
                self.total += 1
                self.running += 1
                self.most = max(self.most, self.running)
                await self.release.wait()
                self.running -= 1
            return found

        patch.setattr(Credentials, "find", find)


def guess(number: int) -> str:
    return f"sk-{number:032x}"


@asynccontextmanager
async def flood(api: Api, count: int) -> AsyncIterator[list[asyncio.Task[Answer]]]:
    tasks = [
        asyncio.create_task(api.get("/wallets", token=guess(number))) for number in range(count)
    ]
    yield tasks
    await asyncio.gather(*tasks, return_exceptions=True)


@promise("guess-flood-blocks-nobody")
async def test_a_flood_of_guesses_takes_two_look_ups_and_nobodys_turn(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    wallet = await api.wallet(1)
    key, _ = await api.key()
    assert (await api.get("/wallets", token=key)).status == 200
    slow = SlowLookUps(monkeypatch)
    async with flood(api, 100) as tasks, asyncio.timeout(60):
        while slow.running < AT_ONCE or not any(task.done() for task in tasks):
            await asyncio.sleep(0)
        assert (await api.get("/health", token=None)).status == 200
        assert (await api.get("/wallets", token=SECRET)).status == 200
        paid = await api.post(
            f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 0.01}, token=key
        )
        assert paid.status == 200, paid.text
        assert (slow.running, slow.total) == (AT_ONCE, AT_ONCE)
        slow.release.set()
    statuses = Counter(task.result().status for task in tasks)
    assert slow.most == AT_ONCE
    assert statuses == {401: AT_ONCE + MOST_OF_SOURCE, 429: 100 - AT_ONCE - MOST_OF_SOURCE}
    crowded = next(task.result() for task in tasks if task.result().status == 429)
    assert crowded.headers["Retry-After"] == "1"


@promise("guess-flood-blocks-nobody")
async def test_a_revoked_credential_takes_turns_like_a_guess(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, key_id = await api.key()
    assert (await api.get("/wallets", token=key)).status == 200
    assert (await api.call("DELETE", f"/keys/{key_id}")).status == 200
    assert (await api.get("/wallets", token=key)).status == 401
    slow = SlowLookUps(monkeypatch)
    tasks = [asyncio.create_task(api.get("/wallets", token=key)) for _ in range(50)]
    async with asyncio.timeout(60):
        while not slow.running:
            await asyncio.sleep(0)
        slow.release.set()
        answers = await asyncio.gather(*tasks)
    assert {each.status for each in answers} == {401}
    # All that come with it meanwhile wait for one look-up.
    assert slow.most == 1


async def test_what_is_no_secret_of_ours_is_never_looked_up(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowLookUps(monkeypatch)
    for token in ("x" * 35, "sk-" + "g" * 32, "sk-" + "0" * 31, "sa-" + "0" * 32, "sk-" + "A" * 32):
        assert (await api.get("/wallets", token=token)).status == 401
    assert slow.total == 0


async def test_a_new_key_has_its_turn_after_one_of_each_source() -> None:
    strangers = FairTurns(1)
    order: list[str] = []

    async def ask(source: str) -> None:
        async with strangers.turn(source):
            order.append(source)
            await asyncio.sleep(0)

    async with strangers.turn("first"):
        flooding = [asyncio.create_task(ask("203.0.113.9")) for _ in range(10)]
        await asyncio.sleep(0)
        late = asyncio.create_task(ask("198.51.100.4"))
        await asyncio.sleep(0)
    await asyncio.gather(late, *flooding)
    assert order[:2] == ["203.0.113.9", "198.51.100.4"]
    assert len(order) == 11
    assert strangers.waiting == 0


@promise("guess-flood-blocks-nobody")
async def test_what_waits_is_bounded_and_who_has_most_of_it_gives_way() -> None:
    strangers = FairTurns(1)
    outcomes: Counter[tuple[str, str]] = Counter()

    async def ask(source: str) -> None:
        try:
            async with strangers.turn(source):
                outcomes[source, "turn"] += 1
        except Crowded:
            outcomes[source, "crowded"] += 1

    async with strangers.turn("first"):
        many = [asyncio.create_task(ask("greedy")) for _ in range(100)]
        many += [asyncio.create_task(ask(f"s{each}")) for each in range(MOST_WAITING)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert strangers.waiting == MOST_WAITING
        many.append(asyncio.create_task(ask("operator")))
        await asyncio.sleep(0)
        assert strangers.waiting == MOST_WAITING
    await asyncio.gather(*many)
    assert outcomes["operator", "turn"] == 1
    assert outcomes["greedy", "crowded"] >= 100 - MOST_OF_SOURCE
    assert sum(outcomes.values()) == len(many)
    assert strangers.waiting == 0


async def test_who_goes_away_leaves_its_turn_to_the_next() -> None:
    strangers = FairTurns(1)

    async def ask() -> None:
        async with strangers.turn("a"):
            pass

    async with strangers.turn("first"):
        gone, waits = (asyncio.create_task(ask()) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        assert strangers.waiting == 1
    await waits
    # Both the turn and its queue are free again.
    await asyncio.wait_for(ask(), 5)


async def test_a_source_has_no_more_at_once_than_its_share() -> None:
    turns, running, most = FairTurns(4, 1), Counter[str](), Counter[str]()

    async def ask(source: str) -> None:
        async with turns.turn(source):
            running[source] += 1
            most[source] = max(most[source], running[source])
            most[""] = max(most[""], running.total())
            await asyncio.sleep(0)
            running[source] -= 1

    await asyncio.gather(*(ask(source) for source in "aaaaabbbbbcc"))
    assert most == {"a": 1, "b": 1, "c": 1, "": 3}


def test_what_is_remembered_is_bounded() -> None:
    strangers = CredentialLookups()
    for number in range(MOST_KNOWN + 10):
        strangers.remember(f"{number}")
    assert not strangers.is_known("9")
    assert strangers.is_known("10")


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("fe80::1%eth0", "fe80::/64"),
        ("a socket", "a socket"),
        (None, ""),
    ],
)
def test_a_source_is_an_address_or_a_customers_network(address: str | None, source: str) -> None:
    assert source_of(address) == source
