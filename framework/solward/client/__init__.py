"""A typed, asynchronous client of a running service, over its REST interface.

    async with SolwardClient("http://127.0.0.1:3001", token) as client:
        wallet = await client.wallets.find("treasury")
        sent = await client.wallets.transfer(wallet.id, to=address, amount=Decimal("0.5"))

This module is the client's public surface.
"""

from __future__ import annotations

from solward.client.arguments import Amount
from solward.client.client import SolwardClient
from solward.client.errors import (
    AmbiguousName,
    ApiError,
    BadAnswer,
    BadRequest,
    BadSignature,
    ClientError,
    Conflict,
    Forbidden,
    Held,
    NotFoundError,
    RateLimited,
    Refused,
    ServerError,
    Unauthorized,
    Unreachable,
)
from solward.client.operations import Operations
from solward.client.webhook import (
    AlertDelivery,
    Delivery,
    SignedDecision,
    sign_decision,
    verify_alerts,
    verify_delivery,
)
from solward.resources.agents import Agent, AgentTemplate, Decision, Memory
from solward.resources.credentials import (
    AdminCredential,
    ApiKey,
    CreatedAdmin,
    CreatedKey,
    KeyDetails,
    RotatedKey,
)
from solward.resources.events import AuditEntry, AuditFilter, AuditPage, Event
from solward.resources.holds import Hold
from solward.resources.payments import PaidAnswer, Payment, PaymentQuote
from solward.resources.plugins import (
    AcceptedPlugin,
    Plugin,
    PluginDistribution,
    PluginProblem,
    Plugins,
    Skill,
)
from solward.resources.policy import Contact, Policy, PrincipalGrants
from solward.resources.schedules import Schedule, ScheduleRun
from solward.resources.service import Frozen, FrozenWallet, Health, Setting, SwapQuote, Switch
from solward.resources.transactions import (
    Judged,
    NetworkFee,
    Refusals,
    Transaction,
    TransactionFilter,
    TransactionPage,
    Trial,
)
from solward.resources.wallets import (
    Balance,
    CreatedWallet,
    Pocket,
    Reclaimable,
    Stake,
    TokenBalance,
    Wallet,
)

__all__ = [
    "AcceptedPlugin",
    "AdminCredential",
    "Agent",
    "AgentTemplate",
    "AlertDelivery",
    "AmbiguousName",
    "Amount",
    "ApiError",
    "ApiKey",
    "AuditEntry",
    "AuditFilter",
    "AuditPage",
    "BadAnswer",
    "BadRequest",
    "BadSignature",
    "Balance",
    "ClientError",
    "Conflict",
    "Contact",
    "CreatedAdmin",
    "CreatedKey",
    "CreatedWallet",
    "Decision",
    "Delivery",
    "Event",
    "Forbidden",
    "Frozen",
    "FrozenWallet",
    "Health",
    "Held",
    "Hold",
    "Judged",
    "KeyDetails",
    "Memory",
    "NetworkFee",
    "NotFoundError",
    "Operations",
    "PaidAnswer",
    "Payment",
    "PaymentQuote",
    "Plugin",
    "PluginDistribution",
    "PluginProblem",
    "Plugins",
    "Pocket",
    "Policy",
    "PrincipalGrants",
    "RateLimited",
    "Reclaimable",
    "Refusals",
    "Refused",
    "RotatedKey",
    "Schedule",
    "ScheduleRun",
    "ServerError",
    "Setting",
    "SignedDecision",
    "Skill",
    "SolwardClient",
    "Stake",
    "SwapQuote",
    "Switch",
    "TokenBalance",
    "Transaction",
    "TransactionFilter",
    "TransactionPage",
    "Trial",
    "Unauthorized",
    "Unreachable",
    "Wallet",
    "sign_decision",
    "verify_alerts",
    "verify_delivery",
]
