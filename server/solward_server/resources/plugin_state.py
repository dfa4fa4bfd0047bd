"""What plugins keep for wallets, and what is set for their skills: the operator's alone."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from quart import Blueprint

from solward.plugins.discovery import canonical
from solward.resources.fields import nullable
from solward.resources.schema import (
    array,
    flag,
    identifier,
    request_object,
    response_object,
    text,
    timestamp,
    whole,
)
from solward.support.clock import iso
from solward.types.entries import MAX_KEY, MAX_LISTED, Entry
from solward.types.errors import InvalidRequest
from solward.types.roles import Role
from solward_server.http.auth import Access, admin
from solward_server.http.body import query_limit, query_text, read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.operation import operation, request_body, success
from solward_server.openapi.parameters import WALLET_ID, path_parameter, query

_LONGEST_NAME = 200


def blueprint(context: RouteContext) -> Blueprint:
    """`/plugins/skills/:skill/settings`, `/wallets/:id/plugins/:plugin/store` and
    `/plugins/state`."""
    routes = Blueprint("plugin_state", __name__)
    service = context.service

    @routes.get("/plugins/skills/<skill>/settings")
    @admin(Role.READ)
    async def settings(skill: str) -> dict[str, Any]:
        return await service.plugin_state.shown(skill)

    @routes.put("/plugins/skills/<skill>/settings/<name>")
    @admin(Role.POLICY)
    async def put(skill: str, name: str) -> dict[str, Any]:
        body = await read_body()
        if "value" not in body:
            raise InvalidRequest("value is required")
        await service.plugin_state.set(skill, name, body["value"])
        return {"skill": skill, "name": name, "set": True}

    @routes.delete("/plugins/skills/<skill>/settings/<name>")
    @admin(Role.POLICY)
    async def unset(skill: str, name: str) -> dict[str, Any]:
        await service.plugin_state.unset(skill, name)
        return {"skill": skill, "name": name, "set": False}

    @routes.get("/wallets/<wallet_id>/plugins/<plugin>/store")
    @admin(Role.READ)
    async def entries(wallet_id: str, plugin: str) -> dict[str, Any]:
        prefix, after = query_text("prefix") or "", query_text("after")
        limit = query_limit(highest=MAX_LISTED)
        found = await service.plugin_state.entries(_named(plugin), wallet_id, prefix, after, limit)
        return {"entries": [_shown(each) for each in found]}

    @routes.delete("/wallets/<wallet_id>/plugins/<plugin>/store")
    @admin(Role.POLICY)
    async def forget(wallet_id: str, plugin: str) -> dict[str, Any]:
        key = query_text("key")
        if key is None:
            raise InvalidRequest("key is required")
        deleted = await service.plugin_state.delete_entry(_named(plugin), wallet_id, key)
        return {"plugin": canonical(plugin), "key": key, "deleted": deleted}

    @routes.delete("/plugins/state")
    @admin(Role.POLICY)
    async def purge() -> dict[str, Any]:
        plugin = query_text("plugin")
        if plugin is None:
            raise InvalidRequest("plugin is required")
        purged = await service.plugin_state.purge(_named(plugin))
        return {"plugin": canonical(plugin)} | asdict(purged)

    return routes


def _named(plugin: str) -> str:
    if not 0 < len(plugin) <= _LONGEST_NAME:
        raise InvalidRequest(f"plugin must be a string of 1 to {_LONGEST_NAME} characters")
    return plugin


def _shown(entry: Entry) -> dict[str, Any]:
    return {
        "key": entry.key,
        "value": entry.value,
        "version": entry.version,
        "changedAt": iso(entry.changed_ms),
        "transactionId": entry.transaction_id,
        "status": None if entry.status is None else entry.status.value,
    }


_SKILL = path_parameter("skill", text("The skill's name.", 64), "transfer")
_NAME = path_parameter("name", text("The setting's name.", 200), "signingKey")
_DISTRIBUTION = text("The plugin's distribution.", _LONGEST_NAME)
_PLUGIN = path_parameter("plugin", _DISTRIBUTION, "acme-tools")
_KEY = query("key", text("The entry's key.", MAX_KEY), required=True)
_SET = response_object(
    {
        "skill": text("As given."),
        "name": text("As given."),
        "set": flag("Whether it is set now."),
    }
)
_NO_SKILL = "No skill named 'nope'; known: airdrop, transfer"
_NO_SETTINGS = "The skill transfer declares no settings"

PATHS = {
    "/plugins/skills/{skill}/settings": {
        "get": operation(
            "getPluginSettings",
            "What is set for a plugin's skill",
            tag="plugins",
            access=Access.ADMIN,
            description="Of a secret only whether it is set.",
            parameters=[_SKILL],
            response=success(
                response_object(
                    {
                        "skill": text("As given."),
                        "distribution": text("The skill's."),
                        "schema": {
                            "type": "object",
                            "description": "JSON Schema of all.",
                            "additionalProperties": True,
                        },
                        "settings": array(
                            response_object(
                                {
                                    "name": text("Its name."),
                                    "secret": flag("Stored sealed, and never shown."),
                                    "set": flag("Whether it is set."),
                                    "value": {"description": "Where it is set and no secret."},
                                },
                                optional=["value"],
                            )
                        ),
                    }
                ),
                {
                    "skill": "price_alert",
                    "distribution": "acme-tools",
                    "schema": {"type": "object", "properties": {}, "additionalProperties": False},
                    "settings": [
                        {"name": "repeatHours", "secret": False, "set": True, "value": 12},
                        {"name": "signingKey", "secret": True, "set": True},
                    ],
                },
            ),
            errors={400: _NO_SETTINGS, 404: _NO_SKILL},
        )
    },
    "/plugins/skills/{skill}/settings/{name}": {
        "put": operation(
            "setPluginSetting",
            "Set a setting of a plugin's skill",
            tag="plugins",
            access=Access.ADMIN,
            description="From the skill's next call on. The audit log does not have the value.",
            parameters=[_SKILL, _NAME],
            body=request_body(
                request_object(
                    {"value": {"description": "As the skill's schema has it."}},
                    required=["value"],
                ),
                {"value": 12},
            ),
            response=success(_SET, {"skill": "price_alert", "name": "repeatHours", "set": True}),
            errors={400: ["value is required", _NO_SETTINGS], 404: _NO_SKILL},
        ),
        "delete": operation(
            "unsetPluginSetting",
            "Unset a setting of a plugin's skill",
            tag="plugins",
            access=Access.ADMIN,
            parameters=[_SKILL, _NAME],
            response=success(_SET, {"skill": "price_alert", "name": "repeatHours", "set": False}),
            errors={400: _NO_SETTINGS, 404: _NO_SKILL},
        ),
    },
    "/wallets/{walletId}/plugins/{plugin}/store": {
        "get": operation(
            "listPluginEntries",
            "What a plugin keeps for a wallet",
            tag="plugins",
            access=Access.ADMIN,
            parameters=[
                WALLET_ID,
                _PLUGIN,
                query("prefix", text("Only keys that begin so.", MAX_KEY, minLength=0)),
                query("after", text("Only keys after this one.", MAX_KEY)),
                query("limit", whole("How many at most.", 1, MAX_LISTED, default=50)),
            ],
            response=success(
                response_object(
                    {
                        "entries": array(
                            response_object(
                                {
                                    "key": text("Its key."),
                                    "value": {"description": "Any JSON."},
                                    "version": whole("Grows with each write.", 1, 2**53 - 1),
                                    "changedAt": timestamp("When it was written."),
                                    "transactionId": nullable(
                                        identifier("The record that remembered it.")
                                    ),
                                    "status": nullable(text("Of that record.")),
                                }
                            )
                        )
                    }
                ),
                {
                    "entries": [
                        {
                            "key": "last",
                            "value": {"period": 20780},
                            "version": 3,
                            "changedAt": "2026-11-23T10:34:55.814Z",
                            "transactionId": None,
                            "status": None,
                        }
                    ]
                },
            ),
            errors={400: "prefix must be text of printable ASCII", 404: NO_WALLET},
        ),
        "delete": operation(
            "deletePluginEntry",
            "Delete an entry that a plugin keeps for a wallet",
            tag="plugins",
            access=Access.ADMIN,
            description="What it made the plugin leave undone, it may do again. The audit log says "
            "which one was deleted, and not its value.",
            parameters=[WALLET_ID, _PLUGIN, _KEY],
            response=success(
                response_object(
                    {
                        "plugin": text("The distribution."),
                        "key": text("As given."),
                        "deleted": flag("Whether it was there."),
                    }
                ),
                {"plugin": "acme-tools", "key": "last", "deleted": True},
            ),
            errors={400: "key is required", 404: NO_WALLET},
        ),
    },
    "/plugins/state": {
        "delete": operation(
            "purgePlugin",
            "Delete all that a distribution's plugins keep, and all that is set for its skills",
            tag="plugins",
            access=Access.ADMIN,
            description="For every wallet, not to be undone. Only of a distribution of which "
            "nothing is loaded. Its files are deleted by `solward plugins remove --purge` alone.",
            parameters=[query("plugin", _DISTRIBUTION, required=True)],
            response=success(
                response_object(
                    {
                        "plugin": text("The distribution."),
                        "entries": whole("How many entries were deleted.", 0, 2**53 - 1),
                        "settings": whole("How many settings were deleted.", 0, 2**53 - 1),
                    }
                ),
                {"plugin": "acme-tools", "entries": 12, "settings": 2},
            ),
            errors={
                400: [
                    "plugin is required",
                    "acme-tools is loaded (tip): remove or disable it first",
                ]
            },
        )
    },
}
