"""The settings of this process: values, defaults and origins, and no secret."""

from __future__ import annotations

from typing import Any

from solward.resources.service import LIST_SETTINGS
from solward.settings.report import report
from solward.types.roles import Role
from solward_server.http.auth import admin
from solward_server.http.route_context import RouteContext
from solward_server.openapi.route import Routes

routes = Routes("settings", "What the service was started with.")


@routes.serve(LIST_SETTINGS, admin(Role.READ))
async def listing(context: RouteContext) -> dict[str, Any]:
    return {"settings": list(report(context.service.settings))}
