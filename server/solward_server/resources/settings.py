"""The settings of this process: values, defaults and origins, and no secret."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward.resources.fields import nullable
from solward.resources.schema import array, choice, flag, response_object, text
from solward.settings.report import report
from solward.settings.settings import Origin
from solward.types.roles import Role
from solward_server.http.auth import Access, admin
from solward_server.http.route_context import RouteContext
from solward_server.openapi.operation import operation, success


def blueprint(context: RouteContext) -> Blueprint:
    """`GET /settings`."""
    routes = Blueprint("settings", __name__)

    @routes.get("/settings")
    @admin(Role.READ)
    async def listing() -> dict[str, Any]:
        return {
            "settings": [
                {
                    "name": each.name,
                    "value": each.value,
                    "default": each.default,
                    "source": each.origin.value,
                    "secret": each.secret,
                    "set": each.is_set,
                    "ceiling": each.ceiling,
                }
                for each in report(context.service.settings)
            ]
        }

    return routes


PATHS = {
    "/settings": {
        "get": operation(
            "listSettings",
            "Every setting of this process",
            tag="settings",
            access=Access.ADMIN,
            description="As docs/configuration.md lists them. They are read once, at the start; "
            "of a secret only whether it is set, of an address that somebody set scheme, host and "
            "port.",
            response=success(
                response_object(
                    {
                        "settings": array(
                            response_object(
                                {
                                    "name": text("The environment variable."),
                                    "value": nullable(
                                        text("In force; null of a secret, and where it has none.")
                                    ),
                                    "default": nullable(text("With the others as they are.")),
                                    "source": choice("Where the value comes from.", *Origin),
                                    "secret": flag("Its value is shown to nobody."),
                                    "set": flag("Whether somebody gave it a value."),
                                    "ceiling": flag("No request, grant, agent or key exceeds it."),
                                }
                            )
                        )
                    }
                ),
                {
                    "settings": [
                        {
                            "name": "MAX_SOL_PER_TRANSACTION",
                            "value": "0.5",
                            "default": "2",
                            "source": "environment",
                            "secret": False,
                            "set": True,
                            "ceiling": True,
                        },
                        {
                            "name": "API_SECRET",
                            "value": None,
                            "default": None,
                            "source": ".env",
                            "secret": True,
                            "set": True,
                            "ceiling": False,
                        },
                    ]
                },
            ),
        )
    }
}
