"""The routes: one module a resource, with its handlers and its part of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable

from quart import Blueprint

from solward_server.http.route_context import RouteContext
from solward_server.openapi.route import Routes
from solward_server.resources import (
    agents,
    chat,
    contacts,
    credentials,
    events,
    health,
    holds,
    operations,
    payments,
    plugin_state,
    plugins,
    policy,
    schedules,
    settings,
    skills,
    switches,
    transactions,
    wallets,
)

PREFIX = "/api/v1"

ROUTES: tuple[Routes, ...] = (
    health.routes,
    credentials.keys,
    credentials.admins,
    wallets.routes,
    transactions.routes,
    contacts.routes,
    payments.routes,
    operations.quotes,
    wallets.stakes,
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
