"""The routes: a module for each resource, or for some that belong together, with their handlers and
their part of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable

from quart import Blueprint

from solward_server.http.route_context import RouteContext
from solward_server.openapi.route import Routes
from solward_server.resources import (
    agents,
    credentials,
    events,
    holds,
    operations,
    payments,
    plugins,
    policy,
    schedules,
    service,
    skills,
    totals,
    transactions,
    wallets,
)

PREFIX = "/api/v1"

ROUTES: tuple[Routes, ...] = (
    service.health,
    credentials.keys,
    credentials.admins,
    wallets.routes,
    transactions.routes,
    totals.routes,
    policy.contacts,
    payments.routes,
    operations.quotes,
    wallets.stakes,
    skills.routes,
    schedules.routes,
    plugins.routes,
    agents.routes,
    holds.routes,
    policy.routes,
    service.switches,
    service.settings,
    events.routes,
)
BLUEPRINTS: tuple[Callable[[RouteContext], Blueprint], ...] = (
    *(each.blueprint for each in ROUTES),
    skills.runs.blueprint,
    operations.blueprint,
)
