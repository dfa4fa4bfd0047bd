"""mine: a model server with one call, as a provider."""

import httpx

from solward import Completion, Manifest, ProviderError, ProviderSpec, Secret, hookimpl

SITE = "mine.example.com"


@hookimpl
def provider_spec() -> ProviderSpec:
    return ProviderSpec(
        name="mine",
        default_model="mine-1",
        options={"type": "object", "properties": {}, "additionalProperties": False},
        secret_env="MINE_API_KEY",
        base_url_env="MINE_BASE_URL",
        # The site gets the key, or the address of MINE_BASE_URL instead, and nobody else.
        manifest=Manifest(sites=(SITE,), secrets=(Secret("MINE_API_KEY", SITE),)),
    )


@hookimpl
async def provider_complete(request, options, context) -> Completion:
    body = {"model": request.model, "system": request.system}
    body["said"] = [message.content for message in request.messages]
    address = context.base_url or f"https://{SITE}"
    headers = {"Authorization": f"Bearer {context.secret}"}
    try:
        async with httpx.AsyncClient(headers=headers, timeout=60) as client:
            response = await client.post(f"{address}/complete", json=body)
            response.raise_for_status()
    except httpx.HTTPError:
        raise ProviderError("mine did not answer; check MINE_BASE_URL", retryable=True) from None
    return Completion(response.json()["text"])
