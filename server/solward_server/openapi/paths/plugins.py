"""What is loaded, and what is not and why."""

from __future__ import annotations

from solward.registry import ProblemCode
from solward_server.http.auth import Access
from solward_server.openapi.operation import answers, operation
from solward_server.openapi.schema import Schema, array, choice, closed, flag, nullable, text

_LOADED: dict[str, Schema] = {
    "name": text("Its entry point's."),
    "distribution": text("Where it comes from."),
    "version": text("The distribution's."),
}
_PLUGIN: Schema = {
    "oneOf": [
        closed({"kind": choice("What it is.", "skill", "venue")} | _LOADED),
        closed(
            {"kind": choice("What it is.", "provider")}
            | _LOADED
            | {
                "defaultModel": text("Where an agent names none."),
                "options": {"type": "object", "description": "JSON Schema of `llmOptions`."},
                "isLlm": flag("False for the rule-based demo provider."),
                "secretEnv": nullable(text("The environment variable of its key.")),
                "configured": flag("Whether it has its key, or needs none."),
            }
        ),
    ]
}
_PROBLEM = closed(
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
            answer=answers(
                closed(
                    {
                        "plugins": array(_PLUGIN),
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
                        }
                    ],
                    "guardrails": [],
                    "problems": [],
                },
            ),
        )
    }
}
