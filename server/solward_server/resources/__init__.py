"""The routes: one module a resource, with its handlers and its part of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable

from quart import Blueprint

from solward_server.http.route_context import RouteContext
from solward_server.openapi.route import Routes
from solward_server.resources import (
    admins,
    agents,
    chat,
    contacts,
    events,
    health,
    holds,
    keys,
    operations,
    payments,
    plugin_state,
    plugins,
    policy,
    quotes,
    schedules,
    settings,
    skills,
    stakes,
    switches,
    transactions,
    wallets,
)

PREFIX = "/api/v1"

ROUTES: tuple[Routes, ...] = (
    health.routes,
    keys.routes,
    admins.routes,
    wallets.routes,
    transactions.routes,
    contacts.routes,
    payments.routes,
    quotes.routes,
    stakes.routes,
    skills.routes,
    schedules.routes,
    plugins.routes,
    plugin_state.routes,
    agents.routes,
    chat.routes,
    holds.routes,
    policy.routes,
    switches.routes,
    settings.routes,
    events.routes,
)
BLUEPRINTS: tuple[Callable[[RouteContext], Blueprint], ...] = (
    *(each.blueprint for each in ROUTES),
    skills.runs.blueprint,
    operations.blueprint,
)
