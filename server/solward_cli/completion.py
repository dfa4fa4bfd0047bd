"""`solward completion`: the script that completes this command in a shell."""

from __future__ import annotations

import click

PROGRAM = "solward"
VARIABLE = "_SOLWARD_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion of SHELL.

    \b
    bash: eval "$(solward completion bash)"      in ~/.bashrc
    zsh:  eval "$(solward completion zsh)"       in ~/.zshrc
    fish: solward completion fish > ~/.config/fish/completions/solward.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    group = click.get_current_context().find_root().command
    click.echo(kind(group, {}, PROGRAM, VARIABLE).source())
