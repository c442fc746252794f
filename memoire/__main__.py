"""Le cours en ligne de commande : ``python -m memoire chat`` ouvre une conversation au terminal (chapitre 8)."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from memoire.chat import STRATEGIES, SYSTEM_PROMPT, Place, TerminalChat, clean, find_strategy
from memoire.llm import SETTINGS
from memoire.storage import StorageError, require_identifier

if TYPE_CHECKING:
    from rich.console import Console


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def _format_action(self, action: argparse.Action) -> str:
        """Présente une liste de commandes sans répéter le mot « commande » en tête."""
        text = super()._format_action(action)
        return text.partition("\n")[2] if action.nargs == argparse.PARSER else text

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, "Utilisation : " if prefix is None else prefix)


_ERRORS = (
    (r"^the following arguments are required: ", "il manque : "),
    (r"^unrecognized arguments: ", "arguments inconnus : "),
    (r"^argument ([^:]+): ", r"argument \1 : "),
    (r"expected one argument", "une valeur est attendue"),
    (r"ignored explicit argument (.*)", r"valeur inattendue : \1"),
    (r"invalid choice: (.*?) \(choose from (.*)\)", r"choix inconnu : \1 (choix possibles : \2)"),
)


class _Parser(argparse.ArgumentParser):
    """Analyseur de la ligne de commande, tout en français."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, formatter_class=_Formatter, add_help=False, allow_abbrev=False)
        self._optionals.title = "options "
        self.add_argument("-h", "--help", "--aide", action="help", help="montrer cette aide et quitter")

    def error(self, message: str) -> NoReturn:
        """Explique l'erreur et quitte avec le code 2."""
        for pattern, french in _ERRORS:
            message = re.sub(pattern, french, message)
        self.exit(2, f"{self.format_usage()}{self.prog} : erreur : {clean(message)}\n")


def _identifier(text: str) -> str:
    try:
        return require_identifier("l'identifiant", text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _strategy(text: str) -> str:
    try:
        return find_strategy(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def build_parser() -> argparse.ArgumentParser:
    """Construit l'analyseur de la ligne de commande."""
    parser = _Parser(prog="python -m memoire", description="La mémoire conversationnelle : le cours en pratique.")
    commands = parser.add_subparsers(title="commandes ", metavar="commande", required=True)
    width = max(map(len, SETTINGS)) + 2
    epilog = "variables d'environnement :\n" + "\n".join(f"  {name:<{width}}{text}" for name, text in SETTINGS.items())
    chat = commands.add_parser(
        "chat",
        help="converser au terminal",
        description="Converse au terminal et montre, après chaque tour, ce que la mémoire fournit au modèle.",
        epilog=epilog,
    )
    names = ", ".join(STRATEGIES)
    chat.add_argument(
        "--strategy",
        metavar="NOM",
        type=_strategy,
        default="hybride",
        help=f"stratégie de mémoire : {names} (hybride par défaut)",
    )
    chat.add_argument(
        "--user",
        metavar="NOM",
        type=_identifier,
        default="moi",
        help="utilisateur, dont les données sont isolées (« moi » par défaut)",
    )
    chat.add_argument(
        "--session", metavar="NOM", type=_identifier, help="session à reprendre ou à ouvrir (la dernière par défaut)"
    )
    chat.add_argument(
        "--data", metavar="DOSSIER", type=Path, default=Path("data"), help="dossier des données (« data » par défaut)"
    )
    chat.add_argument("--system", metavar="TEXTE", default=SYSTEM_PROMPT, help="invite système")
    chat.add_argument(
        "--brief", action="store_true", help="ne montrer après chaque tour que le bilan, sans le contexte"
    )
    return parser


def _read_piped(console: Console) -> Callable[[str], str]:
    """Donne une lecture qui recopie la question : la transcription se lit comme une conversation."""
    from rich.text import Text

    def read(prompt: str) -> str:
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        console.print(Text(prompt + clean(line.rstrip("\r\n"))), soft_wrap=True)
        return line

    return read


def main(arguments: Sequence[str] | None = None) -> int:
    """Lance la commande demandée ; rend le code de sortie."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # un octet illisible n'arrête pas la conversation
    options = build_parser().parse_args(arguments)
    try:
        from rich.console import Console
    except ImportError:
        print("La conversation au terminal demande le paquet rich : pip install rich", file=sys.stderr)
        return 2
    console = Console(markup=False, highlight=False, emoji=False)
    interactive = sys.stdin.isatty()
    if interactive:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  (édition de la ligne)
    try:
        chat = TerminalChat(
            Place(options.data, options.user),
            options.strategy,
            console,
            input if interactive else _read_piped(console),
            session=options.session,
            system_prompt=options.system,
            interactive=interactive,
            brief=options.brief,
        )
        return chat.run()
    except (StorageError, ValueError, OSError) as error:
        print(f"python -m memoire : {clean(str(error))}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
