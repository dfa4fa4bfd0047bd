"""The service's own description, OpenAPI 3.1, held to the code by tests/server."""

from __future__ import annotations

import copy
from typing import Any

from solward import __version__
from solward.registry import Registry
from solward_server.openapi.agent_components import AGENT_SCHEMAS
from solward_server.openapi.components import SCHEMAS
from solward_server.openapi.errors import shared_failures
from solward_server.openapi.links import add_links
from solward_server.openapi.parameters import PARAMETERS
from solward_server.openapi.paths import (
    chat,
    docs,
    events,
    health,
    keys,
    mcp,
    metrics,
    operations,
    plugins,
    staking,
    switches,
    tokens,
    transactions,
    wallets,
)
from solward_server.openapi.paths.agents import agent_paths
from solward_server.openapi.paths.skills import PATHS as SKILLS
from solward_server.openapi.paths.skills import skill_paths

_ABOUT = """\
Wallets that autonomous agents can use and cannot empty.

Bodies are JSON objects, an absent body counts as `{}`, unknown fields are ignored except in skill
parameters. Amounts are exact: more decimals than the unit has is 400. Every error is
`{"error": "text"}`. Answers carry `Cache-Control: no-store`.
"""
_TAGS = {
    "health": "Public.",
    "keys": "API keys; the admin's alone.",
    "wallets": "Wallets, what they hold, their limits.",
    "transactions": "Records of everything that was asked for.",
    "money": "Transfers, swaps, the faucet.",
    "tokens": "Tokens of a wallet's own.",
    "staking": "Stakes and wrapped SOL.",
    "skills": "Each loaded skill, plugins' included.",
    "plugins": "What is loaded.",
    "agents": "Agents that act on a wallet.",
    "switches": "Stop everything, at once.",
    "events": "What happened, live and on record.",
    "mcp": "The same skills for MCP clients.",
    "docs": "This description to read.",
    "metrics": "For Prometheus; the admin's alone.",
}


def describe(registry: Registry, prefix: str) -> dict[str, Any]:
    """The OpenAPI 3.1 document of a service with these plugins, its routes under `prefix`."""
    described = (
        health.PATHS
        | keys.PATHS
        | wallets.PATHS
        | transactions.PATHS
        | operations.PATHS
        | tokens.PATHS
        | staking.PATHS
        | SKILLS
        | skill_paths(registry.skills.values())
        | plugins.PATHS
        | agent_paths(registry.providers)
        | chat.PATHS
        | switches.PATHS
        | events.PATHS
    )
    # What stands beside the API, not under its prefix.
    beside = mcp.ROOT_PATHS | docs.ROOT_PATHS | metrics.ROOT_PATHS
    paths = {prefix + path: operations for path, operations in described.items()} | beside
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Solward",
            "version": __version__,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS | AGENT_SCHEMAS,
            "parameters": PARAMETERS,
            "responses": shared_failures(),
            "securitySchemes": {
                "apiKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key, `sk-` and 32 hexadecimal digits.",
                },
                "adminSecret": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The admin secret, `API_SECRET`; it opens every route.",
                },
            },
        },
    }
    # The parts are shared by every description of the process; links are written into them.
    document = copy.deepcopy(document)
    add_links(document["paths"])
    return document
