"""What is loaded, and what is not and why."""

from __future__ import annotations

from solward.registry import ProblemCode
from solward_server.auth import Access
from solward_server.openapi.operation import answers, operation
from solward_server.openapi.schema import array, choice, closed, nullable, text

_LOADED = closed(
    {
        "kind": choice("What it is.", "skill", "provider", "venue"),
        "name": text("Its entry point's."),
        "distribution": text("Where it comes from."),
        "version": text("The distribution's."),
    }
)
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
                        "plugins": array(_LOADED),
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
