"""`solward mcp`: the running service's skills as MCP tools, on standard input and output."""

from __future__ import annotations

import click

from solward_cli.mcp.config import config
from solward_cli.options import log_level_option

# Standard output is the protocol's alone.
_OPERATOR = (
    "SOLWARD_API_KEY is not set: this session has the operator's rights on every wallet, and no"
    " key's limits. To confine it, give it a key of one wallet:"
    " solward mcp config HOST --wallet NAME, or solward key create NAME --wallet WALLET."
)


@click.group(invoke_without_command=True)
@click.option(
    "--wallet",
    default=None,
    help="Name, id or address of the only wallet to act on.  [default: the key's, or each call's]",
)
@click.option(
    "--url",
    default=None,
    help="The service's address.  [default: SOLWARD_API_URL, or API_HOST and API_PORT]",
)
@log_level_option
@click.pass_context
def mcp(context: click.Context, wallet: str | None, url: str | None, log_level: str) -> None:
    """Serve MCP on standard input and output, for hosts that start it: editors, assistants, agents.

    A client of the running service, with SOLWARD_API_KEY (default: API_SECRET) as its token. It
    starts without the service, and serves as soon as that does.
    """
    if context.invoked_subcommand is None:
        _serve(wallet, url, log_level)


mcp.add_command(config)


def _serve(wallet: str | None, url: str | None, log_level: str) -> None:
    import asyncio
    import signal

    from solward.telemetry import logs
    from solward.types.errors import InvalidRequest
    from solward_cli.entrypoint import read_settings, refusals, refuse
    from solward_mcp.stdio import serve

    def opened() -> None:
        if settings.solward_api_key is None:
            click.echo(_OPERATOR, err=True)

    logs.configure(log_level)
    with refusals():
        settings = read_settings()
        # Nothing needs cleaning up, and a traceback would say nothing.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        try:
            address = url or settings.client_target[0]
            asyncio.run(serve(address, settings.client_token, wallet, opened))
        except InvalidRequest as error:
            refuse(str(error))
