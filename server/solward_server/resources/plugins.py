"""Routes of loaded plugins, and of problems of plugins that were left out. Only the operator can
use the routes of plugins' entries and of their skills' settings."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from solward.plugins import Registry
from solward.plugins.discovery import Place
from solward.plugins.folders.layout import canonical
from solward.plugins.loaded import LoadedProvider
from solward.resources import plugins as calls
from solward.resources.declare import answer_json
from solward.resources.plugins import LIST_PLUGINS, PluginProblem, Wheel
from solward.settings import Settings
from solward.types.errors import InvalidRequest
from solward.types.manifest import ProblemCode, Terms, manifest_json, terms_json
from solward.types.roles import Role
from solward_server.http.auth import admin, keyed
from solward_server.http.body import query_of, read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.route import Routes

_NO_VALUE = "value is required"
_NO_SETTINGS = "The skill transfer declares no settings"

routes = Routes("plugins", "Loaded plugins, their settings and entries.")


@routes.serve(LIST_PLUGINS, keyed(Role.READ))
async def list_plugins(context: RouteContext) -> dict[str, Any]:
    return plugins_report(context.service.live.registry, context.service.settings)


def plugins_report(registry: Registry, settings: Settings) -> dict[str, Any]:
    """Return plugins by kind, plugins' guardrails, and problems of plugins that were left out."""
    loaded: list[dict[str, Any]] = [
        {
            "kind": kind,
            "name": name,
            "distribution": plugin.distribution,
            "version": plugin.version,
            "manifest": manifest_json(Terms.from_spec(plugin.spec).manifest),
            "secrets": _secrets_json(Terms.from_spec(plugin.spec), settings),
        }
        | (_provider_json(plugin, settings) if kind == "provider" else {})
        | ({"hasSettings": plugin.settings is not None} if kind == "skill" else {})
        for kind, name, plugin in registry.all_plugins()
        if kind != "guardrail"
    ]
    wrong = {
        canonical(each.distribution)
        for each in registry.problems
        if each.code is not ProblemCode.DISABLED
    }
    return {
        "plugins": loaded,
        "distributions": [
            _place_json(place, canonical(place.distribution) in wrong, settings)
            for place in registry.places
        ],
        "guardrails": [guardrail.name for guardrail in registry.guardrails],
        "problems": [answer_json(PluginProblem, each) for each in registry.problems],
    }


def _place_json(place: Place, wrong: bool, settings: Settings) -> dict[str, Any]:
    own = place.installed
    enabled = own is None or own.enabled
    return {
        "name": place.distribution,
        "version": place.version,
        "ownFolder": own is not None,
        "enabled": enabled,
        "state": "disabled" if not enabled else "problem" if wrong else "loaded",
        "accepted": []
        if own is None
        else [
            {"plugin": plugin} | terms_json(terms) | {"secrets": _secrets_json(terms, settings)}
            for plugin, terms in own.accepted.items()
        ],
        "wheels": [] if own is None else [answer_json(Wheel, each) for each in own.wheels],
        "trust": place.trust,
    }


def _secrets_json(terms: Terms, settings: Settings) -> list[dict[str, Any]]:
    unset = settings.unset(terms)
    return [{"env": name, "set": name not in unset} for name in terms.secrets()]


def _provider_json(plugin: LoadedProvider, settings: Settings) -> dict[str, Any]:
    """Return a provider's model and options, and whether its key is set; never the key."""
    spec = plugin.spec
    return {
        "defaultModel": spec.default_model,
        "options": dict(spec.options),
        "isLlm": spec.is_llm,
        "secretEnv": spec.secret_env,
        "baseUrlEnv": spec.base_url_env,
        "configured": settings.configured(spec),
    }


@routes.serve(calls.SHOW_SETTINGS, admin(Role.READ), {400: _NO_SETTINGS})
async def settings(context: RouteContext, skill: str) -> dict[str, Any]:
    return await context.service.plugin_state.public_settings(skill)


@routes.serve(calls.SET, admin(Role.POLICY), {400: [_NO_VALUE, _NO_SETTINGS]})
async def put(context: RouteContext, skill: str, name: str) -> dict[str, Any]:
    body = await read_body()
    # Null is a value if the skill's schema allows it.
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
        _plugin_name(plugin), wallet_id, only.prefix or "", only.after, only.limit
    )
    return {"entries": [answer_json(calls.PluginEntry, each) for each in found]}


@routes.serve(calls.DELETE_ENTRY, admin(Role.POLICY))
async def forget(context: RouteContext, wallet_id: str, plugin: str) -> dict[str, Any]:
    key = query_of(calls.OneEntry).key
    deleted = await context.service.plugin_state.delete_entry(_plugin_name(plugin), wallet_id, key)
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


def _plugin_name(plugin: str) -> str:
    return calls.OnePlugin.of({"plugin": plugin}).plugin
