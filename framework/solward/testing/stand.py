"""A whole service with an embedded ledger in a temporary home, and wallets that hold SOL."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

from solward.context import SkillContext
from solward.plugins import LoadedProvider, LoadedSkill, run_skill
from solward.plugins.folders.layout import canonical
from solward.service.service import Solward
from solward.settings import Settings
from solward.solana.balances import Balances
from solward.testing.canaries import Canaries
from solward.testing.targets import target_of
from solward.types.errors import InvalidRequest
from solward.types.money import sol_to_lamports
from solward.types.record import TransactionRecord
from solward.types.skill import Effects
from solward.vault.custody import Wallet
from solward.vault.money.request import ADMIN
from solward_localnet.node import Localnet

# Enough for several transactions of the default limit of 2 SOL.
WALLET_SOL = 10
# A test makes more transactions in a minute than an agent may.
PER_MINUTE = 1_000


@dataclass(frozen=True, slots=True)
class TestWallet:
    """A managed wallet of a stand; its transactions pass the real engine and guardrails."""

    __test__ = False  # pytest must not collect it as a class of tests

    stand: Stand = field(repr=False)
    record: Wallet

    @property
    def id(self) -> str:
        """The wallet's id in the store."""
        return self.record.id

    @property
    def name(self) -> str:
        """The wallet's name."""
        return self.record.name

    @property
    def address(self) -> str:
        """The wallet's base58 address."""
        return self.record.address

    def context(
        self,
        skill: object,
        *,
        effects: Effects | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> SkillContext:
        """Return a skill's context on this wallet; `effects` replace the skill's declared effects.

        Args:
            settings: settings for only this context, in addition to the declared defaults. `run`
                uses the settings of `Stand.set_settings` instead.

        Raises:
            InvalidRequest: if it declares no such setting, or the value does not fit.
            SkillError: `settings_missing` if a required setting is not given.
        """
        loaded = self.stand.skill(skill)
        given = checked_settings(loaded, settings or {})
        if loaded.settings is not None:
            given = loaded.settings.complete(loaded.spec.name, given)
        if effects is not None:
            loaded = replace(loaded, spec=replace(loaded.spec, effects=effects))
        return self.stand.service.skill_runs.context(loaded, self.record, ADMIN, settings=given)

    async def run(self, skill: object, /, **params: Any) -> str:
        """Run a skill as the service does (validate, time out, execute); return the outcome's text.

        Raises:
            InvalidRequest: if the parameters do not fit its schema.
            SolwardError: the refusal of the skill, the guardrails or the ledger.
        """
        loaded = self.stand.skill(skill)
        service = self.stand.service
        settings = await service.plugin_state.settings_of(loaded)
        context = service.skill_runs.context(loaded, self.record, ADMIN, settings=settings)
        return await run_skill(loaded, params, context, emit=service.events.publish)

    async def balances(self) -> Balances:
        """Return the wallet's SOL and tokens."""
        return await self.stand.service.holdings.balances(self.id)

    async def lamports(self) -> int:
        """Return the wallet's SOL in lamports."""
        return await self.stand.service.ledger.balance(self.address)

    async def records(self) -> list[TransactionRecord]:
        """Return the wallet's stored transactions, newest first, including refused ones."""
        return await self.stand.service.history.newest(self.id, limit=500)

    async def fund(self, sol: Decimal | int) -> None:
        """Add SOL to the wallet by airdrop, which no limit applies to."""
        await self.stand.fund(self.address, sol)


@dataclass(slots=True, eq=False)
class Stand:
    """An open service and its ledger."""

    service: Solward
    canaries: Canaries = field(repr=False)

    @property
    def localnet(self) -> Localnet:
        """The embedded ledger: `call` for JSON-RPC, `advance_slots` and `advance_epochs`."""
        assert self.service.localnet is not None
        return self.service.localnet

    async def wallet(
        self, name: str = "test-wallet", *, sol: Decimal | int = WALLET_SOL
    ) -> TestWallet:
        """Return a new managed wallet that holds `sol` SOL."""
        file = json.dumps(list(bytes(self.canaries.keypair())))
        wallet = TestWallet(self, await self.service.wallets.import_keypair(file, name))
        if sol:
            await wallet.fund(sol)
        return wallet

    async def fund(self, address: str, sol: Decimal | int) -> None:
        """Add SOL to any account by airdrop."""
        await self.localnet.call("requestAirdrop", [address, sol_to_lamports(sol)])

    def skill(self, skill: object) -> LoadedSkill:
        """Return a skill by its name, or from a module that need not be installed.

        Raises:
            InvalidRequest: if there is none, or it does not load; says why.
        """
        if isinstance(skill, LoadedSkill):
            return skill
        if isinstance(skill, str) and skill in self.service.live.registry.skills:
            return self.service.live.registry.skills[skill]
        target = target_of(skill)
        if target.problem is not None:
            raise InvalidRequest(str(target.problem))
        if not isinstance(target.loaded, LoadedSkill):
            raise InvalidRequest(f"target: {target.name!r} is a {target.kind}, not a skill")
        return target.loaded

    async def set_settings(self, skill: object, settings: Mapping[str, Any]) -> None:
        """Set settings of a skill, as `solward plugins settings set` does; its next call gets them.

        Raises:
            InvalidRequest: if it declares no such setting, or the value does not fit; names it.
        """
        loaded = self.skill(skill)
        for name, value in checked_settings(loaded, settings).items():
            assert loaded.settings is not None
            is_secret = name in loaded.settings.secrets
            await self.service.plugin_state.settings.put(
                canonical(loaded.distribution), loaded.spec.name, name, value, secret=is_secret
            )

    def install(self, *plugins: object) -> None:
        """Load skills and providers that are not installed, for the service and its agents.

        Raises:
            InvalidRequest: if one of them does not load, or is neither a skill nor a provider.
        """
        registry = self.service.live.registry
        skills, providers = dict(registry.skills), dict(registry.providers)
        for plugin in plugins:
            target = target_of(plugin)
            if target.problem is not None:
                raise InvalidRequest(str(target.problem))
            if isinstance(target.loaded, LoadedSkill):
                skills[target.name] = target.loaded
            elif isinstance(target.loaded, LoadedProvider):
                providers[target.name] = target.loaded
            else:
                raise InvalidRequest(f"target: {target.name!r} is a {target.kind}")
        self.service.live.registry = replace(
            registry, skills=MappingProxyType(skills), providers=MappingProxyType(providers)
        )


@asynccontextmanager
async def open_stand(
    home: Path,
    *,
    plugins: Iterable[object] = (),
    canaries: Canaries | None = None,
    genesis: Mapping[Pubkey, Account] = MappingProxyType({}),
    **settings: Any,
) -> AsyncIterator[Stand]:
    """Open a service on a ledger of its own in `home`, without any network.

    Args:
        plugins: plugins to load besides the installed ones, as for `Stand.install`.
        canaries: creates the private keys of the wallets.
        genesis: accounts of its ledger in addition to the demo market's, programs among them.
        settings: fields of `Settings`; all but the rate of transactions have the default limits.
    """
    chosen = Settings(_env_file=None, **{**_default_settings(), **settings, "solward_home": home})
    async with Solward.open(chosen, demo=True, genesis=genesis) as service:
        stand = Stand(service, canaries or Canaries())
        stand.install(*plugins)
        yield stand


def checked_settings(skill: LoadedSkill, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in the form in which the service stores them.

    Raises:
        InvalidRequest: if the skill declares no such setting, or the value does not fit; names it.
    """
    if skill.settings is None:
        if settings:
            raise InvalidRequest(f"settings: the skill {skill.spec.name} declares none")
        return {}
    try:
        return {name: skill.settings.checked_value(name, value) for name, value in settings.items()}
    except InvalidRequest as error:
        raise InvalidRequest(f"settings: {error}") from None


def _default_settings() -> dict[str, Any]:
    """Return the default of every setting, so that a test never uses the database, the ledger or
    the keys in an operator's environment."""
    defaults: dict[str, Any] = {}
    for name, setting in Settings.model_fields.items():
        # Some defaults depend on earlier settings.
        defaults[name] = setting.get_default(call_default_factory=True, validated_data=defaults)
    return defaults | {"max_transactions_per_minute": PER_MINUTE}
