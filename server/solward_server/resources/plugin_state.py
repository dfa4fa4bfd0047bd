"""What plugins keep for wallets, and what is set for their skills: the operator's alone."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from solward.plugins.discovery import canonical
from solward.resources import plugins as calls
from solward.resources.declare import answer_json
from solward.types.errors import InvalidRequest
from solward.types.roles import Role
from solward_server.http.auth import admin
from solward_server.http.body import query_of, read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.route import Routes

_NO_VALUE = "value is required"
_NO_SETTINGS = "The skill transfer declares no settings"

routes = Routes("plugins", "What is loaded.")


@routes.serve(calls.SHOW_SETTINGS, admin(Role.READ), {400: _NO_SETTINGS})
async def settings(context: RouteContext, skill: str) -> dict[str, Any]:
    return await context.service.plugin_state.shown(skill)


@routes.serve(calls.SET, admin(Role.POLICY), {400: [_NO_VALUE, _NO_SETTINGS]})
async def put(context: RouteContext, skill: str, name: str) -> dict[str, Any]:
    body = await read_body()
    # Null is a value where the skill's schema takes it.
    if "value" not in body:
        raise InvalidRequest(_NO_VALUE)
    await context.service.plugin_state.set(skill, name, body["value"])
    return {"skill": skill, "name": name, "set": True}


@routes.serve(calls.UNSET, admin(Role.POLICY), {400: _NO_SETTINGS})
async def unset(context: RouteContext, skill: str, name: str) -> dict[str, Any]:
    await context.service.plugin_state.unset(skill, name)
    return {"skill": skill, "name": name, "set": False}


@routes.serve(calls.LIST_ENTRIES, admin(Role.READ), {400: "prefix must be text of printable ASCII"})
async def entries(context: RouteContext, wallet_id: str, plugin: str) -> dict[str, Any]:
    only = query_of(calls.ListedEntries)
    found = await context.service.plugin_state.entries(
        _named(plugin), wallet_id, only.prefix or "", only.after, only.limit
    )
    return {"entries": [answer_json(calls.PluginEntry, each) for each in found]}


@routes.serve(calls.DELETE_ENTRY, admin(Role.POLICY))
async def forget(context: RouteContext, wallet_id: str, plugin: str) -> dict[str, Any]:
    key = query_of(calls.OneEntry).key
    deleted = await context.service.plugin_state.delete_entry(_named(plugin), wallet_id, key)
    return {"plugin": canonical(plugin), "key": key, "deleted": deleted}


@routes.serve(
    calls.PURGE,
    admin(Role.POLICY),
    {400: "acme-tools is loaded (tip): remove or disable it first"},
)
async def purge(context: RouteContext) -> dict[str, Any]:
    plugin = query_of(calls.OnePlugin).plugin
    purged = await context.service.plugin_state.purge(plugin)
    return {"plugin": canonical(plugin)} | asdict(purged)


def _named(plugin: str) -> str:
    return calls.OnePlugin.of({"plugin": plugin}).plugin
