"""`solward completion`: the script that completes this command in a shell."""

from __future__ import annotations

import os
import re

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
)

from solward_cli import VARIABLE

PROGRAM = "solward"

# Click's own reads each reply with `read`, which takes backslashes away, and expands wildcards.
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


class _BashWords(BashComplete):
    """Each reply as one word: bash, unlike zsh and fish, puts it into the line as it is."""

    source_template = _BASH

    def format_completion(self, item: CompletionItem[str]) -> str:
        words, at = os.environ["COMP_WORDS"].split("\n"), int(os.environ["COMP_CWORD"])
        value = item.value
        # Within quotes that are open a backslash stays, and bash closes them behind the reply.
        if at >= len(words) or not words[at].startswith(("'", '"')):
            value = re.sub(r"[^\w.-]", r"\\\g<0>", value)
        return f"{item.type},{value}"


add_completion_class(_BashWords)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion of SHELL.

    \b
    bash: eval "$(solward completion bash)"      in ~/.bashrc
    zsh:  eval "$(solward completion zsh)"       in ~/.zshrc
    fish: solward completion fish > ~/.config/fish/completions/solward.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    group = click.get_current_context().find_root().command
    click.echo(kind(group, {}, PROGRAM, VARIABLE).source())
