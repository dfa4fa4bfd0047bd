"""OpenAPI links: which response's id is a parameter or body field of another operation."""

from __future__ import annotations

from typing import Any

from solward_server.openapi.parameters import ADMIN_ID, AGENT_ID, KEY_ID, WALLET_ID, shared

# Operation, the path parameter that its response's id fills, and where in the response it is.
_ID_SOURCES = (
    ("createWallet", "walletId", "$response.body#/walletId"),
    ("createAgent", "agentId", "$response.body#/id"),
    ("createKey", "keyId", "$response.body#/id"),
    ("createAdmin", "adminId", "$response.body#/id"),
)
# Source and target operation on the same wallet, the field that the response and the target's body
# share, and what else the body needs.
_BODY_FIELDS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("launchToken", "mintSupply", "mint", {"amount": 1}),
    (
        "launchToken",
        "transferToken",
        "mint",
        {"to": "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g", "amount": 1},
    ),
    ("launchToken", "burn", "mint", {"amount": 1}),
    ("launchToken", "revokeAuthority", "mint", {}),
    ("launchToken", "closeAccount", "mint", {}),
    ("stake", "unstake", "stakeAccount", {}),
    ("unstake", "withdrawStake", "stakeAccount", {}),
)


def add_links(paths: dict[str, dict[str, Any]]) -> None:
    """Write the links into the operations of `paths`."""
    operations = {
        operation["operationId"]: operation
        for path in paths.values()
        for operation in path.values()
    }
    path_references = {
        "walletId": shared(WALLET_ID),
        "agentId": shared(AGENT_ID),
        "keyId": shared(KEY_ID),
        "adminId": shared(ADMIN_ID),
    }
    for source, parameter, expression in _ID_SOURCES:
        for name, target in operations.items():
            if path_references[parameter] in target.get("parameters", ()):
                _link(operations[source], name, {"parameters": {parameter: expression}})
    for source, target_name, field, rest in _BODY_FIELDS:
        _link(
            operations[source],
            target_name,
            {
                "parameters": {"walletId": "$request.path.walletId"},
                "requestBody": {field: f"$response.body#/{field}"} | rest,
            },
        )


def _link(source: dict[str, Any], target: str, link: dict[str, Any]) -> None:
    links = source["responses"]["200"].setdefault("links", {})
    links[target] = {"operationId": target} | link
