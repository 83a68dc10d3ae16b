"""``tensormargin completion``."""

from __future__ import annotations

import click

_EXAMPLES = """
\b
Examples:
  eval "$(tensormargin completion bash)"                                        in ~/.bashrc
  eval "$(tensormargin completion zsh)"                                         in ~/.zshrc
  tensormargin completion fish > ~/.config/fish/completions/tensormargin.fish
"""


@click.command("completion", epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print the shell script for tab completion of commands, options, data sets, model files and classes of DATA."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    root = context.find_root().command
    click.echo(kind(root, {}, "tensormargin", "_TENSORMARGIN_COMPLETE").source())
