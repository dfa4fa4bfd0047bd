"""`solward completion`: the script that completes this command in a shell."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, add_completion_class, get_completion_class

from solward_cli import VARIABLE

PROGRAM = "solward"

# Click's own script drops backslashes from replies and expands wildcards.
_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' reply
    COMPREPLY=()
    while IFS= read -r reply; do
        case $reply in
            dir,*) compopt -o dirnames ;;
            file,*) compopt -o default ;;
            plain,*) COMPREPLY+=("${reply#plain,}") ;;
        esac
    done < <(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \
%(complete_var)s=bash_complete "$1")
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _UnquotedBashComplete(BashComplete):
    """Completion for bash without quotes around words: `named` offers only words that need none."""

    source_template = _BASH


add_completion_class(_UnquotedBashComplete)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash: eval "$(solward completion bash)"      in ~/.bashrc
    zsh:  eval "$(solward completion zsh)"       in ~/.zshrc
    fish: solward completion fish > ~/.config/fish/completions/solward.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    group = click.get_current_context().find_root().command
    click.echo(kind(group, {}, PROGRAM, VARIABLE).source())
