"""Ce que coûte une conversation : table de prix, journal des appels, mesures (chapitre 8)."""

from __future__ import annotations

import copy
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from memoire.reply import Reply

PRICES_FILE = Path(__file__).parent / "data" / "prices.json"
TOKENS_PER_UNIT = 1_000_000
EXCHANGE = "échange"
ANSWERED = "réponse"
LONG_CONVERSATION = 10
"""Nombre d'échanges au-delà duquel une conversation est dite longue."""


class Price(NamedTuple):
    """Prix d'un modèle, pour un million de tokens lus (``input``) et un million de tokens écrits (``output``)."""

    input: float
    output: float


@dataclass(frozen=True)
class PriceTable:
    """Table de prix datée.

    Attributes:
        date: la date à laquelle ces prix ont été relevés.
        source: d'où ils viennent.
        currency: la monnaie.
        models: nom de modèle -> prix.
    """

    date: date
    source: str
    currency: str
    models: Mapping[str, Price]

    def cost(self, model: str, input_tokens: int, output_tokens: int) -> float:
        """Donne le coût d'un appel, dans la monnaie de la table.

        Raises:
            ValueError: modèle absent de la table, ou nombre de tokens négatif.
        """
        if model not in self.models:
            known = ", ".join(self.models) or "aucun"
            raise ValueError(f"Le modèle {model!r} n'est pas dans la table de prix du {self.date} (modèles : {known}).")
        if input_tokens < 0 or output_tokens < 0:
            raise ValueError(f"Un nombre de tokens ne peut pas être négatif, reçu {input_tokens} et {output_tokens}.")
        price = self.models[model]
        return (input_tokens * price.input + output_tokens * price.output) / TOKENS_PER_UNIT


def load_prices(path: str | os.PathLike[str] = PRICES_FILE) -> PriceTable:
    """Lit une table de prix (JSON : ``date``, ``source``, ``currency``, ``models``).

    La table livrée avec le cours ne contient que des prix d'exemple : avec un vrai modèle, recopiez les prix de
    votre fournisseur dans un fichier de même forme.

    Raises:
        ValueError: fichier introuvable ou illisible, champ absent, prix qui n'est pas un nombre positif ou nul.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        models = {name: Price(_price(row["input"]), _price(row["output"])) for name, row in data["models"].items()}
        return PriceTable(date.fromisoformat(data["date"]), str(data["source"]), str(data["currency"]), models)
    except OSError as error:
        raise ValueError(f"Table de prix introuvable : {path}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        detail = f"champ absent : {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"Table de prix illisible ({Path(path).name}) : {detail}.") from error


def _price(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ValueError(f"un prix doit être un nombre positif ou nul, reçu {value!r}")
    return float(value)


def cost(reply: Reply, prices: PriceTable | None = None) -> float:
    """Donne le coût d'une réponse.

    Args:
        reply: la réponse d'un modèle.
        prices: la table de prix ; par défaut, celle du cours.

    Raises:
        ValueError: le modèle n'est pas dans la table.
    """
    return (prices or load_prices()).cost(reply.model, reply.input_tokens, reply.output_tokens)


def conversation_cost(replies: Iterable[Reply], prices: PriceTable | None = None) -> float:
    """Donne le coût d'une conversation : la somme de celui de ses réponses (``Chatbot.replies``)."""
    table = prices or load_prices()
    return math.fsum(cost(reply, table) for reply in replies)


@dataclass(frozen=True)
class Attempt:
    """Une tentative auprès d'un modèle : un appel en compte plusieurs quand il faut attendre ou se replier.

    Attributes:
        model: le modèle interrogé.
        outcome: ce qui s'est passé : ``"réponse"``, ou le motif de l'échec.
        input_tokens: tokens lus, et facturés.
        output_tokens: tokens écrits, et facturés.
        latency: durée de la tentative, en secondes.
        waited: attente qui l'a précédée, en secondes.
        fallback: vrai si ce n'est pas le premier modèle de la liste.
    """

    model: str
    outcome: str = ANSWERED
    input_tokens: int = 0
    output_tokens: int = 0
    latency: float = 0.0
    waited: float = 0.0
    fallback: bool = False


@dataclass(frozen=True)
class Usage(Attempt):
    """Une ligne du journal : une tentative, sa date, sa conversation, son coût. Aucun texte échangé n'y figure.

    Attributes:
        at: la date, en secondes depuis 1970.
        call: l'appel dont c'est une tentative.
        conversation: l'identifiant de la conversation.
        kind: ``"échange"`` pour une réponse à l'utilisateur, ou un autre usage du modèle (``"résumé"``…).
        cost: le coût, ou ``None`` si le modèle n'est pas dans la table de prix.
        currency: sa monnaie.
    """

    at: float = 0.0
    call: str = ""
    conversation: str = ""
    kind: str = EXCHANGE
    cost: float | None = None
    currency: str = ""


class Recorder(Protocol):
    """Ce qui inscrit les tentatives : un ``UsageLog``, ou ce qui l'enveloppe."""

    def append(self, call: str, attempt: Attempt) -> Usage:
        """Inscrit une tentative et rend la ligne inscrite."""


class BadLine(NamedTuple):
    """Ligne illisible du journal : son numéro (le premier est 1) et ce qui ne va pas."""

    number: int
    reason: str


class UsageReading(NamedTuple):
    """Contenu d'un journal : les lignes lues, et celles qu'il a fallu sauter."""

    usages: list[Usage]
    bad_lines: list[BadLine]


class UsageLog:
    """Journal des appels : un fichier où chaque ligne est un objet JSON, une par tentative.

    Chaque ligne est ajoutée d'une seule écriture en fin de fichier : plusieurs programmes peuvent partager un
    journal. Une ligne coupée par une panne n'abîme pas la suivante ; elle est sautée, et signalée, à la lecture.

    Args:
        path: le fichier, créé s'il n'existe pas, lisible de son seul propriétaire.
        prices: la table de prix ; par défaut, celle du cours.
        conversation: l'identifiant inscrit sur chaque ligne. Choisissez-le au hasard : un nom d'utilisateur ferait
            du journal une donnée personnelle.
        kind: l'usage inscrit sur chaque ligne.
        clock: fonction qui donne l'heure, en secondes depuis 1970.

    Raises:
        StorageError: fichier impossible à ouvrir.

    Source : chapitre 8.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        prices: PriceTable | None = None,
        *,
        conversation: str = "",
        kind: str = EXCHANGE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        self.prices = prices or load_prices()
        self.conversation = conversation
        self.kind = kind
        self.clock = clock
        self._write(b"")

    def bind(self, conversation: str | None = None, kind: str | None = None) -> UsageLog:
        """Donne le même journal, qui inscrira une autre conversation ou un autre usage."""
        bound = copy.copy(self)
        bound.conversation = self.conversation if conversation is None else conversation
        bound.kind = self.kind if kind is None else kind
        return bound

    def append(self, call: str, attempt: Attempt) -> Usage:
        """Inscrit une tentative.

        Args:
            call: l'appel dont c'est une tentative.
            attempt: la tentative.

        Returns:
            La ligne inscrite, avec son coût.

        Raises:
            StorageError: écriture impossible.
        """
        price = None
        if attempt.model in self.prices.models:
            price = self.prices.cost(attempt.model, attempt.input_tokens, attempt.output_tokens)
        usage = Usage(
            **asdict(attempt),
            at=self.clock(),
            call=call,
            conversation=self.conversation,
            kind=self.kind,
            cost=price,
            currency=self.prices.currency,
        )
        self._write(json.dumps(asdict(usage), ensure_ascii=True).encode() + b"\n")
        return usage

    def read(self) -> UsageReading:
        """Lit tout le journal ; une ligne illisible est sautée et signalée, jamais comptée."""
        usages, bad_lines = [], []
        for number, line in enumerate(self.path.read_bytes().split(b"\n"), start=1):
            if line.strip():
                try:
                    usages.append(_read_usage(json.loads(line)))
                except (ValueError, OverflowError, OSError, RecursionError) as error:
                    bad_lines.append(BadLine(number, str(error)))
        return UsageReading(usages, bad_lines)

    def _write(self, line: bytes) -> None:
        """Ajoute une ligne d'une seule écriture, après avoir terminé celle qu'une panne aurait coupée."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
            with open(descriptor, "r+b", buffering=0) as file:
                if line and file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n":
                    line = b"\n" + line
                if line and file.write(line) != len(line):
                    raise OSError("le disque est plein")
        except OSError as error:
            from memoire.storage import StorageError  # SQLite n'est chargé qu'ici

            raise StorageError(f"Le journal {self.path} refuse l'écriture : {error.strerror or error}.") from error


_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "float | None": (int, float, type(None)),
}


def _read_usage(data: Any) -> Usage:
    """Vérifie une ligne du journal : tous les champs, du bon type, aucun nombre négatif ou infini."""
    if not isinstance(data, dict):
        raise ValueError(f"un objet JSON est attendu, reçu {type(data).__name__}")
    for item in fields(Usage):
        if item.name not in data:
            raise ValueError(f"champ absent : {item.name}")
        value = data[item.name]
        is_bool = isinstance(value, bool)
        if not isinstance(value, _TYPES[str(item.type)]) or is_bool != (item.type == "bool"):
            raise ValueError(f"champ {item.name} : valeur {value!r} inattendue")
        if isinstance(value, (int, float)) and not 0 <= value < math.inf:
            raise ValueError(f"champ {item.name} : nombre positif ou nul attendu, reçu {value!r}")
    usage = Usage(**{item.name: data[item.name] for item in fields(Usage)})
    _week(usage.at)
    return usage


@dataclass(frozen=True)
class Metrics:
    """Mesures tirées d'un journal.

    Attributes:
        exchanges: nombre d'échanges de chaque conversation.
        costs: coût de chaque conversation, tous usages du modèle compris.
        calls: nombre d'appels.
        answered: nombre d'appels qui ont reçu une réponse.
        fallbacks: nombre d'appels qui se sont repliés sur un autre modèle.
        fallbacks_per_week: semaine ISO (``"2025-W03"``) -> nombre de replis ; les semaines creuses valent 0.
        latencies: durée de chaque appel d'échange, en secondes, tentatives et attentes comprises.
        unpriced: nombre de tentatives facturées dont le coût est inconnu.
        skipped: nombre de lignes illisibles.
        currency: la monnaie des coûts.
    """

    exchanges: Mapping[str, int]
    costs: Mapping[str, float]
    calls: int
    answered: int
    fallbacks: int
    fallbacks_per_week: Mapping[str, int]
    latencies: Sequence[float] = field(repr=False)
    unpriced: int
    skipped: int
    currency: str

    @classmethod
    def from_log(cls, log: UsageLog) -> Metrics:
        """Calcule les mesures d'un journal."""
        reading = log.read()
        return cls.from_usages(reading.usages, len(reading.bad_lines))

    @classmethod
    def from_usages(cls, usages: Sequence[Usage], skipped: int = 0) -> Metrics:
        """Calcule les mesures de lignes déjà lues.

        Raises:
            ValueError: les coûts sont dans plusieurs monnaies.
        """
        currencies = sorted({usage.currency for usage in usages if usage.cost})
        if len(currencies) > 1:
            raise ValueError(f"Le journal mêle plusieurs monnaies : {', '.join(currencies)}.")
        calls: dict[str, list[Usage]] = {}
        exchanges: dict[str, int] = {}
        costs: dict[str, list[float]] = {}
        for usage in usages:
            calls.setdefault(usage.call, []).append(usage)
            exchanges.setdefault(usage.conversation, 0)
            exchanges[usage.conversation] += usage.kind == EXCHANGE and usage.outcome == ANSWERED
            costs.setdefault(usage.conversation, []).append(usage.cost or 0.0)
        fallen = [attempts for attempts in calls.values() if any(usage.fallback for usage in attempts)]
        weeks = dict.fromkeys(_weeks(usage.at for usage in usages), 0)
        for attempts in fallen:
            weeks[_week(attempts[0].at)] += 1
        return cls(
            exchanges=exchanges,
            costs={name: math.fsum(values) for name, values in costs.items()},
            calls=len(calls),
            answered=sum(any(usage.outcome == ANSWERED for usage in attempts) for attempts in calls.values()),
            fallbacks=len(fallen),
            fallbacks_per_week=weeks,
            latencies=[
                math.fsum(usage.latency + usage.waited for usage in attempts)
                for attempts in calls.values()
                if attempts[0].kind == EXCHANGE
            ],
            unpriced=sum(u.cost is None and u.input_tokens + u.output_tokens > 0 for u in usages),
            skipped=skipped,
            currency=currencies[0] if currencies else "",
        )

    @property
    def mean_exchanges(self) -> float:
        """Nombre moyen d'échanges par conversation (0 s'il n'y en a aucune)."""
        return sum(self.exchanges.values()) / len(self.exchanges) if self.exchanges else 0.0

    @property
    def mean_cost(self) -> float:
        """Coût moyen d'une conversation (0 s'il n'y en a aucune)."""
        return math.fsum(self.costs.values()) / len(self.costs) if self.costs else 0.0

    @property
    def long_share(self) -> float:
        """Part des conversations de plus de ``LONG_CONVERSATION`` échanges, de 0 à 1."""
        return sum(n > LONG_CONVERSATION for n in self.exchanges.values()) / len(self.exchanges or [0])

    @property
    def fallback_rate(self) -> float:
        """Part des appels qui se sont repliés sur un autre modèle, de 0 à 1."""
        return self.fallbacks / self.calls if self.calls else 0.0

    def latency(self, share: float) -> float:
        """Donne un quantile des durées d'appel : ``latency(0.95)`` majore 95 % d'entre elles.

        Args:
            share: la part, de 0 (exclu) à 1.

        Raises:
            ValueError: part hors de son domaine, ou aucun appel.
        """
        if not 0 < share <= 1:
            raise ValueError(f"share doit être entre 0 (exclu) et 1, reçu {share!r}.")
        if not self.latencies:
            raise ValueError("Aucun appel n'est inscrit au journal : il n'y a pas de durée à mesurer.")
        return sorted(self.latencies)[math.ceil(share * len(self.latencies)) - 1]


def _week(at: float) -> str:
    """Donne la semaine ISO d'une date, en UTC."""
    year, week, _ = datetime.fromtimestamp(at, UTC).isocalendar()
    return f"{year}-W{week:02d}"


def _weeks(dates: Iterable[float]) -> list[str]:
    """Donne toutes les semaines ISO, de la première date à la dernière."""
    known = sorted(dates)
    seconds = range(int(known[0]), int(known[-1]), 7 * 86400) if known else ()
    return list(dict.fromkeys(_week(at) for at in [*seconds, *known[-1:]]))
