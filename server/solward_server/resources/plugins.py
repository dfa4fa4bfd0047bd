"""Loaded plugins, and the problems of those that were left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quart import Blueprint

from solward.plugins import ProblemCode, Registry
from solward.plugins.discovery import Place, canonical
from solward.plugins.loaded import LoadedProvider
from solward.resources.fields import Schema, nullable
from solward.resources.schema import array, choice, flag, response_object, text
from solward.settings import Settings
from solward.types.manifest import Terms, manifest_json, terms_json
from solward.types.roles import Role
from solward_server.http.auth import Access, keyed
from solward_server.http.route_context import RouteContext
from solward_server.openapi.manifest import MANIFEST
from solward_server.openapi.operation import operation, success


def blueprint(context: RouteContext) -> Blueprint:
    """`GET /plugins`."""
    routes = Blueprint("plugins", __name__)

    @routes.get("/plugins")
    @keyed(Role.READ)
    async def listing() -> dict[str, Any]:
        return plugins_report(context.service.registry, context.service.settings)

    return routes


def plugins_report(registry: Registry, settings: Settings) -> dict[str, Any]:
    """Loaded plugins by kind, plugins' guardrails, and problems of plugins that were left out."""
    kinds: dict[str, Mapping[str, Any]] = {
        "skill": registry.skills,
        "provider": registry.providers,
        "venue": registry.venues,
        "payment": registry.payments,
    }
    loaded: list[dict[str, Any]] = [
        {
            "kind": kind,
            "name": name,
            "distribution": plugin.distribution,
            "version": plugin.version,
            "manifest": manifest_json(Terms.of(plugin.spec).manifest),
            "secrets": _secrets(Terms.of(plugin.spec), settings),
        }
        | (_provider(plugin, settings) if kind == "provider" else {})
        | ({"hasSettings": plugin.settings is not None} if kind == "skill" else {})
        for kind, plugins in kinds.items()
        for name, plugin in plugins.items()
    ]
    wrong = {
        canonical(each.distribution)
        for each in registry.problems
        if each.code is not ProblemCode.DISABLED
    }
    return {
        "plugins": loaded,
        "distributions": [
            _place(place, canonical(place.distribution) in wrong, settings)
            for place in registry.places
        ],
        "guardrails": [guardrail.name for guardrail in registry.guardrails],
        "problems": [
            {
                "code": problem.code.value,
                "plugin": problem.plugin,
                "distribution": problem.distribution,
                "detail": problem.detail,
            }
            for problem in registry.problems
        ],
    }


def _place(place: Place, wrong: bool, settings: Settings) -> dict[str, Any]:
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
            {"plugin": plugin} | terms_json(terms) | {"secrets": _secrets(terms, settings)}
            for plugin, terms in own.accepted.items()
        ],
        "wheels": []
        if own is None
        else [{"file": each.file, "sha256": each.sha256} for each in own.wheels],
        "trust": place.trust,
    }


def _secrets(terms: Terms, settings: Settings) -> list[dict[str, Any]]:
    """Whether each secret has a value, never the value."""
    unset = settings.unset(terms)
    return [{"env": name, "set": name not in unset} for name in terms.secrets()]


def _provider(plugin: LoadedProvider, settings: Settings) -> dict[str, Any]:
    """What an agent of this provider needs; whether its key is set, never the key."""
    spec = plugin.spec
    return {
        "defaultModel": spec.default_model,
        "options": dict(spec.options),
        "isLlm": spec.is_llm,
        "secretEnv": spec.secret_env,
        "baseUrlEnv": spec.base_url_env,
        "configured": settings.configured(spec),
    }


_SECRETS = array(
    response_object(
        {
            "env": text("The service's environment variable."),
            "set": flag("Whether it has a value; never the value."),
        }
    ),
    "The secrets of its manifest, and a provider's key.",
)
_COMMON: dict[str, Schema] = {
    "name": text("Its entry point's."),
    "distribution": text("Where it comes from."),
    "version": text("The distribution's."),
    "manifest": MANIFEST,
    "secrets": _SECRETS,
}
_PLUGIN: Schema = {
    "oneOf": [
        response_object({"kind": choice("What it is.", "payment", "venue")} | _COMMON),
        response_object(
            {"kind": choice("What it is.", "skill")}
            | _COMMON
            | {"hasSettings": flag("It declares settings that the operator sets.")}
        ),
        response_object(
            {"kind": choice("What it is.", "provider")}
            | _COMMON
            | {
                "defaultModel": text("Where an agent names none."),
                "options": {"type": "object", "description": "JSON Schema of `llmOptions`."},
                "isLlm": flag("False for the rule-based demo provider."),
                "secretEnv": nullable(text("The environment variable of its key.")),
                "baseUrlEnv": nullable(text("That of an address in place of the vendor's.")),
                "configured": flag("Whether it has its key, or needs none."),
            }
        ),
    ]
}
_DISTRIBUTION = response_object(
    {
        "name": text("The distribution's."),
        "version": text("The distribution's."),
        "ownFolder": flag("It stands in a folder of its own, not in the service's environment."),
        "enabled": flag("False where it is installed and nothing of it is loaded."),
        "state": choice(
            "`problem`: `problems` has one of its plugins.", "loaded", "disabled", "problem"
        ),
        "accepted": array(
            response_object(
                {
                    "plugin": text("Its entry-point group and name, such as `solward.skills:tip`."),
                    "manifest": MANIFEST,
                    "spends": flag("A skill whose effects are SPEND."),
                    "secretEnv": nullable(text("The environment variable of a provider's key.")),
                    "baseUrlEnv": nullable(text("That of an address that gets the key.")),
                    "secrets": _SECRETS,
                }
            ),
            "What its plugins may have, as somebody accepted it; of its own folder alone.",
        ),
        "wheels": array(
            response_object({"file": text("Its name."), "sha256": text("Of the file.")}),
            "What was unpacked into its own folder.",
        ),
        "trust": nullable(text("What installing it in the service's environment trusts it with.")),
    }
)
_PROBLEM = response_object(
    {
        "code": choice("See docs/plugins.md.", *ProblemCode),
        "plugin": text("Its entry point's name."),
        "distribution": nullable(text("Where it comes from.")),
        "detail": text("What is wrong."),
    }
)

PATHS = {
    "/plugins": {
        "get": operation(
            "listPlugins",
            "Loaded plugins, extra guardrails, and plugins that were left out",
            tag="plugins",
            access=Access.KEY,
            response=success(
                response_object(
                    {
                        "plugins": array(_PLUGIN),
                        "distributions": array(
                            _DISTRIBUTION, "Where third parties' plugins are installed."
                        ),
                        "guardrails": array(text("A rule's name.")),
                        "problems": array(_PROBLEM),
                    }
                ),
                {
                    "plugins": [
                        {
                            "kind": "skill",
                            "name": "airdrop",
                            "distribution": "solward",
                            "version": "0.1.0",
                            "manifest": None,
                            "secrets": [],
                            "hasSettings": False,
                        }
                    ],
                    "distributions": [],
                    "guardrails": [],
                    "problems": [],
                },
            ),
        )
    }
}
