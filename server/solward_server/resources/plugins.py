"""What is loaded, and what is not and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quart import Blueprint

from solward.registry import Registry
from solward.registry.loaded import LoadedProvider
from solward.settings import Settings
from solward_server.http.auth import keyed
from solward_server.http.edge import Edge


def blueprint(edge: Edge) -> Blueprint:
    """`GET /plugins`."""
    routes = Blueprint("plugins", __name__)

    @routes.get("/plugins")
    @keyed
    async def listing() -> dict[str, Any]:
        return plugins_report(edge.service.registry, edge.service.settings)

    return routes


def plugins_report(registry: Registry, settings: Settings) -> dict[str, Any]:
    """Every loaded plugin by kind, every extra rule, and the problems of those left out."""
    kinds: dict[str, Mapping[str, Any]] = {
        "skill": registry.skills,
        "provider": registry.providers,
        "venue": registry.venues,
    }
    loaded: list[dict[str, Any]] = [
        {
            "kind": kind,
            "name": name,
            "distribution": plugin.distribution,
            "version": plugin.version,
        }
        | (_provider(plugin, settings) if kind == "provider" else {})
        for kind, plugins in kinds.items()
        for name, plugin in plugins.items()
    ]
    return {
        "plugins": loaded,
        "guardrails": [name for name, _check in registry.guardrails],
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


def _provider(plugin: LoadedProvider, settings: Settings) -> dict[str, Any]:
    """What it takes to make an agent of it; that it has its key, and never the key."""
    spec = plugin.spec
    return {
        "defaultModel": spec.default_model,
        "options": dict(spec.options),
        "isLlm": spec.is_llm,
        "secretEnv": spec.secret_env,
        "configured": settings.configured(spec),
    }
