# SPDX-License-Identifier: Apache-2.0
"""`cucore completion SHELL`: a shell script that completes commands and options, generated from the argument parser.

eval "$(cucore completion bash)"      # in ~/.bashrc
eval "$(cucore completion zsh)"       # in ~/.zshrc
cucore completion fish | source       # in ~/.config/fish/config.fish
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator

SHELLS = ("bash", "zsh", "fish")


def commands(parser: argparse.ArgumentParser) -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """Returns the commands with their help texts and parsers."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            return {name: (helps.get(name, ""), sub) for name, sub in action.choices.items()}
    return {}


def words(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yields the words that may follow a command, with their help: options, and the choices of positional arguments."""
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction):
            continue
        for option in action.option_strings:
            if option.startswith("--"):
                yield option, action.help or ""
        if not action.option_strings and action.choices:
            yield from ((str(choice), "") for choice in action.choices)


def bash(parser: argparse.ArgumentParser) -> str:
    rows = commands(parser)
    cases = "\n".join(
        f"    {name}) words={shlex.quote(' '.join(word for word, _ in words(sub)))} ;;"
        for name, (_, sub) in rows.items()
    )
    first = " ".join([*rows, *(word for word, _ in words(parser))])
    return f"""_cucore() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} words=
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W {shlex.quote(first)} -- "$current"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{cases}
  esac
  if [ "${{COMP_WORDS[1]}}" = run ] && [[ $current != -* ]]; then
    COMPREPLY=($(compgen -f -c -- "$current"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  fi
}}
complete -o default -F _cucore cucore
"""


def zsh(parser: argparse.ArgumentParser) -> str:
    def described(rows: Iterator[tuple[str, str]]) -> str:
        return " ".join(shlex.quote(f"{word.replace(':', chr(92) + ':')}:{text}") for word, text in rows)

    rows = commands(parser)
    first = described(iter([(name, text) for name, (text, _) in rows.items()] + list(words(parser))))
    cases = "\n".join(f"    {name}) found=({described(words(sub))}) ;;" for name, (_, sub) in rows.items())
    return f"""_cucore() {{
  local -a found
  if (( CURRENT == 2 )); then
    found=({first})
    _describe command found
    return
  fi
  case $words[2] in
{cases}
  esac
  _describe option found
  [[ $words[2] == run ]] && _files
}}
compdef _cucore cucore
"""


def fish(parser: argparse.ArgumentParser) -> str:
    lines = ["complete -c cucore -f"]
    for name, (text, sub) in commands(parser).items():
        lines.append(f"complete -c cucore -n __fish_use_subcommand -a {name} -d {shlex.quote(text)}")
        for word, help_text in words(sub):
            what = f"-l {word.removeprefix('--')}" if word.startswith("--") else f"-a {shlex.quote(word)}"
            lines.append(
                f"complete -c cucore -n '__fish_seen_subcommand_from {name}' {what} -d {shlex.quote(help_text)}"
            )
    lines.append("complete -c cucore -n '__fish_seen_subcommand_from run' -F")
    return "\n".join(lines) + "\n"


def completion(parser: argparse.ArgumentParser, shell: str) -> int:
    print({"bash": bash, "zsh": zsh, "fish": fish}[shell](parser), end="")
    return 0
