"""exchange_rate: a fiat rate from a site that wants a key, asked for once an hour."""

import time

import httpx

from solward import Manifest, Secret, SkillContext, SkillError, SkillSpec, hookimpl

SITE = "rates.example.com"
FRESH_S = 3600
NEEDS = Manifest(
    sites=(SITE,), operations=(), storage_mb=1, secrets=(Secret("RATES_API_KEY", SITE),)
)


@hookimpl
def skill_spec() -> SkillSpec:
    currency = {"type": "string", "description": "ISO 4217 code.", "enum": ["EUR", "CHF", "JPY"]}
    return SkillSpec(
        name="exchange_rate",
        description="Look up how much of a currency a US dollar buys. Sends nothing.",
        parameters={
            "type": "object",
            "properties": {"currency": currency},
            "required": ["currency"],
            "additionalProperties": False,
        },
        manifest=NEEDS,
    )


@hookimpl
async def skill_execute(params: dict, context: SkillContext) -> str:
    currency = params["currency"]
    kept = context.storage / f"{currency}.txt"
    if not kept.exists() or time.time() - kept.stat().st_mtime > FRESH_S:
        headers = {"Authorization": f"Bearer {context.secret('RATES_API_KEY')}"}
        try:
            answer = await context.http.get(f"https://{SITE}/v1/USD/{currency}", headers=headers)
            answer.raise_for_status()
        except httpx.HTTPError:
            raise SkillError("rates_unavailable", f"{SITE} gave no rate; try later") from None
        new = context.storage / f"{currency}.new"
        new.write_text(answer.text[:40])
        # Whoever reads at the same time has the one before or this one.
        new.replace(kept)
    return f"1 USD is {kept.read_text()} {currency}"
