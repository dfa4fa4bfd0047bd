# Written by `make operations` from the declarations; change it there.
"""Requests of the client: one method for each declared call."""

# The bodies are of `asks`.
# mypy: disable-error-code="empty-body"
from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from solward.client.arguments import Amount
from solward.client.http import RequestMaker, asks
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
    totals,
    transactions,
    wallets,
)
from solward.resources.declare import Raw

Grants: TypeAlias = Sequence[Raw | str]


class Keys(RequestMaker):
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
            name: name of the key, for people.
            wallet_id: the only wallet that the key may use; default all wallets.
            permissions: stored, but not enforced; read, write where it is None.
            rate_limit: maximum requests that make transactions, in any 60 seconds; 10 where it is
                None.
            spending_limit_sol: maximum SOL in any 24 hours over all wallets; at most 9 decimals; 5
                where it is None.
            max_costs_sol_per_day: maximum SOL for fees and rent in any 24 hours over all wallets;
                the service's `MAX_COSTS_SOL_PER_DAY` where it is None.
            grants: grants of the key; with `[]` it can only read.
            read_only: the key can only read; not allowed with limits or grants.
            expires_at: when the credential expires, in the future.
        """

    @asks(credentials.LIST_KEYS)
    async def list(self, *, details: bool | None = None) -> tuple[credentials.ApiKey, ...]:
        """List API keys, oldest first.

        Args:
            details: include each key's expiry, limits and use of limits.
        """

    @asks(credentials.GET_OWN_KEY)
    async def own(self) -> credentials.OwnKey:
        """Get the request's own API key, with its details."""

    @asks(credentials.ROTATE_KEY)
    async def rotate(
        self, key_id: str, *, overlap_seconds: int | None = None
    ) -> credentials.RotatedKey:
        """Replace an API key's secret.

        Args:
            overlap_seconds: seconds for which the old secret still works; 3600 where it is None.
        """

    @asks(credentials.REVOKE_KEY)
    async def revoke(self, key_id: str) -> credentials.Revoked:
        """Revoke an API key at once."""


class Admins(RequestMaker):
    """The declared requests."""

    @asks(credentials.CREATE_ADMIN)
    async def create(
        self, *, name: str, role: str, expires_at: datetime | None = None
    ) -> credentials.CreatedAdmin:
        """Create an admin credential with a role.

        Args:
            name: unique name.
            role: role of the credential.
            expires_at: when the credential expires, in the future.
        """

    @asks(credentials.LIST_ADMINS)
    async def list(self) -> tuple[credentials.AdminCredential, ...]:
        """List admin credentials, oldest first."""

    @asks(credentials.OWN_ADMIN)
    async def own(self) -> credentials.OwnAdmin:
        """Get the role of the request's own admin credential."""

    @asks(credentials.REVOKE_ADMIN)
    async def revoke(self, admin_id: str) -> credentials.RevokedAdmin:
        """Revoke an admin credential at once."""


class Holds(RequestMaker):
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
        """List holds, newest first.

        Args:
            wallet_id: only holds of this wallet.
            is_open: true: only holds that may still move money; false: only ended holds.
            limit: maximum number of entries; 50 where it is None.
            before: only holds older than this hold.
        """

    @asks(holds.GET_HOLD)
    async def get(self, hold_id: str) -> holds.Hold:
        """Get a hold."""

    @asks(holds.APPROVE_HOLD)
    async def approve(self, hold_id: str, *, note: str | None = None) -> holds.Hold:
        """Approve a held transaction.

        Args:
            note: a note for the audit log, one line.
        """

    @asks(holds.DENY_HOLD)
    async def deny(self, hold_id: str, *, note: str | None = None) -> holds.Hold:
        """Deny a held transaction, for good.

        Args:
            note: a note for the audit log, one line.
        """


class Payments(RequestMaker):
    """The declared requests."""

    @asks(payments.LIST_PAYMENTS)
    async def list(
        self, *, wallet_id: str | None = None, limit: int | None = None, before: str | None = None
    ) -> tuple[payments.Payment, ...]:
        """List payments, newest first.

        Args:
            wallet_id: only entries of this wallet.
            limit: maximum number of entries; 50 where it is None.
            before: only payments older than this payment.
        """

    @asks(payments.GET_PAYMENT)
    async def get(self, payment_id: str) -> payments.StoredPayment:
        """Get a payment and the seller's answer."""


class PolicyRequests(RequestMaker):
    """The declared requests."""

    @asks(policy.GET_POLICY)
    async def get(self) -> policy.Policy:
        """Get the policy: all grants and the address book."""

    @asks(policy.REPLACE_POLICY)
    async def replace(self, fields: Mapping[str, Any]) -> policy.Policy:
        """Replace the policy."""

    @asks(policy.GET_GRANTS)
    async def of(self, principal: str) -> policy.PrincipalGrants:
        """Get the grants of one principal, such as `agent:scout`."""

    @asks(policy.REPLAY_POLICY)
    async def replay(
        self, *, days: int | None = None, newest: int | None = None, draft: Any | None = None
    ) -> policy.Replay:
        """Judge past transactions by a draft policy; nothing changes.

        Args:
            days: days of past transactions; 30 where it is None.
            newest: the number of transactions to judge, the newest; default all.
            draft: the draft policy; default the policy in force.
        """

    @asks(policy.CHECK_POLICY)
    async def check(self, fields: Mapping[str, Any]) -> policy.Policy:
        """Check a draft policy; nothing changes."""

    @asks(policy.READ_GRANT)
    async def read(self, *, sentence: str) -> policy.GrantReadings:
        """Read a grant in a person's own words; nothing changes.

        Args:
            sentence: what may leave, in a person's own words.
        """


class AgentRequests(RequestMaker):
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
        """Create an agent without starting it.

        Args:
            max_sol_per_transaction: maximum SOL in one transaction.
            max_transactions_per_minute: maximum transactions in any 60 seconds.
            daily_spending_limit_sol: maximum SOL in any 24 hours.
            max_costs_sol_per_day: maximum SOL for fees and rent in any 24 hours; default the
                wallet's limit.
            name: name of the agent.
            wallet_id: the agent's wallet; default a new wallet.
            llm_provider: name of a loaded provider.
            llm_model: name of the provider's model.
            strategy: the agent's instructions.
            loop_interval_ms: milliseconds from the start of a cycle to the next; 60000 where it is
                None.
            llm_options: options that the provider's schema defines.
            llm_budget: limits on the model's use.
            guardrails: the agent's own limits, which may also be fields of the body.
            grants: grants of the agent; with `[]` it can only read.
            template: template for absent fields; `solward agent templates` lists templates.
        """

    @asks(agents.LIST_AGENT_TEMPLATES)
    async def templates(self) -> tuple[agents.AgentTemplate, ...]:
        """List agent templates."""

    @asks(agents.LIST_AGENTS)
    async def list(self) -> tuple[agents.Agent, ...]:
        """List agents."""

    @asks(agents.GET_AGENT)
    async def get(self, agent_id: str) -> agents.Agent:
        """Get an agent."""

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
        """Change an agent, from its next cycle on.

        Args:
            max_sol_per_transaction: maximum SOL in one transaction.
            max_transactions_per_minute: maximum transactions in any 60 seconds.
            daily_spending_limit_sol: maximum SOL in any 24 hours.
            max_costs_sol_per_day: maximum SOL for fees and rent in any 24 hours; default the
                wallet's limit.
            name: name of the agent.
            llm_provider: name of a loaded provider.
            llm_model: name of the provider's model.
            strategy: the agent's instructions.
            loop_interval_ms: milliseconds from the start of a cycle to the next.
            llm_options: options that the provider's schema defines.
            llm_budget: limits on the model's use.
            guardrails: the agent's own limits, which may also be fields of the body.
            grants: grants of the agent; with `[]` it can only read.
        """

    @asks(agents.DELETE_AGENT)
    async def delete(self, agent_id: str) -> shared.Deleted:
        """Delete an agent with its decisions and memory, but not its transactions."""

    @asks(agents.START_AGENT)
    async def start(self, agent_id: str) -> agents.SwitchedAgent:
        """Start or resume an agent."""

    @asks(agents.STOP_AGENT)
    async def stop(self, agent_id: str) -> agents.SwitchedAgent:
        """Stop an agent, after finishing a payment in progress."""

    @asks(agents.PAUSE_AGENT)
    async def pause(self, agent_id: str) -> agents.SwitchedAgent:
        """Pause a running agent."""

    @asks(agents.GET_AGENT_LIMITS)
    async def limits(self, agent_id: str) -> Raw:
        """Get an agent's own limits, and their use."""

    @asks(agents.LIST_DECISIONS)
    async def decisions(
        self, agent_id: str, *, limit: int | None = None, before: int | None = None
    ) -> tuple[agents.Decision, ...]:
        """List an agent's decisions, newest first.

        Args:
            limit: maximum number of entries; 50 where it is None.
            before: only cycles before this number.
        """

    @asks(agents.LIST_MEMORY)
    async def memory(self, agent_id: str, *, limit: int | None = None) -> tuple[agents.Memory, ...]:
        """List an agent's memory, newest first.

        Args:
            limit: maximum number of entries; 100 where it is None.
        """


class Contacts(RequestMaker):
    """The declared requests."""

    @asks(policy.LIST_CONTACTS)
    async def list(self) -> tuple[policy.Contact, ...]:
        """List contacts, then the members of the policy's groups."""

    @asks(policy.PUT_CONTACT)
    async def put(self, *, name: str, address: str) -> policy.Contact:
        """Add or rename a contact.

        Args:
            name: name of the contact.
            address: the recipient's address.
        """

    @asks(policy.REMOVE_CONTACT)
    async def remove(self, contact_id: str) -> policy.Removed:
        """Remove a contact."""


class PluginStateRequests(RequestMaker):
    """The declared requests."""

    @asks(plugins.SHOW_SETTINGS)
    async def settings(self, skill: str) -> plugins.SkillSettings:
        """Get the settings of a plugin's skill."""

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
        """List the entries that a plugin keeps for a wallet.

        Args:
            prefix: only keys with this prefix.
            after: only keys after this key.
            limit: maximum number of entries; 50 where it is None.
        """

    @asks(plugins.DELETE_ENTRY)
    async def delete(self, wallet_id: str, plugin: str, *, key: str) -> plugins.DeletedEntry:
        """Delete an entry that a plugin keeps for a wallet.

        Args:
            key: the entry's key.
        """

    @asks(plugins.PURGE)
    async def purge(self, *, plugin: str) -> plugins.Purged:
        """Delete all entries of a distribution's plugins, and all settings of its skills.

        Args:
            plugin: the plugin's distribution.
        """


class TransactionRequests(RequestMaker):
    """The declared requests."""

    @asks(transactions.GET_TRANSACTION)
    async def get(self, transaction_id: str) -> transactions.Judged:
        """Get a record, with its refusal and the maximum that could leave."""

    @asks(transactions.LIST_REFUSALS)
    async def refusals(
        self, *, wallet_id: str | None = None, limit: int | None = None
    ) -> transactions.Refusals:
        """List refusals with reasons.

        Args:
            wallet_id: only entries of this wallet.
            limit: maximum number of entries; 50 where it is None.
        """


class Schedules(RequestMaker):
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
        """Create a schedule, whose name is unique for its wallet.

        Args:
            name: name, unique per wallet, so that a repeated request creates no second schedule.
            parameters: the skill's parameters; at most 16,384 characters as JSON.
            every: interval between due times, "1m" to "30d"; give either this or `cron`.
            cron: five fields: minute, hour, day of month, month, day of week, such as `0 9 1 * *`.
            time_zone: IANA time zone of `cron`; default UTC.
            start_at: earliest due time; `every` counts from here. ISO 8601 with a zone.
            end_at: latest due time. ISO 8601 with a zone.
            max_runs: number of runs after which the schedule ends.
            missed: what to do about missed due times: skip them, or run once; skip where it is
                None.
            grants: grants of the schedule; only an admin may set them.
            skill: name of a skill that `GET /skills` lists.
        """

    @asks(schedules.LIST_SCHEDULES)
    async def list(self, wallet_id: str) -> tuple[schedules.Schedule, ...]:
        """List a wallet's schedules, oldest first."""

    @asks(schedules.GET_SCHEDULE)
    async def get(self, wallet_id: str, schedule_id: str) -> schedules.Schedule:
        """Get a schedule."""

    @asks(schedules.CHANGE_SCHEDULE)
    async def change(
        self, wallet_id: str, schedule_id: str, fields: Mapping[str, Any]
    ) -> schedules.Schedule:
        """Change a schedule; a field that is null is cleared."""

    @asks(schedules.DELETE_SCHEDULE)
    async def delete(self, wallet_id: str, schedule_id: str) -> shared.Deleted:
        """Delete a schedule with its runs, but not its transactions."""

    @asks(schedules.PAUSE_SCHEDULE)
    async def pause(self, wallet_id: str, schedule_id: str) -> schedules.Schedule:
        """Pause a schedule at once, until it is resumed."""

    @asks(schedules.RESUME_SCHEDULE)
    async def resume(self, wallet_id: str, schedule_id: str) -> schedules.Schedule:
        """Resume a schedule from its next due time."""

    @asks(schedules.RUN_SCHEDULE)
    async def run(
        self, wallet_id: str, schedule_id: str, *, idempotency_key: str | None = None
    ) -> schedules.Schedule:
        """Run a schedule once, now.

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
        """List a schedule's runs, newest first.

        Args:
            limit: maximum number of entries; 50 where it is None.
            before: only runs due before this `dueAt`.
        """


class ServiceRequests(RequestMaker):
    """The declared requests."""

    @asks(service.GET_HEALTH)
    async def health(self) -> service.Health:
        """Get the health of the service and its ledger."""

    @asks(service.LIST_SETTINGS)
    async def settings(self) -> tuple[service.Setting, ...]:
        """List every setting of this process."""

    @asks(service.LIST_FROZEN)
    async def frozen(self, *, limit: int | None = None) -> service.Frozen:
        """List frozen wallets, and whether the service is frozen.

        Args:
            limit: maximum number of entries; 50 where it is None.
        """

    @asks(service.FREEZE)
    async def freeze(
        self, *, wallet_id: str | None = None, reason: str | None = None
    ) -> service.SwitchOn:
        """Stop all new transactions of one wallet or of every wallet.

        Args:
            wallet_id: one wallet; default the whole service.
            reason: reason, shown in every refusal.
        """

    @asks(service.UNFREEZE)
    async def unfreeze(self, *, wallet_id: str | None = None) -> service.Switch:
        """Allow transactions again.

        Args:
            wallet_id: one wallet; default the whole service.
        """

    @asks(totals.GET_DAY_TOTALS)
    async def day_totals(self) -> totals.DayTotals:
        """Get sums of 24 hours over all wallets."""

    @asks(totals.GET_BALANCE_TOTALS)
    async def balance_totals(self) -> totals.BalanceTotals:
        """Get the balances of all wallets together, and what can leave."""

    @asks(plugins.LIST_SKILLS)
    async def skills(self) -> tuple[plugins.Skill, ...]:
        """List the loaded skills."""

    @asks(plugins.LIST_PLUGINS)
    async def plugins(self) -> plugins.Plugins:
        """List plugins, and problems with them."""

    @asks(events.LIST_AUDIT)
    async def audit(
        self,
        *,
        types: Sequence[str] | None = None,
        wallet_id: str | None = None,
        agent_id: str | None = None,
        principal: str | None = None,
        about: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        before: int | None = None,
        after: int | None = None,
    ) -> events.AuditPage:
        """List entries of the audit log, newest first.

        Args:
            types: only these kinds of events.
            wallet_id: only entries of this wallet.
            agent_id: only entries of this agent.
            principal: only requests of this principal: `admin`, `key:<id>`; commands accept names,
                too.
            about: only entries of the record, hold or payment with this id.
            since: only entries from this time on.
            until: only entries before this time.
            limit: maximum number of entries; 50 where it is None.
            before: only entries with a lower number.
            after: only entries with a higher number.
        """


class WalletRequests(RequestMaker):
    """The declared requests."""

    @asks(wallets.CREATE_WALLET)
    async def create(
        self, *, name: str | None = None, tags: Sequence[str] | None = None
    ) -> wallets.CreatedWallet:
        """Create a wallet.

        Args:
            name: name of the wallet; printable characters; external-wallet where it is None.
            tags: labels for people; duplicates are removed.
        """

    @asks(wallets.GET_WALLET)
    async def get(self, wallet_id: str) -> wallets.Wallet:
        """Get a wallet."""

    @asks(wallets.CHANGE_WALLET)
    async def tag(self, wallet_id: str, *, tags: Sequence[str] | None = None) -> wallets.Wallet:
        """Replace a wallet's tags.

        Args:
            tags: labels for people; duplicates are removed.
        """

    @asks(wallets.GET_BALANCE)
    async def balance(
        self, wallet_id: str, *, empty: bool | None = None, usd: bool | None = None
    ) -> wallets.Balance:
        """Get a wallet's balance from the ledger.

        Args:
            empty: include tokens whose accounts are empty.
            usd: include values in dollars.
        """

    @asks(wallets.GET_LIMITS)
    async def limits(self, wallet_id: str) -> Raw:
        """Get the service's limits for a wallet, and their use."""

    @asks(wallets.SET_CEILINGS)
    async def set_ceilings(self, wallet_id: str, fields: Mapping[str, Any]) -> Raw:
        """Set a wallet's own ceilings; null lifts one."""

    @asks(wallets.GET_RECLAIMABLE)
    async def reclaimable(self, wallet_id: str) -> wallets.Reclaimable:
        """List the rent that a wallet's token accounts can give back."""

    @asks(wallets.GET_POCKETS)
    async def pockets(self, wallet_id: str) -> wallets.Pockets:
        """List a wallet's pockets that may hold funds, and the amounts at risk."""

    @asks(wallets.SWEEP_POCKET)
    async def sweep_pocket(self, wallet_id: str, pocket_id: str) -> transactions.Transaction:
        """Move everything that a pocket holds back to its wallet."""

    @asks(wallets.LIST_STAKES)
    async def stakes(self, wallet_id: str) -> wallets.Stakes:
        """List the stakes that a wallet may unstake or withdraw."""
