# Written by `make operations` from the declarations; change it there.
"""What the client asks for: one method a declared request."""

# The bodies are of `asks`.
# mypy: disable-error-code="empty-body"
from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from solward.client.arguments import Amount
from solward.client.http import Asking, asks
from solward.resources import (
    agents,
    credentials,
    events,
    holds,
    payments,
    plugins,
    policy,
    schedules,
    service,
    shared,
    transactions,
    wallets,
)
from solward.resources.declare import Raw

Grants: TypeAlias = Sequence[Raw | str]


class Keys(Asking):
    """The declared requests."""

    @asks(credentials.CREATE_KEY)
    async def create(
        self,
        *,
        name: str,
        wallet_id: str | None = None,
        permissions: Sequence[str] | None = None,
        rate_limit: int | None = None,
        spending_limit_sol: Amount | None = None,
        max_costs_sol_per_day: Amount | None = None,
        grants: Grants | None = None,
        read_only: bool | None = None,
        expires_at: datetime | None = None,
    ) -> credentials.CreatedKey:
        """Create an API key.

        Args:
            name: what uses it, for people.
            wallet_id: the only wallet it may use; without one, all.
            permissions: stored, not enforced; read, write where it is None.
            rate_limit: transaction-producing requests in any 60 seconds; 10 where it is None.
            spending_limit_sol: SOL in any 24 hours over all wallets; at most 9 decimals; 5 where it
                is None.
            max_costs_sol_per_day: SOL of fees and rent in any 24 hours over all wallets; the
                service's `MAX_COSTS_SOL_PER_DAY` where it is None.
            grants: what it may do; `[]`: it only reads.
            read_only: it spends nothing and changes nothing; then without limits and grants.
            expires_at: when it ends by itself: ISO 8601 with a zone, in the future.
        """

    @asks(credentials.LIST_KEYS)
    async def list(self, *, details: bool | None = None) -> tuple[credentials.ApiKey, ...]:
        """List API keys, the oldest first.

        Args:
            details: limits, what is spent of them and when each ends, too.
        """

    @asks(credentials.GET_OWN_KEY)
    async def own(self) -> credentials.OwnKey:
        """The API key of this request, with its details."""

    @asks(credentials.ROTATE_KEY)
    async def rotate(
        self, key_id: str, *, overlap_seconds: int | None = None
    ) -> credentials.RotatedKey:
        """Give an API key another secret.

        Args:
            overlap_seconds: how long the secret it had goes on working; 3600 where it is None.
        """

    @asks(credentials.REVOKE_KEY)
    async def revoke(self, key_id: str) -> credentials.Revoked:
        """Revoke an API key at once."""


class Admins(Asking):
    """The declared requests."""

    @asks(credentials.CREATE_ADMIN)
    async def create(
        self, *, name: str, role: str, expires_at: datetime | None = None
    ) -> credentials.CreatedAdmin:
        """Create an admin credential with a role.

        Args:
            name: who or what uses it; no other credential has it.
            role: what it may do.
            expires_at: when it ends by itself: ISO 8601 with a zone, in the future.
        """

    @asks(credentials.LIST_ADMINS)
    async def list(self) -> tuple[credentials.AdminCredential, ...]:
        """List the admin credentials, the oldest first."""

    @asks(credentials.OWN_ADMIN)
    async def own(self) -> credentials.OwnAdmin:
        """What the credential of the request may do."""

    @asks(credentials.REVOKE_ADMIN)
    async def revoke(self, admin_id: str) -> credentials.RevokedAdmin:
        """Revoke an admin credential at once."""


class Holds(Asking):
    """The declared requests."""

    @asks(holds.LIST_HOLDS)
    async def list(
        self,
        *,
        wallet_id: str | None = None,
        is_open: bool | None = None,
        limit: int | None = None,
        before: str | None = None,
    ) -> tuple[holds.Hold, ...]:
        """What waits for a person, and what became of it, the newest first.

        Args:
            wallet_id: only this wallet's.
            is_open: only those that may still move money, or only the others.
            limit: how many at most; 50 where it is None.
            before: a hold's id: only older ones.
        """

    @asks(holds.GET_HOLD)
    async def get(self, hold_id: str) -> holds.Hold:
        """One hold."""

    @asks(holds.APPROVE_HOLD)
    async def approve(self, hold_id: str, *, note: str | None = None) -> holds.Hold:
        """Approve what is held, once.

        Args:
            note: one line for the record.
        """

    @asks(holds.DENY_HOLD)
    async def deny(self, hold_id: str, *, note: str | None = None) -> holds.Hold:
        """Deny what is held, for good.

        Args:
            note: one line for the record.
        """


class Payments(Asking):
    """The declared requests."""

    @asks(payments.LIST_PAYMENTS)
    async def list(
        self, *, wallet_id: str | None = None, limit: int | None = None, before: str | None = None
    ) -> tuple[payments.Payment, ...]:
        """What was paid for, the newest first.

        Args:
            wallet_id: only this wallet's.
            limit: how many at most; 50 where it is None.
            before: a payment's id: only older ones.
        """

    @asks(payments.GET_PAYMENT)
    async def get(self, payment_id: str) -> payments.StoredPayment:
        """A payment and its answer."""


class PolicyRequests(Asking):
    """The declared requests."""

    @asks(policy.GET_POLICY)
    async def get(self) -> policy.Policy:
        """Who is under which grants."""

    @asks(policy.REPLACE_POLICY)
    async def replace(self, fields: Mapping[str, Any]) -> policy.Policy:
        """Put every principal under exactly these grants."""

    @asks(policy.GET_GRANTS)
    async def of(self, principal: str) -> policy.PrincipalGrants:
        """The grants of one principal, such as `agent:scout`."""

    @asks(policy.REPLAY_POLICY)
    async def replay(self, *, days: int | None = None, draft: Any | None = None) -> policy.Replay:
        """What a draft would have changed in the last days; nothing changes.

        Args:
            days: how many days, from now back; 30 where it is None.
            draft: the policy; without one, that in force.
        """

    @asks(policy.CHECK_POLICY)
    async def check(self, fields: Mapping[str, Any]) -> policy.Policy:
        """What a policy would say; nothing changes."""


class AgentRequests(Asking):
    """The declared requests."""

    @asks(agents.CREATE_AGENT)
    async def create(
        self,
        *,
        max_sol_per_transaction: Amount | None = None,
        max_transactions_per_minute: int | None = None,
        daily_spending_limit_sol: Amount | None = None,
        max_costs_sol_per_day: Amount | None = None,
        name: str,
        wallet_id: str | None = None,
        llm_provider: str | None = None,
        llm_model: str | None = None,
        strategy: str | None = None,
        loop_interval_ms: int | None = None,
        llm_options: Mapping[str, Any] | None = None,
        llm_budget: Mapping[str, Any] | None = None,
        guardrails: Mapping[str, Any] | None = None,
        grants: Grants | None = None,
        template: str | None = None,
    ) -> agents.Agent:
        """Create an agent, idle.

        Args:
            max_sol_per_transaction: SOL in one transaction.
            max_transactions_per_minute: transactions in any 60 seconds.
            daily_spending_limit_sol: SOL in any 24 hours.
            max_costs_sol_per_day: SOL of fees and rent in any 24 hours; without one, the wallet's
                ceiling holds.
            name: for people.
            wallet_id: the wallet it uses; without one it gets a new one.
            llm_provider: a loaded provider.
            llm_model: the provider's model.
            strategy: what it is to do.
            loop_interval_ms: milliseconds from the start of a cycle to the next; 60000 where it is
                None.
            llm_options: by the provider's own schema.
            llm_budget: what its model may use.
            guardrails: its own limits; each may stand beside it instead.
            grants: what it may do; `[]`: it only reads.
            template: gives what is left out; `solward agent templates` lists them.
        """

    @asks(agents.LIST_AGENT_TEMPLATES)
    async def templates(self) -> tuple[agents.AgentTemplate, ...]:
        """Starting points of agents."""

    @asks(agents.LIST_AGENTS)
    async def list(self) -> tuple[agents.Agent, ...]:
        """List agents."""

    @asks(agents.GET_AGENT)
    async def get(self, agent_id: str) -> agents.Agent:
        """One agent."""

    @asks(agents.CHANGE_AGENT)
    async def change(
        self,
        agent_id: str,
        *,
        max_sol_per_transaction: Amount | None = None,
        max_transactions_per_minute: int | None = None,
        daily_spending_limit_sol: Amount | None = None,
        max_costs_sol_per_day: Amount | None = None,
        name: str | None = None,
        llm_provider: str | None = None,
        llm_model: str | None = None,
        strategy: str | None = None,
        loop_interval_ms: int | None = None,
        llm_options: Mapping[str, Any] | None = None,
        llm_budget: Mapping[str, Any] | None = None,
        guardrails: Mapping[str, Any] | None = None,
        grants: Grants | None = None,
    ) -> agents.Agent:
        """Change an agent; a running one goes by it from its next cycle.

        Args:
            max_sol_per_transaction: SOL in one transaction.
            max_transactions_per_minute: transactions in any 60 seconds.
            daily_spending_limit_sol: SOL in any 24 hours.
            max_costs_sol_per_day: SOL of fees and rent in any 24 hours; without one, the wallet's
                ceiling holds.
            name: for people.
            llm_provider: a loaded provider.
            llm_model: the provider's model.
            strategy: what it is to do.
            loop_interval_ms: milliseconds from the start of a cycle to the next.
            llm_options: by the provider's own schema.
            llm_budget: what its model may use.
            guardrails: its own limits; each may stand beside it instead.
            grants: what it may do; `[]`: it only reads.
        """

    @asks(agents.DELETE_AGENT)
    async def delete(self, agent_id: str) -> shared.Deleted:
        """Delete an agent with its decisions and memory; its transactions stay."""

    @asks(agents.START_AGENT)
    async def start(self, agent_id: str) -> agents.SwitchedAgent:
        """Start an agent, from any status."""

    @asks(agents.STOP_AGENT)
    async def stop(self, agent_id: str) -> agents.SwitchedAgent:
        """Stop an agent, once what it pays is recorded."""

    @asks(agents.PAUSE_AGENT)
    async def pause(self, agent_id: str) -> agents.SwitchedAgent:
        """Set a running agent aside."""

    @asks(agents.GET_AGENT_LIMITS)
    async def limits(self, agent_id: str) -> Raw:
        """An agent's own limits, and what is spent of them."""

    @asks(agents.LIST_DECISIONS)
    async def decisions(
        self, agent_id: str, *, limit: int | None = None, before: int | None = None
    ) -> tuple[agents.Decision, ...]:
        """What an agent decided, the newest first.

        Args:
            limit: how many at most; 50 where it is None.
            before: a cycle: only older ones.
        """

    @asks(agents.LIST_MEMORY)
    async def memory(self, agent_id: str, *, limit: int | None = None) -> tuple[agents.Memory, ...]:
        """What an agent remembers, the newest first.

        Args:
            limit: how many at most; 100 where it is None.
        """


class Contacts(Asking):
    """The declared requests."""

    @asks(policy.LIST_CONTACTS)
    async def list(self) -> tuple[policy.Contact, ...]:
        """The address book: contacts by name, and behind them the members of the policy's
        groups."""

    @asks(policy.PUT_CONTACT)
    async def put(self, *, name: str, address: str) -> policy.Contact:
        """Name an address, or rename it.

        Args:
            name: what it is called.
            address: the recipient.
        """

    @asks(policy.REMOVE_CONTACT)
    async def remove(self, contact_id: str) -> policy.Removed:
        """Take a recipient's name away."""


class PluginStateRequests(Asking):
    """The declared requests."""

    @asks(plugins.SHOW_SETTINGS)
    async def settings(self, skill: str) -> plugins.SkillSettings:
        """What is set for a plugin's skill."""

    @asks(plugins.UNSET)
    async def unset(self, skill: str, name: str) -> plugins.SettingState:
        """Unset a setting of a plugin's skill."""

    @asks(plugins.LIST_ENTRIES)
    async def entries(
        self,
        wallet_id: str,
        plugin: str,
        *,
        prefix: Any | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> tuple[plugins.PluginEntry, ...]:
        """What a plugin keeps for a wallet, by key.

        Args:
            prefix: only keys that begin so.
            after: only keys after this one.
            limit: how many at most; 50 where it is None.
        """

    @asks(plugins.DELETE_ENTRY)
    async def delete(self, wallet_id: str, plugin: str, *, key: str) -> plugins.DeletedEntry:
        """Delete an entry that a plugin keeps for a wallet.

        Args:
            key: the entry's key.
        """

    @asks(plugins.PURGE)
    async def purge(self, *, plugin: str) -> plugins.Purged:
        """Delete all that a distribution's plugins keep, and all that is set for its skills.

        Args:
            plugin: the plugin's distribution.
        """


class TransactionRequests(Asking):
    """The declared requests."""

    @asks(transactions.GET_TRANSACTION)
    async def get(self, transaction_id: str) -> transactions.Judged:
        """One record, why it was refused, and what its bytes could take."""

    @asks(transactions.LIST_REFUSALS)
    async def refusals(
        self, *, wallet_id: str | None = None, limit: int | None = None
    ) -> transactions.Refusals:
        """What was refused and why, and how much of it in 24 hours.

        Args:
            wallet_id: only this wallet's.
            limit: how many at most; 50 where it is None.
        """


class Schedules(Asking):
    """The declared requests."""

    @asks(schedules.CREATE_SCHEDULE)
    async def create(
        self,
        wallet_id: str,
        *,
        name: str,
        parameters: Mapping[str, Any] | None = None,
        every: str | None = None,
        cron: str | None = None,
        time_zone: str | None = None,
        start_at: datetime | str | None = None,
        end_at: datetime | str | None = None,
        max_runs: int | None = None,
        missed: str | None = None,
        grants: Grants | None = None,
        skill: str,
    ) -> schedules.Schedule:
        """Run a skill on a wallet at times; a name is a wallet's once.

        Args:
            name: for people; one of a wallet has it, so that the same request again makes no second
                schedule.
            parameters: of the skill, as its schema says; at most 16,384 characters as JSON.
            every: the time from due time to due time, "1m" to "30d"; either this or `cron`.
            cron: five fields: minute, hour, day of month, month, day of week, such as `0 9 1 * *`.
            time_zone: in which `cron` is read, an IANA name; UTC where it is left out.
            start_at: no due time is earlier; `every` counts from here. ISO 8601 with a zone.
            end_at: no due time is later. ISO 8601 with a zone.
            max_runs: it ends after so many runs.
            missed: what becomes of due times at which nothing ran; skip where it is None.
            grants: what alone it may do; the operator's alone to set.
            skill: one that `GET /skills` lists.
        """

    @asks(schedules.LIST_SCHEDULES)
    async def list(self, wallet_id: str) -> tuple[schedules.Schedule, ...]:
        """A wallet's schedules, the oldest first."""

    @asks(schedules.GET_SCHEDULE)
    async def get(self, wallet_id: str, schedule_id: str) -> schedules.Schedule:
        """One schedule."""

    @asks(schedules.CHANGE_SCHEDULE)
    async def change(
        self, wallet_id: str, schedule_id: str, fields: Mapping[str, Any]
    ) -> schedules.Schedule:
        """Change fields, named as in the REST interface; null takes one away."""

    @asks(schedules.DELETE_SCHEDULE)
    async def delete(self, wallet_id: str, schedule_id: str) -> shared.Deleted:
        """Delete a schedule with its runs; its transactions stay."""

    @asks(schedules.PAUSE_SCHEDULE)
    async def pause(self, wallet_id: str, schedule_id: str) -> schedules.Schedule:
        """Run it no more until it is resumed; takes effect at once."""

    @asks(schedules.RESUME_SCHEDULE)
    async def resume(self, wallet_id: str, schedule_id: str) -> schedules.Schedule:
        """Run it again from the next due time on."""

    @asks(schedules.RUN_SCHEDULE)
    async def run(
        self, wallet_id: str, schedule_id: str, *, idempotency_key: str | None = None
    ) -> schedules.Schedule:
        """Run it once more, now.

        Args:
            idempotency_key: with the same one it happens once; None makes a new one.
        """

    @asks(schedules.LIST_RUNS)
    async def runs(
        self,
        wallet_id: str,
        schedule_id: str,
        *,
        limit: int | None = None,
        before: datetime | None = None,
    ) -> tuple[schedules.ScheduleRun, ...]:
        """What became of a schedule's due times, the newest first.

        Args:
            limit: how many at most; 50 where it is None.
            before: the `dueAt` of a run: only older ones.
        """


class ServiceRequests(Asking):
    """The declared requests."""

    @asks(service.GET_HEALTH)
    async def health(self) -> service.Health:
        """Is it up, which version, and does its ledger answer."""

    @asks(service.LIST_SETTINGS)
    async def settings(self) -> tuple[service.Setting, ...]:
        """Every setting of this process."""

    @asks(service.LIST_FROZEN)
    async def frozen(self, *, limit: int | None = None) -> service.Frozen:
        """What is frozen, since when and why.

        Args:
            limit: how many at most; 50 where it is None.
        """

    @asks(service.FREEZE)
    async def freeze(
        self, *, wallet_id: str | None = None, reason: str | None = None
    ) -> service.SwitchOn:
        """Stop every new transaction, of one wallet or of all.

        Args:
            wallet_id: one wallet; left out, the whole service.
            reason: shown to whoever is refused.
        """

    @asks(service.UNFREEZE)
    async def unfreeze(self, *, wallet_id: str | None = None) -> service.Switch:
        """Allow transactions again.

        Args:
            wallet_id: one wallet; left out, the whole service.
        """

    @asks(plugins.LIST_SKILLS)
    async def skills(self) -> tuple[plugins.Skill, ...]:
        """The loaded skills with their schemas."""

    @asks(plugins.LIST_PLUGINS)
    async def plugins(self) -> plugins.Plugins:
        """Loaded plugins, extra guardrails, and plugins that were left out."""

    @asks(events.LIST_AUDIT)
    async def audit(
        self,
        *,
        types: Sequence[str] | None = None,
        wallet_id: str | None = None,
        agent_id: str | None = None,
        principal: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        before: int | None = None,
        after: int | None = None,
    ) -> events.AuditPage:
        """Entries of the audit log, or those that fit a filter.

        Args:
            types: only these kinds of events.
            wallet_id: only entries of this wallet.
            agent_id: only entries of this agent.
            principal: only what it asked for: `admin`, `key:<id>`; commands take names, too.
            since: only entries of this moment or later.
            until: only entries before this moment.
            limit: how many at most; 50 where it is None.
            before: a number in the log: only older entries.
            after: a number in the log: only newer entries.
        """


class WalletRequests(Asking):
    """The declared requests."""

    @asks(wallets.CREATE_WALLET)
    async def create(
        self, *, name: str | None = None, tags: Sequence[str] | None = None
    ) -> wallets.CreatedWallet:
        """Create a wallet.

        Args:
            name: what people call it; printable; external-wallet where it is None.
            tags: for people; doubles are left out.
        """

    @asks(wallets.GET_WALLET)
    async def get(self, wallet_id: str) -> wallets.Wallet:
        """One wallet."""

    @asks(wallets.CHANGE_WALLET)
    async def tag(self, wallet_id: str, *, tags: Sequence[str] | None = None) -> wallets.Wallet:
        """Replace a wallet's tags.

        Args:
            tags: for people; doubles are left out.
        """

    @asks(wallets.GET_BALANCE)
    async def balance(
        self, wallet_id: str, *, empty: bool | None = None, usd: bool | None = None
    ) -> wallets.Balance:
        """What a wallet holds on the ledger.

        Args:
            empty: tokens whose accounts are open and hold nothing, too.
            usd: what it is worth in dollars, too.
        """

    @asks(wallets.GET_LIMITS)
    async def limits(self, wallet_id: str) -> Raw:
        """The service's limits for a wallet, and what is spent of them."""

    @asks(wallets.GET_RECLAIMABLE)
    async def reclaimable(self, wallet_id: str) -> wallets.Reclaimable:
        """The rent that a wallet's token accounts can give back."""

    @asks(wallets.GET_POCKETS)
    async def pockets(self, wallet_id: str) -> wallets.Pockets:
        """A wallet's pockets that may hold something, and what is at risk."""

    @asks(wallets.SWEEP_POCKET)
    async def sweep_pocket(self, wallet_id: str, pocket_id: str) -> transactions.Transaction:
        """Take home what a pocket holds."""

    @asks(wallets.LIST_STAKES)
    async def stakes(self, wallet_id: str) -> wallets.Stakes:
        """Stake accounts the wallet may unstake or withdraw."""
