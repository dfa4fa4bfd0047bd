"""The routes: one module a resource, with its handlers and its part of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable

from quart import Blueprint

from solward_server.http.route_context import RouteContext
from solward_server.resources import (
    admins,
    agent_templates,
    agents,
    chat,
    contacts,
    events,
    health,
    hold_webhook,
    holds,
    keys,
    operations,
    payments,
    plugin_state,
    plugins,
    policy,
    quotes,
    refusals,
    schedules,
    settings,
    skills,
    stakes,
    switches,
    transactions,
    wallets,
)

PREFIX = "/api/v1"

BLUEPRINTS: tuple[Callable[[RouteContext], Blueprint], ...] = (
    health.routes.blueprint,
    keys.routes.blueprint,
    admins.routes.blueprint,
    wallets.routes.blueprint,
    transactions.blueprint,
    refusals.blueprint,
    contacts.routes.blueprint,
    operations.blueprint,
    payments.blueprint,
    quotes.routes.blueprint,
    stakes.routes.blueprint,
    skills.routes.blueprint,
    skills.runs.blueprint,
    schedules.routes.blueprint,
    plugins.routes.blueprint,
    plugin_state.routes.blueprint,
    agents.routes.blueprint,
    agent_templates.blueprint,
    chat.routes.blueprint,
    holds.routes.blueprint,
    hold_webhook.blueprint,
    policy.blueprint,
    switches.routes.blueprint,
    settings.routes.blueprint,
    events.routes.blueprint,
)
