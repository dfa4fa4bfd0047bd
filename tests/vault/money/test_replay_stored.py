"""What was judged on a real database, judged again: by the policy in force nothing changes."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from solders.keypair import Keypair
from sqlalchemy import insert, select, update
from tests.promises import promise
from tests.support.database import WALLET_ROW
from tests.support.examples import rest_is_long
from tests.support.grants import SaidPrices

from solward.database.database import Database
from solward.database.tables import judged_effects, transactions, wallets
from solward.operations.policies.changes import replace_policy
from solward.operations.policies.grant_documents import GrantPolicy
from solward.operations.policies.replay import replay_stored
from solward.plugins.load import ThreadedRule
from solward.plugins.loaded import LoadedGuardrail
from solward.service.service import Solward
from solward.settings import Settings
from solward.solana.token_list import token_list
from solward.types.errors import GuardrailBlocked, Held, InvalidRequest
from solward.types.guardrail import SOL, Hold, Intent, Line, Operation, Outflow, TransactionEffects
from solward.types.record import HoldState, TransactionRecord, TransactionStatus
from solward.vault.grants.model import ANY_ASSET, AssetLimit, Grant, NewRecipient, Window, grant_id
from solward.vault.guardrails.rules import Policy as Rules
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.judge.granting import GrantJudge, Question
from solward.vault.money.judge.prices import Prices
from solward.vault.money.request import ADMIN, Actor
from solward.vault.money.reserve.reservation import Reserver
from solward.vault.store import holds

MINT = "So1dTokenNobodyLists11111111111111111111111"
BURNED = "So1dTokenNobodyLists22222222222222222222222"
WALLETS = ("w", "v")
AGENT, KEY, SKILL = "agent:a", "key:k", "skill:s"
SITES = ("site:a.example", "site:127.0.0.1:4021")
# A wallet of this service's own, and strangers of whom two look alike.
PEOPLE = ("v-address", "shop1111", "shop2111", "bar")
DAY = 86_400_000
ACTORS = (
    Actor(AGENT),
    Actor(KEY, limits=((KEY, ScopeLimits()),)),
    Actor(AGENT, via=(SKILL,)),
    ADMIN,
)
TOKENS = token_list("localnet")


def rule(_intent: Intent, effects: TransactionEffects) -> Any:
    """A plugin's: refuses and holds by the amount, whatever grants say."""
    units = 0 if effects.outflow is None else sum(each.units for each in effects.outflow.lines)
    if units % 11 == 0:
        return "not elevens"
    return Hold("sevens are shown to somebody") if units % 7 == 0 else None


class Service:
    """The part of a service that judges, releases and stores, without a ledger."""

    def __init__(self, database: Database, rng: random.Random) -> None:
        self.database = database
        self.rng = rng
        self.open: list[TransactionRecord] = []
        self.decides = False
        prices = Prices([SaidPrices("said", {SOL: (150, 9), MINT: ("0.5", 6)})])
        self.reserver = Reserver(
            database,
            Rules(),
            ScopeLimits(max_tx_per_minute=200),
            (LoadedGuardrail("rule", "rules", "1.0", ThreadedRule(rule)),),
            granting=GrantJudge(prices, TOKENS),
        )

    async def ask(
        self,
        actor: Actor,
        lines: Sequence[Line],
        wallet: str = "w",
        costs: int = 5_000,
    ) -> str:
        """Judge and reserve; returns the outcome. What a site is asked for is paid."""
        tokens: dict[str, int] = {}
        for line in lines:
            if line.asset != SOL:
                tokens[line.asset] = tokens.get(line.asset, 0) + line.units
        lamports = sum(line.units for line in lines if line.asset == SOL)
        outflow = Outflow(lamports, costs, 0, tokens, tuple(lines))
        effects = TransactionEffects(lamports, costs, tokens_out=tokens, outflow=outflow)
        kind = "payment" if set(SITES) & set(actor.via) else "transfer"
        intent = Intent(kind, f"{wallet}-address", lamports, tokens_out=tokens)
        record = TransactionRecord(
            str(uuid.uuid4()),
            wallet,
            intent.type,
            TransactionStatus.PENDING,
            {},
            (),
            created_ms=0,
            principal=actor.principal,
        )
        try:
            question = Question(wallet, actor, intent, effects)
            stored = (await self.reserver.reserve(record, question)).record
        except Held as held:
            if self.decides and self.rng.random() < 0.5:
                await self.decide(held.hold.id, actor, lines, wallet, costs)
            return "held"
        if stored.status is TransactionStatus.PENDING:
            self.open.append(stored)
        return stored.status.value

    async def decide(self, hold_id: str, actor: Actor, *asked: Any) -> None:
        """A person approves it, and it is made; or denies it."""
        state = self.rng.choice([HoldState.APPROVED, HoldState.APPROVED, HoldState.DENIED])
        async with self.database.write() as connection:
            moved = await holds.move(
                connection, hold_id, (HoldState.HELD,), state, by="admin", decided_by="admin"
            )
        if moved is not None and state is HoldState.APPROVED:
            await self.ask(replace(actor, approval=hold_id), *asked)

    async def end(self) -> None:
        """Some transaction lands, or never did."""
        record = self.open.pop(self.rng.randrange(len(self.open)))
        if self.rng.random() < 0.4:
            await self.reserver.release(record, "it never landed")
            return
        async with self.database.write() as connection:
            statement = update(transactions).where(transactions.c.id == record.id)
            await connection.execute(statement.values(status="confirmed"))

    async def edit(self, policy: GrantPolicy) -> None:
        await replace_policy(self.database, policy.sets, policy.book)

    async def replay(self, draft: GrantPolicy | None = None, days: int = 30) -> dict[str, Any]:
        return await replay_stored(self.database, TOKENS, days, draft)


@pytest.fixture
async def service(database: Database) -> Service:
    rows = [WALLET_ROW | {"id": each, "public_key": f"{each}-address"} for each in WALLETS]
    async with database.write() as connection:
        await connection.execute(insert(wallets), rows)
    return Service(database, random.Random(1))


def limit(asset: str, most: int, **options: Any) -> AssetLimit:
    decimals = {SOL: 9}.get(asset, 6)
    return AssetLimit(asset, decimals, (Window(DAY, most),), **options)


def grant(who: str = AGENT, most: int = 100, **changes: Any) -> Grant:
    made = Grant(
        "", who, frozenset({Operation.TRANSFER}), assets={MINT: limit(MINT, most)}, **changes
    )
    return structs.replace(made, id=grant_id(made))


def policy(*grants: Grant, book: dict[str, tuple[str, ...]] | None = None) -> GrantPolicy:
    sets: dict[str, tuple[Grant, ...]] = {}
    for each in grants:
        sets[each.who] = (*sets.get(each.who, ()), each)
    return GrantPolicy(sets, book or {})


def pays(units: int, to: str = "bar", asset: str = MINT) -> Line:
    decimals = {SOL: 9}.get(asset, 6)
    return Line(Operation.TRANSFER, asset, units, to, decimals=decimals)


OPERATIONS = {Operation.TRANSFER, Operation.BURN, Operation.FUND, Operation.PAY}


def random_policy(rng: random.Random) -> GrantPolicy:
    found: dict[str, Grant] = {}
    for _ in range(rng.randint(0, 5)):
        asset = rng.choice([MINT, MINT, SOL, ANY_ASSET])
        who = rng.choice([AGENT, AGENT, KEY, SKILL, "wallet:w", SITES[0]])
        is_payer = who in SITES or rng.random() < 0.3
        via_sites = is_payer and who not in SITES
        lengths = sorted(rng.sample([40, 200, 3_600_000, DAY, 30 * DAY], rng.randint(1, 3)))
        made = Grant(
            "",
            who,
            frozenset({Operation.PAY} if is_payer else OPERATIONS),
            via=tuple(rng.sample(SITES, rng.choice([0, 1, 2]))) if via_sites else (),
            wallet=rng.choice([None, None, "w"]),
            assets={
                asset: AssetLimit(
                    asset,
                    {SOL: 9}.get(asset, 6),
                    tuple(Window(each, rng.randint(40, 400)) for each in lengths),
                    per_tx=rng.choice([None, 60]),
                    hold=rng.choice([None, None, 25]),
                )
            },
            to=rng.choice([("any",), ("any",), ("@vendors", "own"), ("bar",)]),
            new=rng.choice(list(NewRecipient)),
            costs_lamports=rng.choice([10_000_000, 200_000]),
            rates=rng.choice([(), (Window(200, 3),), (Window(DAY, 20),)]),
        )
        made = structs.replace(made, id=grant_id(made))
        found[made.scope] = made
    book = {"vendors": tuple(sorted(rng.sample(PEOPLE, 2)))}
    return policy(*found.values(), book=book)


async def live(service: Service, steps: int) -> None:
    """A random history: payments and burns by everybody, releases, holds, edits."""
    rng, service.decides = service.rng, True
    for _ in range(steps):
        what = rng.random()
        if what < 0.06:
            await service.edit(random_policy(rng))
        elif what < 0.3 and service.open:
            await service.end()
        else:
            lines = [
                pays(rng.randint(1, 40), rng.choice(PEOPLE), rng.choice([MINT, MINT, SOL]))
                for _ in range(rng.choice([1, 1, 1, 2]))
            ]
            if rng.random() < 0.1:
                lines = [Line(Operation.BURN, BURNED, rng.randint(1, 40), decimals=6)]
            costs = rng.choice([5_000, 5_000, 0, 40_000])
            actor = rng.choice(ACTORS)
            if rng.random() < 0.25:
                actor = replace(actor, via=(*actor.via, rng.choice(SITES)))
            await service.ask(actor, lines, rng.choice(["w", "w", "v"]), costs)


@promise("live-replay-changes-nothing")
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(each, marks=pytest.mark.more) for each in (1, 2))]
)
async def test_replay_of_the_live_policy_changes_nothing(service: Service, seed: int) -> None:
    service.rng = random.Random(seed)
    for _ in range(3):
        await live(service, 40)
        found = await service.replay()
        assert (found["changed"], found["changes"]) == (0, [])
    async with service.database.read() as connection:
        rows = (await connection.execute(select(judged_effects.c.verdict))).scalars().all()
    assert found["judged"] + found["refusedByOtherRules"] == len(rows)
    # A history in which all of it happened.
    assert {"allowed", "held", "grants", "rule"} <= set(rows)
    assert 0 < found["judgedByOlderPolicy"] < found["judged"]


@pytest.mark.more
@pytest.mark.parametrize("seed", rest_is_long(range(100, 130), *range(100, 106)))
async def test_replay_of_the_live_policy_changes_nothing_for_long(
    service: Service, seed: int
) -> None:
    service.rng = random.Random(seed)
    await service.edit(random_policy(service.rng))
    await live(service, 200)
    found = await service.replay()
    assert (found["changed"], found["changes"]) == (0, [])


async def test_a_draft_lists_what_it_would_have_changed(service: Service) -> None:
    await service.edit(policy(grant()))
    assert [await service.ask(ACTORS[0], [pays(each)]) for each in (60, 30)] == ["pending"] * 2
    found = await service.replay(policy(grant(most=80)))
    (change,) = found["changes"]
    assert found["changed"] == 1
    assert change.keys() == {
        "transactionId",
        "walletId",
        "timestamp",
        "type",
        "chain",
        "then",
        "inForce",
        "now",
        "sentence",
        "olderPolicy",
    }
    assert (change["then"], change["now"], change["olderPolicy"]) == ("allowed", "refused", False)
    assert change["chain"] == ["wallet:w", AGENT]
    assert "0.00008" in change["sentence"]
    found = await service.replay(policy(grant(new=NewRecipient.HOLD)))
    assert {each["now"] for each in found["changes"]} == {"held"}
    assert all("asks a person first." in each["sentence"] for each in found["changes"])


async def test_a_draft_that_names_a_site_refuses_what_other_sites_were_paid(
    service: Service,
) -> None:
    pay = frozenset({Operation.PAY})
    wide = structs.replace(grant(), may=pay)
    await service.edit(policy(structs.replace(wide, id=grant_id(wide))))
    for site in SITES:
        actor = replace(ACTORS[0], via=(site,))
        assert await service.ask(actor, [pays(10)]) == "pending"
    assert await service.ask(ACTORS[0], [pays(10)]) == "blocked"
    narrow = structs.replace(wide, via=SITES[:1])
    (change,) = (await service.replay(policy(structs.replace(narrow, id=grant_id(narrow)))))[
        "changes"
    ]
    assert change["chain"] == ["wallet:w", AGENT, SITES[1]]
    assert (change["then"], change["now"], change["type"]) == ("allowed", "refused", "payment")
    assert (
        change["sentence"] == f"Grant 1 lets {AGENT.replace(':', ' ')} pay through a.example only."
    )


async def test_what_is_asked_for_again_while_it_is_held_is_one(service: Service) -> None:
    held = structs.replace(grant(), assets={MINT: limit(MINT, 100, hold=50)})
    await service.edit(policy(structs.replace(held, id=grant_id(held))))
    assert [await service.ask(ACTORS[0], [pays(60)]) for _ in range(2)] == ["held", "held"]
    found = await service.replay(policy(grant()))
    assert [(each["then"], each["now"]) for each in found["changes"]] == [("held", "allowed")]


async def test_a_draft_that_is_wider_shows_what_was_refused_and_held(service: Service) -> None:
    held = structs.replace(grant(), assets={MINT: limit(MINT, 100, hold=50)})
    await service.edit(policy(structs.replace(held, id=grant_id(held))))
    outcomes = [await service.ask(ACTORS[0], [pays(each)]) for each in (60, 101)]
    assert outcomes == ["held", "blocked"]
    found = await service.replay(policy(grant(most=1_000)))
    assert [(each["then"], each["now"]) for each in found["changes"]] == [
        ("held", "allowed"),
        ("refused", "allowed"),
    ]
    assert all(each["sentence"] for each in found["changes"])


async def test_a_draft_looks_at_facts_that_no_grant_looked_at_then(service: Service) -> None:
    await service.edit(policy(grant()))
    assert await service.ask(ACTORS[0], [pays(1)]) == "pending"
    (record,) = service.open
    service.rng = random.Random(5)
    while service.open:
        await service.end()
    async with service.database.write() as connection:
        paid = update(transactions).where(transactions.c.id == record.id)
        await connection.execute(paid.values(status="confirmed", created_ms=1))
    assert await service.ask(ACTORS[0], [pays(2)]) == "pending"
    assert await service.ask(ACTORS[0], [pays(3, "v-address")]) == "pending"
    found = await service.replay(policy(grant(new=NewRecipient.REFUSE)))
    # `bar` was paid by the first, which was new then; the own wallet was never paid.
    assert [each["then"] for each in found["changes"]] == ["allowed", "allowed"]
    assert record.id in {each["transactionId"] for each in found["changes"]}
    own = await service.replay(policy(grant(to=("own",))))
    assert own["changed"] == 2


async def test_a_draft_tells_own_wallets_where_nobody_asked_for_them_then(service: Service) -> None:
    for to in ("v-address", "bar"):
        assert await service.ask(ACTORS[0], [pays(5, to, SOL)]) == "pending"
    to_own = structs.replace(grant(), assets={SOL: limit(SOL, 100)}, to=("own",))
    found = await service.replay(policy(structs.replace(to_own, id=grant_id(to_own))))
    (change,) = found["changes"]
    assert (change["then"], change["now"]) == ("allowed", "refused")
    async with service.database.write() as connection:
        # A wallet that is made later is none then.
        await connection.execute(update(wallets).values(created_ms=2**45))
    assert (await service.replay(policy(structs.replace(to_own, id=grant_id(to_own)))))[
        "changed"
    ] == 2


async def test_days_and_size_are_bounded(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for days in (0, 367, True, "30", 1.5):
        with pytest.raises(InvalidRequest, match="days must be a whole number from 1 to 366"):
            await service.replay(days=days)  # type: ignore[arg-type]
    await service.edit(policy(grant()))
    await service.ask(ACTORS[0], [pays(1)])
    monkeypatch.setattr("solward.operations.policies.replay.MOST_REPLAYED", 0)
    with pytest.raises(InvalidRequest, match="days must be fewer: 1 transactions"):
        await service.replay()


async def test_only_the_newest_are_judged_and_the_answer_counts_the_others(
    service: Service,
) -> None:
    await service.edit(policy(grant(most=1_000)))
    for units in (10, 20, 30, 40):
        await service.ask(Actor(AGENT), [pays(units)])
    draft = policy(grant(most=45))
    assert (await service.replay(draft))["changed"] == 2
    found = await replay_stored(service.database, TOKENS, 30, draft, newest=2)
    # 30 has room again, because 10 and 20 were not counted.
    assert [found[name] for name in ("judged", "omitted", "changed")] == [2, 2, 1]
    found = await replay_stored(service.database, TOKENS, 30, draft, newest=4)
    assert [found[name] for name in ("judged", "omitted", "changed")] == [4, 0, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"lines": '[{"operation": "transfer", "asset": 7}]'},
        {"lines": "[" * 2_000},
        {"terms": "null"},
        {"terms": "{}"},
        {"prices": '{"SOL": {"usd": "1/0", "decimals": 9, "takenMs": 1}}'},
        {"chain": "{"},
    ],
)
async def test_a_record_that_cannot_be_read_stops_no_other(
    service: Service, wrong: dict[str, str]
) -> None:
    await service.edit(policy(grant(most=1_000)))
    for units in (30, 30, 30, 30):
        await service.ask(Actor(AGENT), [pays(units)])
    async with service.database.write() as connection:
        seq = (await connection.execute(select(judged_effects.c.seq))).scalars().all()[1]
        statement = update(judged_effects).where(judged_effects.c.seq == seq)
        await connection.execute(statement.values(**wrong))
    found = await service.replay(policy(grant(most=65)))
    assert [found[name] for name in ("judged", "unread", "changed")] == [3, 1, 1]


async def test_a_service_without_grants_and_without_history_has_nothing_to_change(
    service: Service, tmp_path: Path
) -> None:
    assert (await service.replay())["judged"] == 0
    assert (await service.replay(policy(grant())))["changed"] == 0


async def test_what_a_real_service_made_is_judged_alike(tmp_path: Path) -> None:
    """Every kind of line: sent, to an own wallet, sold, wrapped, launched, burned; in dollars."""
    settings = Settings(_env_file=None, solward_home=tmp_path, max_transactions_per_minute=100)
    async with Solward.open(settings) as service:
        wallet, other = [await service.wallets.create(name) for name in ("one", "two")]
        await service.operations.perform("airdrop", wallet.id, ADMIN, {"amount": 2})
        agent = Actor(AGENT)

        async def make(operation: str, **params: Any) -> TransactionRecord | str:
            try:
                return await service.operations.perform(operation, wallet.id, agent, params)
            except GuardrailBlocked as blocked:
                return blocked.rule

        every = frozenset(Operation)
        usdc = TOKENS.resolve("USDC", "token")
        made = Grant(
            "",
            AGENT,
            every,
            assets={
                SOL: limit(SOL, 10**9),
                ANY_ASSET: AssetLimit(ANY_ASSET, 6, (Window(DAY, 8_000_000),), hold=7_000_000),
            },
            costs_lamports=50_000_000,
        )
        in_force = policy(structs.replace(made, id=grant_id(made)))
        await replace_policy(service.database, in_force.sets, in_force.book)
        stranger = str(Keypair().pubkey())
        await make("swap", inputToken="SOL", outputToken="USDC", amount=Decimal("0.1"))
        await make("transfer", to=stranger, amount=Decimal("0.01"))
        await make("transfer", to=other.address, amount=Decimal("0.01"))
        await make("wrap_sol", amount=Decimal("0.01"))
        with pytest.raises(Held):
            await make("transfer_token", mint=usdc, to=stranger, amount=Decimal("7.5"))
        await make("transfer_token", mint=usdc, to=stranger, amount=3)
        await make("transfer_token", mint=usdc, to=other.address, amount=4)
        assert await make("transfer_token", mint=usdc, to=stranger, amount=2) == "grants"
        launched = await make("launch_token", name="T", symbol="T", decimals=6, supply=10)
        assert isinstance(launched, TransactionRecord)
        # Nobody trades it, so it has no price.
        assert await make("burn", mint=launched.details["mint"], amount=1) == "grants"
        found = await replay_stored(service.database, service.tokens, 30)
        assert (found["changed"], found["judged"]) == (0, 10)
        # A dollar less a day: the second payment of USDC is refused, and the third has room then.
        less = structs.replace(made.assets[ANY_ASSET], windows=(Window(DAY, 6_000_000),))
        draft = structs.replace(made, assets=dict(made.assets) | {ANY_ASSET: less})
        found = await replay_stored(
            service.database, service.tokens, 30, policy(structs.replace(draft, id=grant_id(draft)))
        )
        assert [(each["type"], each["then"], each["now"]) for each in found["changes"]] == [
            ("token_transfer", "held", "refused"),
            ("token_transfer", "allowed", "refused"),
            ("token_transfer", "refused", "allowed"),
        ]
        # Of what the grants of then did not count in dollars no price is known.
        alone = structs.replace(made, assets={ANY_ASSET: less})
        found = await replay_stored(
            service.database, service.tokens, 30, policy(structs.replace(alone, id=grant_id(alone)))
        )
        unknown = [each["type"] for each in found["changes"] if each["now"] == "unknown"]
        assert unknown == ["swap", "transfer", "transfer", "wrap_sol"]
