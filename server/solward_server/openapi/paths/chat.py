"""Chat with an agent."""

from __future__ import annotations

from solward_server.http.auth import Access
from solward_server.openapi.errors import NO_AGENT
from solward_server.openapi.operation import answers, operation, takes
from solward_server.openapi.parameters import AGENT_ID
from solward_server.openapi.schema import asked, closed, text

_SAID = "I am a rule-based demo, not a language model. My rules are:\nalways do wait"
_ANSWER = answers(closed({"response": text("What the model said.")}), {"response": _SAID})
_ANSWER["content"]["text/event-stream"] = {
    "schema": {
        "type": "string",
        "description": "Events `delta` with `text`, then `done` with `response`, or `error`.",
    },
    "example": 'event: delta\ndata: {"text":"I am "}\n\n'
    'event: done\ndata: {"response":"I am a rule-based demo"}\n\n',
}

PATHS = {
    "/agents/{agentId}/chat": {
        "post": operation(
            "chat",
            "Ask a running agent; nothing is executed",
            tag="agents",
            access=Access.KEY,
            description="With `Accept: text/event-stream` the answer comes while it is made.",
            parameters=[AGENT_ID],
            body=takes(
                asked({"message": text("What to say.", 20_000)}, required=["message"]),
                {"message": "What are you doing?"},
            ),
            answer=_ANSWER,
            errors={
                400: "Agent is not running",
                404: NO_AGENT,
                429: "The token budget has no room: the prompt has about 900 tokens, 100 are left "
                "(400 used in the last day; maxTokensPerDay 500)",
            },
        )
    }
}
