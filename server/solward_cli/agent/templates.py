"""`solward agent templates`: what there is to start from, and what one comes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from solward_cli.plugins.skill_run import parameters
from solward_cli.service_call import ServiceCall, service_call

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import AgentTemplate, TemplatePreview


set_option = click.option(
    "--set",
    "values",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the template; may be given more than once.",
)


@click.command()
@click.argument("name", required=False)
@set_option
@service_call
async def templates(call: ServiceCall, name: str | None, values: tuple[str, ...]) -> RenderableType:
    """List the templates of agents; with NAME, its parameters and what it comes to with them.

    What can leave is computed by the service from the grants and guardrails that an agent of the
    template gets. Nothing is made.
    """
    from solward_cli.render import table

    found = await call.client.agents.templates()
    if name is None:
        if values:
            raise click.UsageError("--set needs the NAME of a template.")
        rows = [
            (
                each.name,
                each.summary,
                "-" if each.example is None else leaving_text(each.example.can_leave),
            )
            for each in found
        ]
        return table(("NAME", "WHAT IT DOES", "CAN LEAVE A DAY"), rows, "There are no templates.")
    chosen = chosen_template(found, name)
    required = set(chosen.parameters["required"])
    given = template_values(chosen, values)
    if required <= given.keys():
        preview: TemplatePreview | None = await call.client.agents.preview(name, given)
    else:
        preview = None if values else chosen.example
    call.set_json(chosen.raw if preview is None else preview.raw)
    return _render(chosen, preview, is_example=preview is chosen.example)


def chosen_template(found: tuple[AgentTemplate, ...], name: str) -> AgentTemplate:
    """The template of this name; raises `click.BadParameter`."""
    for each in found:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in found)
    raise click.BadParameter(f"no template is named {name!r}; there are: {names}")


def template_values(template: AgentTemplate, values: tuple[str, ...]) -> dict[str, Any]:
    """The values of `--set` by the template's schema; raises `click.BadParameter`."""
    return parameters(values, template.parameters["properties"], "--set")


def leaving_text(can_leave: Mapping[str, Any]) -> str:
    """`0.04 SOL, 0.02 SOL of fees and rent`; `nothing` where nothing can leave."""
    parts = []
    for asset, each in can_leave["assets"].items():
        unit = {"*": "dollars' worth", "COSTS": "SOL of fees and rent"}.get(asset, asset)
        if each["most"] is None:
            parts.append(f"any amount of {unit}")
        elif each["most"] != "0":
            parts.append(f"{each['most']} {unit}")
    return ", ".join(parts) or "nothing"


def _render(
    chosen: AgentTemplate, preview: TemplatePreview | None, *, is_example: bool
) -> RenderableType:
    from solward_cli.agent.render import limit_texts
    from solward_cli.render import amount, fields, plain, span, table, together

    required = set(chosen.parameters["required"])
    rows = [
        (
            name,
            "required" if name in required else amount(field.get("default")),
            field.get("description", ""),
        )
        for name, field in chosen.parameters["properties"].items()
    ]
    parts = [
        fields(
            {
                "Template": chosen.name,
                "What": chosen.summary,
                "Needs": ", ".join(chosen.skills),
                "Missing": ", ".join(chosen.missing_skills) or None,
            }
        ),
        plain(""),
        table(("PARAMETER", "DEFAULT", "WHAT IT IS"), rows, "It has no parameters."),
    ]
    if preview is None:
        missing = ", ".join(sorted(required))
        parts += [plain(""), plain(f"Give {missing} with --set to see what it comes to.")]
        return together(*parts)
    values = {f"  {name}": amount(value) for name, value in preview.parameters.items()}
    heading = "With" if values else "It comes to"
    if is_example and required:
        heading = "For example, with"
    return together(
        *parts,
        plain(""),
        plain(heading, "bold"),
        fields(
            {
                **values,
                "Every": span(preview.loop_interval_ms),
                **limit_texts(preview.guardrails),
                "Can leave a day": leaving_text(preview.can_leave),
            }
        ),
        *(plain(each) for each in preview.sentences),
        plain(""),
        plain(preview.strategy, lines=True),
    )
