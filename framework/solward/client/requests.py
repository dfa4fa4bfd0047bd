# Written by `make operations` from the declarations; change it there.
"""What the client asks for: one method a declared request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from solward.client.arguments import Amount
from solward.client.asking import Asking
from solward.resources import (
    agents,
    contacts,
    credentials,
    events,
    health,
    holds,
    lists,
    payments,
    plugin_state,
    plugins,
    policy,
    schedules,
    settings,
    switches,
    transactions,
    wallets,
)
from solward.resources.answers import Raw

Grants: TypeAlias = Sequence[Raw | str]


class Keys(Asking):
    """The declared requests."""

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
        return await self._asked(
            credentials.CREATE_KEY,
            name=name,
            wallet_id=wallet_id,
            permissions=permissions,
            rate_limit=rate_limit,
            spending_limit_sol=spending_limit_sol,
            max_costs_sol_per_day=max_costs_sol_per_day,
            grants=grants,
            read_only=read_only,
            expires_at=expires_at,
        )

    async def list(self, *, details: bool | None = None) -> tuple[credentials.ApiKey, ...]:
        """List API keys, the oldest first.

        Args:
            details: limits, what is spent of them and when each ends, too.
        """
        return await self._listed(credentials.LIST_KEYS, details=details)

    async def own(self) -> credentials.OwnKey:
        """The API key of this request, with its details."""
        return await self._asked(credentials.GET_OWN_KEY)

    async def rotate(
        self, key_id: str, *, overlap_seconds: int | None = None
    ) -> credentials.RotatedKey:
        """Give an API key another secret.

        Args:
            overlap_seconds: how long the secret it had goes on working; 3600 where it is None.
        """
        return await self._asked(credentials.ROTATE_KEY, key_id, overlap_seconds=overlap_seconds)

    async def revoke(self, key_id: str) -> credentials.Revoked:
        """Revoke an API key at once."""
        return await self._asked(credentials.REVOKE_KEY, key_id)


class Admins(Asking):
    """The declared requests."""

    async def create(
        self, *, name: str, role: str, expires_at: datetime | None = None
    ) -> credentials.CreatedAdmin:
        """Create an admin credential with a role.

        Args:
            name: who or what uses it; no other credential has it.
            role: what it may do.
            expires_at: when it ends by itself: ISO 8601 with a zone, in the future.
        """
        return await self._asked(
            credentials.CREATE_ADMIN, name=name, role=role, expires_at=expires_at
        )

    async def list(self) -> tuple[credentials.AdminCredential, ...]:
        """List the admin credentials, the oldest first."""
        return await self._listed(credentials.LIST_ADMINS)

    async def own(self) -> credentials.OwnAdmin:
        """What the credential of the request may do."""
        return await self._asked(credentials.OWN_ADMIN)

    async def revoke(self, admin_id: str) -> credentials.RevokedAdmin:
        """Revoke an admin credential at once."""
        return await self._asked(credentials.REVOKE_ADMIN, admin_id)


class Holds(Asking):
    """The declared requests."""

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
        return await self._listed(
            holds.LIST_HOLDS, wallet_id=wallet_id, is_open=is_open, limit=limit, before=before
        )

    async def get(self, hold_id: str) -> holds.Hold:
        """One hold."""
        return await self._asked(holds.GET_HOLD, hold_id)

    async def approve(self, hold_id: str, *, note: str | None = None) -> holds.Hold:
        """Approve what is held, once.

        Args:
            note: one line for the record.
        """
        return await self._asked(holds.APPROVE_HOLD, hold_id, note=note)

    async def deny(self, hold_id: str, *, note: str | None = None) -> holds.Hold:
        """Deny what is held, for good.

        Args:
            note: one line for the record.
        """
        return await self._asked(holds.DENY_HOLD, hold_id, note=note)


class Payments(Asking):
    """The declared requests."""

    async def list(
        self, *, wallet_id: str | None = None, limit: int | None = None, before: str | None = None
    ) -> tuple[payments.Payment, ...]:
        """What was paid for, the newest first.

        Args:
            wallet_id: only this wallet's.
            limit: how many at most; 50 where it is None.
            before: a payment's id: only older ones.
        """
        return await self._listed(
            payments.LIST_PAYMENTS, wallet_id=wallet_id, limit=limit, before=before
        )

    async def get(self, payment_id: str) -> payments.StoredPayment:
        """A payment and its answer."""
        return await self._asked(payments.GET_PAYMENT, payment_id)


class PolicyRequests(Asking):
    """The declared requests."""

    async def get(self) -> policy.Policy:
        """Who is under which grants."""
        return await self._asked(policy.GET_POLICY)

    async def replace(self, fields: Mapping[str, Any]) -> policy.Policy:
        """Put every principal under exactly these grants."""
        return await self._asked(policy.REPLACE_POLICY, fields=fields)

    async def of(self, principal: str) -> policy.PrincipalGrants:
        """The grants of one principal, such as `agent:scout`."""
        return await self._asked(policy.GET_GRANTS, principal)

    async def replay(self, *, days: int | None = None, draft: Any | None = None) -> policy.Replay:
        """What a draft would have changed in the last days; nothing changes.

        Args:
            days: how many days, from now back; 30 where it is None.
            draft: the policy; without one, that in force.
        """
        return await self._asked(policy.REPLAY_POLICY, days=days, draft=draft)

    async def check(self, fields: Mapping[str, Any]) -> policy.Policy:
        """What a policy would say; nothing changes."""
        return await self._asked(policy.CHECK_POLICY, fields=fields)


class AgentRequests(Asking):
    """The declared requests."""

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
        return await self._asked(
            agents.CREATE_AGENT,
            max_sol_per_transaction=max_sol_per_transaction,
            max_transactions_per_minute=max_transactions_per_minute,
            daily_spending_limit_sol=daily_spending_limit_sol,
            max_costs_sol_per_day=max_costs_sol_per_day,
            name=name,
            wallet_id=wallet_id,
            llm_provider=llm_provider,
            llm_model=llm_model,
            strategy=strategy,
            loop_interval_ms=loop_interval_ms,
            llm_options=llm_options,
            llm_budget=llm_budget,
            guardrails=guardrails,
            grants=grants,
            template=template,
        )

    async def templates(self) -> tuple[agents.AgentTemplate, ...]:
        """Starting points of agents."""
        return await self._listed(agents.LIST_AGENT_TEMPLATES)

    async def list(self) -> tuple[agents.Agent, ...]:
        """List agents."""
        return await self._listed(agents.LIST_AGENTS)

    async def get(self, agent_id: str) -> agents.Agent:
        """One agent."""
        return await self._asked(agents.GET_AGENT, agent_id)

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
        return await self._asked(
            agents.CHANGE_AGENT,
            agent_id,
            max_sol_per_transaction=max_sol_per_transaction,
            max_transactions_per_minute=max_transactions_per_minute,
            daily_spending_limit_sol=daily_spending_limit_sol,
            max_costs_sol_per_day=max_costs_sol_per_day,
            name=name,
            llm_provider=llm_provider,
            llm_model=llm_model,
            strategy=strategy,
            loop_interval_ms=loop_interval_ms,
            llm_options=llm_options,
            llm_budget=llm_budget,
            guardrails=guardrails,
            grants=grants,
        )

    async def delete(self, agent_id: str) -> lists.Deleted:
        """Delete an agent with its decisions and memory; its transactions stay."""
        return await self._asked(agents.DELETE_AGENT, agent_id)

    async def start(self, agent_id: str) -> agents.SwitchedAgent:
        """Start an agent, from any status."""
        return await self._asked(agents.START_AGENT, agent_id)

    async def stop(self, agent_id: str) -> agents.SwitchedAgent:
        """Stop an agent, once what it pays is recorded."""
        return await self._asked(agents.STOP_AGENT, agent_id)

    async def pause(self, agent_id: str) -> agents.SwitchedAgent:
        """Set a running agent aside."""
        return await self._asked(agents.PAUSE_AGENT, agent_id)

    async def decisions(
        self, agent_id: str, *, limit: int | None = None, before: int | None = None
    ) -> tuple[agents.Decision, ...]:
        """What an agent decided, the newest first.

        Args:
            limit: how many at most; 50 where it is None.
            before: a cycle: only older ones.
        """
        return await self._listed(agents.LIST_DECISIONS, agent_id, limit=limit, before=before)

    async def memory(self, agent_id: str, *, limit: int | None = None) -> tuple[agents.Memory, ...]:
        """What an agent remembers, the newest first.

        Args:
            limit: how many at most; 100 where it is None.
        """
        return await self._listed(agents.LIST_MEMORY, agent_id, limit=limit)

    async def limits(self, agent_id: str) -> Raw:
        """An agent's own limits, and what is spent of them."""
        return await self._raw(agents.GET_AGENT_LIMITS, agent_id)


class Contacts(Asking):
    """The declared requests."""

    async def list(self) -> tuple[contacts.Contact, ...]:
        """The address book: contacts by name, and behind them the members of the policy's
        groups."""
        return await self._listed(contacts.LIST_CONTACTS)

    async def put(self, *, name: str, address: str) -> contacts.Contact:
        """Name an address, or rename it.

        Args:
            name: what it is called.
            address: the recipient.
        """
        return await self._asked(contacts.PUT_CONTACT, name=name, address=address)

    async def remove(self, contact_id: str) -> contacts.Removed:
        """Take a recipient's name away."""
        return await self._asked(contacts.REMOVE_CONTACT, contact_id)


class PluginStateRequests(Asking):
    """The declared requests."""

    async def settings(self, skill: str) -> plugin_state.SkillSettings:
        """What is set for a plugin's skill."""
        return await self._asked(plugin_state.SHOW_SETTINGS, skill)

    async def unset(self, skill: str, name: str) -> plugin_state.SettingState:
        """Unset a setting of a plugin's skill."""
        return await self._asked(plugin_state.UNSET, skill, name)

    async def entries(
        self,
        wallet_id: str,
        plugin: str,
        *,
        prefix: Any | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> tuple[plugin_state.PluginEntry, ...]:
        """What a plugin keeps for a wallet, by key.

        Args:
            prefix: only keys that begin so.
            after: only keys after this one.
            limit: how many at most; 50 where it is None.
        """
        return await self._listed(
            plugin_state.LIST_ENTRIES, wallet_id, plugin, prefix=prefix, after=after, limit=limit
        )

    async def delete(self, wallet_id: str, plugin: str, *, key: str) -> plugin_state.DeletedEntry:
        """Delete an entry that a plugin keeps for a wallet.

        Args:
            key: the entry's key.
        """
        return await self._asked(plugin_state.DELETE_ENTRY, wallet_id, plugin, key=key)

    async def purge(self, *, plugin: str) -> plugin_state.Purged:
        """Delete all that a distribution's plugins keep, and all that is set for its skills.

        Args:
            plugin: the plugin's distribution.
        """
        return await self._asked(plugin_state.PURGE, plugin=plugin)


class TransactionRequests(Asking):
    """The declared requests."""

    async def get(self, transaction_id: str) -> transactions.Judged:
        """One record, why it was refused, and what its bytes could take."""
        return await self._asked(transactions.GET_TRANSACTION, transaction_id)

    async def refusals(
        self, *, wallet_id: str | None = None, limit: int | None = None
    ) -> transactions.Refusals:
        """What was refused and why, and how much of it in 24 hours.

        Args:
            wallet_id: only this wallet's.
            limit: how many at most; 50 where it is None.
        """
        return await self._asked(transactions.LIST_REFUSALS, wallet_id=wallet_id, limit=limit)


class Schedules(Asking):
    """The declared requests."""

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
        return await self._asked(
            schedules.CREATE_SCHEDULE,
            wallet_id,
            name=name,
            parameters=parameters,
            every=every,
            cron=cron,
            time_zone=time_zone,
            start_at=start_at,
            end_at=end_at,
            max_runs=max_runs,
            missed=missed,
            grants=grants,
            skill=skill,
        )

    async def list(self, wallet_id: str) -> tuple[schedules.Schedule, ...]:
        """A wallet's schedules, the oldest first."""
        return await self._listed(schedules.LIST_SCHEDULES, wallet_id)

    async def get(self, wallet_id: str, schedule_id: str) -> schedules.Schedule:
        """One schedule."""
        return await self._asked(schedules.GET_SCHEDULE, wallet_id, schedule_id)

    async def change(
        self, wallet_id: str, schedule_id: str, fields: Mapping[str, Any]
    ) -> schedules.Schedule:
        """Change fields, named as in the REST interface; null takes one away."""
        return await self._asked(schedules.CHANGE_SCHEDULE, wallet_id, schedule_id, fields=fields)

    async def delete(self, wallet_id: str, schedule_id: str) -> lists.Deleted:
        """Delete a schedule with its runs; its transactions stay."""
        return await self._asked(schedules.DELETE_SCHEDULE, wallet_id, schedule_id)

    async def pause(self, wallet_id: str, schedule_id: str) -> schedules.Schedule:
        """Run it no more until it is resumed; takes effect at once."""
        return await self._asked(schedules.PAUSE_SCHEDULE, wallet_id, schedule_id)

    async def resume(self, wallet_id: str, schedule_id: str) -> schedules.Schedule:
        """Run it again from the next due time on."""
        return await self._asked(schedules.RESUME_SCHEDULE, wallet_id, schedule_id)

    async def run(
        self, wallet_id: str, schedule_id: str, *, idempotency_key: str | None = None
    ) -> schedules.Schedule:
        """Run it once more, now.

        Args:
            idempotency_key: with the same one it happens once; None makes a new one.
        """
        return await self._asked(
            schedules.RUN_SCHEDULE, wallet_id, schedule_id, idempotency_key=idempotency_key
        )

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
        return await self._listed(
            schedules.LIST_RUNS, wallet_id, schedule_id, limit=limit, before=before
        )


class ServiceRequests(Asking):
    """The declared requests."""

    async def health(self) -> health.Health:
        """Is it up, which version, and does its ledger answer."""
        return await self._asked(health.GET_HEALTH)

    async def skills(self) -> tuple[plugins.Skill, ...]:
        """The loaded skills with their schemas."""
        return await self._listed(plugins.LIST_SKILLS)

    async def plugins(self) -> plugins.Plugins:
        """Loaded plugins, extra guardrails, and plugins that were left out."""
        return await self._asked(plugins.LIST_PLUGINS)

    async def settings(self) -> tuple[settings.Setting, ...]:
        """Every setting of this process."""
        return await self._listed(settings.LIST_SETTINGS)

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
        return await self._asked(
            events.LIST_AUDIT,
            types=types,
            wallet_id=wallet_id,
            agent_id=agent_id,
            principal=principal,
            since=since,
            until=until,
            limit=limit,
            before=before,
            after=after,
        )

    async def frozen(self, *, limit: int | None = None) -> switches.Frozen:
        """What is frozen, since when and why.

        Args:
            limit: how many at most; 50 where it is None.
        """
        return await self._asked(switches.LIST_FROZEN, limit=limit)

    async def freeze(
        self, *, wallet_id: str | None = None, reason: str | None = None
    ) -> switches.SwitchOn:
        """Stop every new transaction, of one wallet or of all.

        Args:
            wallet_id: one wallet; left out, the whole service.
            reason: shown to whoever is refused.
        """
        return await self._asked(switches.FREEZE, wallet_id=wallet_id, reason=reason)

    async def unfreeze(self, *, wallet_id: str | None = None) -> switches.Switch:
        """Allow transactions again.

        Args:
            wallet_id: one wallet; left out, the whole service.
        """
        return await self._asked(switches.UNFREEZE, wallet_id=wallet_id)


class WalletRequests(Asking):
    """The declared requests."""

    async def create(
        self, *, name: str | None = None, tags: Sequence[str] | None = None
    ) -> wallets.CreatedWallet:
        """Create a wallet.

        Args:
            name: what people call it; printable; external-wallet where it is None.
            tags: for people; doubles are left out.
        """
        return await self._asked(wallets.CREATE_WALLET, name=name, tags=tags)

    async def get(self, wallet_id: str) -> wallets.Wallet:
        """One wallet."""
        return await self._asked(wallets.GET_WALLET, wallet_id)

    async def tag(self, wallet_id: str, *, tags: Sequence[str] | None = None) -> wallets.Wallet:
        """Replace a wallet's tags.

        Args:
            tags: for people; doubles are left out.
        """
        return await self._asked(wallets.CHANGE_WALLET, wallet_id, tags=tags)

    async def balance(
        self, wallet_id: str, *, empty: bool | None = None, usd: bool | None = None
    ) -> wallets.Balance:
        """What a wallet holds on the ledger.

        Args:
            empty: tokens whose accounts are open and hold nothing, too.
            usd: what it is worth in dollars, too.
        """
        return await self._asked(wallets.GET_BALANCE, wallet_id, empty=empty, usd=usd)

    async def limits(self, wallet_id: str) -> Raw:
        """The service's limits for a wallet, and what is spent of them."""
        return await self._raw(wallets.GET_LIMITS, wallet_id)

    async def reclaimable(self, wallet_id: str) -> wallets.Reclaimable:
        """The rent that a wallet's token accounts can give back."""
        return await self._asked(wallets.GET_RECLAIMABLE, wallet_id)

    async def pockets(self, wallet_id: str) -> wallets.Pockets:
        """A wallet's pockets that may hold something, and what is at risk."""
        return await self._asked(wallets.GET_POCKETS, wallet_id)

    async def sweep_pocket(self, wallet_id: str, pocket_id: str) -> transactions.Transaction:
        """Take home what a pocket holds."""
        return await self._asked(wallets.SWEEP_POCKET, wallet_id, pocket_id)

    async def stakes(self, wallet_id: str) -> wallets.Stakes:
        """Stake accounts the wallet may unstake or withdraw."""
        return await self._asked(wallets.LIST_STAKES, wallet_id)
