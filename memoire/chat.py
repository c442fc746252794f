"""Converser au terminal, en voyant à chaque tour ce que la mémoire fournit au modèle (chapitre 8)."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memoire.buffer import ConversationBufferMemory
from memoire.chatbot import Chatbot
from memoire.compression import HierarchicalSummaryMemory
from memoire.costs import Attempt, PriceTable, Usage, UsageLog, load_prices
from memoire.entities import EntityMemory
from memoire.french import fold
from memoire.hybrid import HybridMemory
from memoire.llm import Fallback, LLMError, llm_from_env
from memoire.memory import Memory
from memoire.messages import Message, count_tokens
from memoire.persistence import PersistentMemory, SessionMemory, SQLiteSessionStore, erase
from memoire.storage import Receipt, StorageError, require_identifier, safe_name, write_atomically
from memoire.summary import ExtractiveSummarizer, RollingSummary, SummaryMemory
from memoire.window import PriorityWindowMemory, SlidingWindowMemory

if TYPE_CHECKING:
    from rich.console import Console

SYSTEM_PROMPT = (
    "Vous êtes un assistant concis. Vous vouvoyez l'utilisateur et vous ne répondez que de ce que vous savez."
)
SHOWN = 8  # lignes du contexte montrées après chaque tour


@dataclass(frozen=True)
class Place:
    """Où sont les données d'un utilisateur : un dossier, et ce qu'il contient."""

    folder: Path
    user: str

    @property
    def sessions(self) -> Path:
        """La base des sessions."""
        return self.folder / "sessions.db"

    @property
    def vectors(self) -> Path:
        """La base vectorielle."""
        return self.folder / "vecteurs.db"

    @property
    def usage(self) -> Path:
        """Le journal des appels."""
        return self.folder / "usage.jsonl"

    @property
    def profiles(self) -> Path:
        """Le dossier des profils."""
        return self.folder / "profils"

    @property
    def export(self) -> Path:
        """Le fichier d'export par défaut : son nom ne contient pas celui de l'utilisateur, seulement son empreinte."""
        return self.folder / f"export-{safe_name(self.user)[:16]}.json"


# Les stratégies


def _vector_store(place: Place) -> Any:
    from memoire.vectors import MultilingualEmbedder, SQLiteVectorStore

    return SQLiteVectorStore(place.vectors, MultilingualEmbedder())


def _rag(place: Place) -> Memory:
    from memoire.rag import RAGMemory

    store = _vector_store(place)
    return RAGMemory(store.embedder, store, place.user, summarize=ExtractiveSummarizer())


def _hierarchical(place: Place) -> Memory:
    from memoire.hierarchical import HierarchicalMemory

    store = _vector_store(place)
    return HierarchicalMemory(place.user, store.embedder, store, PersistentMemory(place.user, place.profiles))


STRATEGIES: dict[str, tuple[str, Callable[[Place], Memory]]] = {
    "tampon": ("tout garder, jusqu'à 4 096 tokens", lambda place: ConversationBufferMemory()),
    "fenêtre": ("les cinq derniers échanges", lambda place: SlidingWindowMemory()),
    "priorités": ("le plus utile, sous 4 096 tokens", lambda place: PriorityWindowMemory()),
    "résumé": ("un résumé, puis les quatre derniers messages", lambda place: SummaryMemory(4, ExtractiveSummarizer())),
    "glissant": ("un résumé refait par lots, puis six messages", lambda place: RollingSummary(ExtractiveSummarizer())),
    "hybride": (
        "un résumé, puis six messages ; rien n'est jeté",
        lambda place: HybridMemory(6, ExtractiveSummarizer()),
    ),
    "entités": ("les noms et les valeurs relevés, puis quatre messages", lambda place: EntityMemory()),
    "thèmes": ("les faits rangés par thème, puis quatre messages", lambda place: HierarchicalSummaryMemory()),
    "rag": ("les souvenirs proches de la question, puis six messages", _rag),
    "hiérarchique": ("les faits, les sessions passées proches, cinq échanges", _hierarchical),
}
"""Nom d'une stratégie -> (ce qu'elle garde, comment la construire)."""


def find_strategy(text: str) -> str:
    """Donne le nom d'une stratégie, écrit avec ou sans accents.

    Raises:
        ValueError: nom inconnu.
    """
    for name in STRATEGIES:
        if fold(name) == fold(text.strip()):
            return name
    raise ValueError(f"stratégie inconnue : {clean(text)} (stratégies : {', '.join(STRATEGIES)})")


# Ce qui s'affiche


def clean(text: str, limit: int | None = None) -> str:
    """Rend un texte affichable : sans séquence de terminal ni renversement du sens de lecture, coupé à ``limit``."""
    shown = "".join("\ufffd" if _is_harmful(char) else char for char in text)
    return shown if limit is None or len(shown) <= limit else shown[: limit - 1].rstrip() + "…"


def _is_harmful(char: str) -> bool:
    return (
        unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"
    ) or char in "\u202a\u202b\u202c\u202d\u202e"


def number(value: float, decimals: int = 0) -> str:
    """Écrit un nombre à la française."""
    return f"{value:,.{decimals}f}".replace(",", "\u202f").replace(".", ",")


@dataclass(frozen=True)
class Row:
    """Une ligne du contexte : qui parle, ce qui est dit, sa taille en tokens."""

    origin: str
    text: str
    tokens: int


_NAMES = {"system": "invite système", "user": "utilisateur", "assistant": "assistant", "tool": "outil"}
_NOTE = re.compile(r"\[(\w[\w ]*)\] ")


def context_rows(messages: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Donne les lignes d'un contexte au format *chat completions*."""
    rows = []
    for place, data in enumerate(messages):
        message = Message.from_dict(data)
        note = _NOTE.match(message.content) if message.role == "system" and place else None
        text = message.content[note.end() :] if note else message.text
        rows.append(Row(note[1] if note else _NAMES[message.role], text, count_tokens(text)))
    return rows


class Meter:
    """Inscrit les tentatives au journal, et garde celles de cette conversation pour en montrer le coût."""

    def __init__(self, log: UsageLog) -> None:
        self._log = log
        self.start()

    def start(self) -> None:
        """Commence une conversation, sous un identifiant tiré au hasard : le journal ne dit rien de l'utilisateur."""
        self._log = self._log.bind(conversation=os.urandom(8).hex())
        self.usages: list[Usage] = []

    def append(self, call: str, attempt: Attempt) -> Usage:
        """Inscrit une tentative."""
        usage = self._log.append(call, attempt)
        self.usages.append(usage)
        return usage

    def total(self, first: int = 0) -> float | None:
        """Donne le coût des tentatives depuis la ``first``-ième, ou ``None`` si l'un d'eux est inconnu."""
        costs = [u.cost for u in self.usages[first:] if u.cost is not None or u.input_tokens + u.output_tokens]
        return None if None in costs else math.fsum(cost or 0.0 for cost in costs)


# La conversation


class TerminalChat:
    """Conversation au terminal : lit une ligne, répond ou exécute une commande, montre le contexte.

    Args:
        place: les données de l'utilisateur.
        strategy: la stratégie de mémoire.
        console: où écrire.
        read: fonction qui affiche une invite et rend une ligne ; elle lève EOFError à la fin.
        session: la session à reprendre ou à ouvrir ; par défaut, la dernière.
        system_prompt: l'invite système.
        environ: les variables d'environnement.
        interactive: vrai si quelqu'un est devant l'écran : l'effacement demande alors une confirmation.
        brief: vrai pour ne montrer, après chaque tour, que le bilan.

    Raises:
        StorageError, ValueError: données inaccessibles, réglage illisible.
    """

    def __init__(
        self,
        place: Place,
        strategy: str,
        console: Console,
        read: Callable[[str], str],
        *,
        session: str | None = None,
        system_prompt: str = SYSTEM_PROMPT,
        environ: Mapping[str, str] | None = None,
        interactive: bool = False,
        brief: bool = False,
    ) -> None:
        environ = os.environ if environ is None else environ
        place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.place = place
        self.strategy = strategy
        self.console = console
        self.read = read
        self.system_prompt = system_prompt
        self.interactive = interactive
        self.brief = brief
        self.failed = False
        self.prices: PriceTable = (
            load_prices(environ["MEMOIRE_PRICES"]) if environ.get("MEMOIRE_PRICES") else load_prices()
        )
        self.model = environ.get("MEMOIRE_MODEL", "").strip() or "simulé"
        self.meter = Meter(UsageLog(place.usage, self.prices))
        self.llm = llm_from_env(environ, log=self.meter, on_fallback=self._alert)
        self.store = SQLiteSessionStore(place.sessions)
        known = self.store.sessions(place.user)
        self.session = session or (max(known, key=lambda info: info.updated).session if known else "1")
        self._bot: Chatbot | None = None

    def run(self) -> int:
        """Converse jusqu'à la fin de l'entrée, ``/quitter`` ou Ctrl-C ; rend le code de sortie."""
        self._welcome()
        status = 0
        try:
            while True:
                line = self.read(f"{clean(self.place.user, 24)} > ").strip()
                if line and not self._handle(line):
                    break
        except EOFError:
            self._say("")
        except KeyboardInterrupt:
            self._say("")
            status = 130
        finally:
            saved = " La conversation est enregistrée." if self._is_started() else ""
            self.store.close()
        self._say(f"Au revoir.{saved}")
        return status or int(self.failed and not self.interactive)

    def _handle(self, line: str) -> bool:
        """Traite une ligne ; rend faux s'il faut s'arrêter. Une erreur n'arrête pas la conversation."""
        name, _, rest = line[1:].partition(" ")
        try:
            if not line.startswith("/") or line.startswith("//"):
                self._turn(line[line.startswith("//") :])
            elif fold(name) == "quitter":
                return False
            elif command := COMMANDS.get(fold(name)):
                command[1](self, rest.strip())
            else:
                raise ValueError(f"Commande inconnue : /{clean(name, 40)}. Tapez /aide.")
        except LLMError as error:
            self._fail(f"{error} Votre message n'a pas été enregistré : vous pouvez le renvoyer.")
        except (StorageError, ValueError, OSError) as error:
            self._fail(str(error))
        except KeyboardInterrupt:
            self._fail("\nInterrompu : rien n'a été enregistré.")
        return True

    def _turn(self, text: str) -> None:
        """Envoie un message de l'utilisateur, montre la réponse puis le contexte."""
        before = len(self.meter.usages)
        bot = self._current()
        answer = bot.chat(text)
        self._say(f"{bot.replies[-1].model} > ", clean(answer), style="bold")
        self._show_context(text, full=False)
        self._show_balance(before)

    def _current(self) -> Chatbot:
        """Donne le chatbot de la session ; rien n'est écrit avant le premier message."""
        if self._bot is None:
            memory = STRATEGIES[self.strategy][1](self.place)
            attached = SessionMemory(memory, self.store, self.place.user, self.session)
            self._bot = Chatbot(self.llm, attached, self.system_prompt)
        return self._bot

    # Les commandes

    def help(self, rest: str) -> None:
        """Montre les commandes."""
        for name, (description, _) in COMMANDS.items():
            self._say(f"  {'/' + name:<14}", description, style="bold")
        self._say(f"  {'/quitter':<14}", "quitter (ou Ctrl-D) ; la conversation est enregistrée", style="bold")
        self._say("Pour envoyer un texte qui commence par « / », doublez-la : //texte.")

    def context(self, rest: str) -> None:
        """Montre en entier le contexte que recevrait le modèle."""
        if self._is_started():
            self._show_context(None, full=True)
            self._show_balance()
        else:
            self._say("Le contexte est vide : rien n'a encore été dit dans cette session.")

    def change_strategy(self, rest: str) -> None:
        """Change de stratégie : les messages enregistrés repassent par la nouvelle."""
        if rest:
            self.strategy = find_strategy(rest)
            self._bot = None
            self._say(f"Stratégie : {self.strategy} ({STRATEGIES[self.strategy][0]}).")
        else:
            for name, (description, _) in STRATEGIES.items():
                self._say(f"  {'→' if name == self.strategy else ' '} {name:<14}", description, style="bold")

    def new_session(self, rest: str) -> None:
        """Clôt la session et en ouvre une autre."""
        if self._is_started():
            attached = self._current().memory
            if callable(end := getattr(getattr(attached, "memory", None), "end_session", None)):
                end()
        taken = {info.session for info in self.store.sessions(self.place.user)} | {self.session}
        self.session = require_identifier(
            "session", rest or next(str(n) for n in range(1, len(taken) + 2) if str(n) not in taken)
        )
        self._bot = None
        self.meter.start()
        self._welcome()

    def export(self, rest: str) -> None:
        """Écrit toutes les données de l'utilisateur dans un fichier JSON."""
        path = Path(rest).expanduser() if rest else self.place.export
        if rest and path.exists():
            raise ValueError(f"Le fichier {clean(str(path))} existe déjà : donnez un autre nom.")
        document = self.store.export(self.place.user)
        document["profile"] = PersistentMemory(self.place.user, self.place.profiles).export()
        write_atomically(path, json.dumps(document, ensure_ascii=False, indent=2).encode())
        path.chmod(0o600)
        messages = sum(len(session["messages"]) for session in document["sessions"])
        self._say(f"Exporté : {_count(messages, 'message')}, dans {clean(str(path))}.")

    def forget(self, rest: str) -> None:
        """Efface tout ce qui concerne l'utilisateur, et en donne le reçu."""
        if self.interactive and fold(self.read("Tout effacer, sans retour possible ? (oui/non) ").strip()) != "oui":
            self._say("Rien n'a été effacé.")
            return
        self._bot = None
        stores: list[Any] = [self.store, PersistentMemory(self.place.user, self.place.profiles)]
        if self.place.vectors.exists():
            stores.append(_vector_store(self.place))
        receipt = erase(self.place.user, *stores)
        self.place.export.unlink(missing_ok=True)
        with contextlib.suppress(ImportError, AttributeError):
            import readline

            readline.clear_history()
        self.session = "1"
        self.meter.start()
        self._say(
            f"Effacé : {_describe(receipt)}. Un export placé ailleurs que dans le dossier des données reste à effacer."
        )

    # L'affichage

    def _is_started(self) -> bool:
        return bool(self.store.load(self.place.user, self.session))

    def _welcome(self) -> None:
        known = len(self.store.load(self.place.user, self.session))
        state = f"reprise, {_count(known, 'message')}" if known else "nouvelle conversation"
        kind = "prix d'exemple" if self.prices == load_prices() else "prix"
        self._say(
            f"Session « {clean(self.session, 40)} » ({state}). "
            f"Modèle : {clean(self.model, 60)} ({kind} du {self.prices.date:%d/%m/%Y}). "
            f"Mémoire : {self.strategy}. /aide montre les commandes."
        )

    def _show_context(self, query: str | None, *, full: bool) -> None:
        """Montre les lignes du contexte, en entier ou en abrégé."""
        from rich.table import Table
        from rich.text import Text

        if self.brief and not full:
            return
        rows = context_rows(self._current().memory.get_messages(query))
        table = Table(box=None, show_header=False, expand=True, padding=(0, 1))
        table.add_column(min_width=15, no_wrap=True, style="dim")
        table.add_column(ratio=1, no_wrap=not full, overflow="fold" if full else "ellipsis")
        table.add_column(min_width=6, no_wrap=True, style="dim", justify="right")
        hidden = 0 if full else max(0, len(rows) - SHOWN)
        notes = next(
            (i for i, row in enumerate(rows) if row.origin in ("utilisateur", "assistant", "outil")), len(rows)
        )
        for place, row in enumerate(rows):
            if hidden and notes <= place < notes + hidden:
                if place == notes:
                    table.add_row(
                        "…",
                        f"{hidden} messages plus anciens",
                        number(sum(r.tokens for r in rows[notes : notes + hidden])),
                    )
                continue
            text = clean(row.text) if full else clean(" ".join(row.text.split()))
            table.add_row(row.origin, Text(text), number(row.tokens))
        self.console.print(Text("  Contexte du modèle :", style="dim"))
        self.console.print(table)

    def _show_balance(self, before: int | None = None) -> None:
        """Montre la taille du contexte, le taux de compression et le coût (celui du tour, depuis ``before``)."""
        context = self._current().memory.get_total_tokens()
        stored = self.store.load(self.place.user, self.session)
        system = [item.message.tokens for item in stored if item.message.role == "system"][-1:]
        history = sum(system) + sum(item.message.tokens for item in stored if item.message.role != "system")
        ratio = number(context / history, 2) if history else "1,00"
        turn = "" if before is None else f"{self._amount(before)} ce tour, "
        self._say(
            f"  {number(context)} tokens, pour une conversation de {number(history)} · ρ = {ratio} · "
            f"coût {turn}{self._amount(0)} en tout",
            style="dim",
        )

    def _amount(self, first: int) -> str:
        cost = self.meter.total(first)
        return "inconnu" if cost is None else f"{number(cost, 6)} {self.prices.currency}"

    def _alert(self, fallback: Fallback) -> None:
        self._say(
            f"  Repli : {clean(str(fallback.error))} {clean(fallback.following)} prend la relève.", style="yellow"
        )

    def _fail(self, message: str) -> None:
        self.failed = True
        self._say(clean(message), style="red")

    def _say(self, head: str, rest: str = "", style: str = "") -> None:
        from rich.text import Text

        self.console.print(Text.assemble((head, style), rest), soft_wrap=not self.console.is_terminal)


COMMANDS: dict[str, tuple[str, Callable[[TerminalChat, str], None]]] = {
    "aide": ("montrer cette aide", TerminalChat.help),
    "contexte": ("montrer en entier ce que recevrait le modèle", TerminalChat.context),
    "strategie": ("lister les stratégies, ou en changer : /strategie fenêtre", TerminalChat.change_strategy),
    "nouvelle": ("clore la session et en ouvrir une autre : /nouvelle, ou /nouvelle nom", TerminalChat.new_session),
    "exporter": ("écrire toutes vos données en JSON : /exporter, ou /exporter fichier", TerminalChat.export),
    "oublier": ("effacer physiquement toutes vos données, avec un reçu", TerminalChat.forget),
}
"""Nom d'une commande -> (ce qu'elle fait, comment)."""

_KINDS = {
    "sessions": "session",
    "messages": "message",
    "derived": "résumé",
    "vectors": "vecteur",
    "files": "fichier",
    "profile": "attribut",
    "preferences": "préférence",
    "history_summaries": "résumé de session",
    "facts": "fait",
}


def _count(value: int, word: str) -> str:
    """Accorde : « 1 message », « 2 messages »."""
    head, space, rest = word.partition(" ")
    return f"{number(value)} {head}{'s' if value > 1 else ''}{space}{rest}"


def _describe(receipt: Receipt) -> str:
    counts = [_count(value, _KINDS.get(kind, kind)) for kind, value in receipt.counts.items() if value]
    return ", ".join(counts) or "rien, il n'y avait rien"
