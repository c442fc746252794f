"""Les entités : extraire personnes, organisations, sujets, lieux et attributs, puis les suivre (chapitre 5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple

from memoire.french import content_words, split_sentences, value_key
from memoire.memory import BaseMemory, Note, require_int
from memoire.messages import Message, TokenCounter, count_tokens

CATEGORIES = ("personnes", "organisations", "sujets", "lieux")
MAX_CHARACTERS = 100_000
"""Nombre de caractères lus dans un message : au-delà (un fichier collé ?), ce n'est plus un échange."""
LINKED = {"prénom": "personnes", "nom": "personnes", "employeur": "organisations", "ville": "lieux"}
"""Attributs dont la valeur est aussi une entité : une valeur remplacée quitte sa catégorie."""


@dataclass(frozen=True)
class Extraction:
    """Ce qu'un texte apprend.

    Attributes:
        categories: catégorie -> entités nommées dans le texte.
        attributes: attribut -> valeur annoncée.
        previous: attribut -> ancienne valeur rappelée (« passé de 10k à 50k »).
        ended: entités qui ne sont plus d'actualité (« je ne travaille plus chez Airbus »).
    """

    categories: Mapping[str, list[str]] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    previous: Mapping[str, str] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)


Extractor = Callable[[str], Extraction]
"""Un extracteur : texte -> ce qu'il apprend."""


def extract_entities(text: str) -> Extraction:
    """Extrait d'un texte français ses entités et les attributs qu'il annonce, par des règles.

    Un prénom sans majuscule n'est reconnu qu'après « je m'appelle » ou « mon prénom est », et reçoit alors sa
    majuscule. Une question ou une hypothèse (« si le budget passe à 50k ») n'annonce rien.

    Args:
        text: le texte d'un message, lu jusqu'à ``MAX_CHARACTERS`` caractères.

    Returns:
        Les quatre catégories, toujours présentes, et les attributs.
    """
    from memoire.extraction import Reader  # ses règles ne sont compilées qu'au premier usage

    reader = Reader()
    for sentence in split_sentences(text[:MAX_CHARACTERS]):
        reader.read(sentence)
    categories = {category: list(reader.categories[category].values()) for category in CATEGORIES}
    return Extraction(categories, reader.attributes, reader.previous, reader.ended)


class EntityRegister:
    """Registre des entités et des attributs, avec leur histoire ; sa taille est bornée.

    Deux écritures qui ne diffèrent que par la casse ou les accents sont une même entité, gardée sous la
    première. La valeur courante d'un attribut est la dernière annoncée ; les précédentes restent dans son histoire.

    Args:
        max_values: nombre d'entités par catégorie, d'attributs, et de valeurs par histoire ; au-delà, les plus
            anciennement citées sont oubliées.

    Raises:
        ValueError, TypeError: ``max_values`` n'est pas un entier d'au moins 1.

    Source : suivi d'entités, chapitre 5.
    """

    def __init__(self, max_values: int = 50) -> None:
        self.max_values = require_int("max_values", max_values, 1)
        self._values: dict[str, dict[str, str]] = {category: {} for category in CATEGORIES}
        self._current: dict[str, str] = {}
        self._history: dict[str, tuple[tuple[int, str], ...]] = {}
        self._text: str | None = ""

    def __copy__(self) -> EntityRegister:
        twin = EntityRegister(self.max_values)
        twin._values = {category: values.copy() for category, values in self._values.items()}
        twin._current, twin._history, twin._text = self._current.copy(), self._history.copy(), self._text
        return twin

    copy = __copy__

    def add(self, extraction: Extraction, turn: int) -> None:
        """Fait entrer ce qu'un texte apprend ; une extraction mal formée est refusée et ne change rien.

        Args:
            extraction: ce que l'extracteur a rendu.
            turn: le numéro du tour.

        Raises:
            TypeError: l'extraction ou ses valeurs ne sont pas du type attendu.
            ValueError: catégorie inconnue.
        """
        _check(extraction)
        for value in extraction.ended:
            self._end(value)
        for category, values in extraction.categories.items():
            for value in filter(None, map(_tidy, values)):
                if category != "personnes" or not self._is_known_person(value):
                    self._values[category].setdefault(value_key(value), value)
        for name, value in extraction.previous.items():
            self._set(self._resolve(name), _tidy(value), turn)
        for name, value in extraction.attributes.items():
            self._set(self._resolve(name), _tidy(value), turn)
        for known in self._values.values():
            while len(known) > self.max_values:
                del known[next(iter(known))]
        while len(self._history) > self.max_values:
            oldest = next(iter(self._history))
            del self._history[oldest]
            self._current.pop(oldest, None)
        self._text = None

    def _resolve(self, name: str) -> str:
        """Trouve l'attribut visé : « l'échéance », après « l'échéance de livraison », si c'est la seule connue."""
        if name in self._history:
            return name
        longer = [known for known in self._history if known.startswith(f"{name} ")]
        return longer[0] if len(longer) == 1 else name

    def _is_known_person(self, name: str) -> bool:
        """Dit si un prénom est celui d'une personne déjà connue par son nom entier."""
        return any(known.startswith(f"{value_key(name)} ") for known in self._values["personnes"])

    def _set(self, name: str, value: str, turn: int) -> None:
        """Donne sa valeur à un attribut ; l'ancienne rejoint l'histoire et quitte sa catégorie."""
        current = self._current.get(name)
        if not value or (current is not None and value_key(current) == value_key(value)):
            return
        if current is not None and name in LINKED:
            self._values[LINKED[name]].pop(value_key(current), None)
        history = self._history.pop(name, ())
        self._history[name] = (*history, (turn, value))[-self.max_values :]
        self._current[name] = value

    def _end(self, value: str) -> None:
        """Retire de l'actualité une valeur, partout où elle figure ; l'histoire la garde."""
        key = value_key(value)
        for values in self._values.values():
            values.pop(key, None)
        for name in [name for name, current in self._current.items() if value_key(current) == key]:
            del self._current[name]

    @property
    def categories(self) -> dict[str, list[str]]:
        """Catégorie -> entités, dans l'ordre où elles sont apparues (une copie)."""
        return {category: list(values.values()) for category, values in self._values.items()}

    @property
    def attributes(self) -> dict[str, str]:
        """Attribut -> valeur courante (une copie)."""
        return dict(self._current)

    def history(self, name: str) -> list[tuple[int, str]]:
        """Donne les valeurs successives d'un attribut, avec leur tour (liste vide s'il est inconnu)."""
        return list(self._history.get(name, ()))

    def render(self) -> str:
        """Donne le texte de la ligne ``[entités]`` : les catégories, puis les valeurs courantes des attributs."""
        if self._text is None:
            lists = [(name, ", ".join(values.values())) for name, values in self._values.items() if values]
            self._text = "\u00a0; ".join(f"{name}\u00a0: {text}" for name, text in (*lists, *self._current.items()))
        return self._text


_SPACES = re.compile(r"[ \t\r\n]+")


def _tidy(value: str) -> str:
    """Ramène une valeur à une ligne d'au plus 80 caractères ; les espaces insécables restent."""
    value = _SPACES.sub(" ", value[:400]).strip()
    return value if len(value) <= 80 else f"{value[:79]}…"


def _check(extraction: object) -> None:
    if not isinstance(extraction, Extraction):
        raise TypeError(f"L'extracteur doit rendre une Extraction, reçu {type(extraction).__name__}.")
    for name in ("categories", "attributes", "previous"):
        if not isinstance(getattr(extraction, name), Mapping):
            raise TypeError(f"Extraction.{name} doit être un dictionnaire, reçu {getattr(extraction, name)!r}.")
    if unknown := [name for name in extraction.categories if name not in CATEGORIES]:
        raise ValueError(f"Catégorie inconnue : {unknown[0]!r}. Catégories acceptées : {', '.join(CATEGORIES)}.")
    lists: list[object] = [*extraction.categories.values(), extraction.ended]
    for values in lists:
        if not isinstance(values, (list, tuple)) or not all(isinstance(value, str) for value in values):
            raise TypeError(f"Une liste de textes est attendue dans une Extraction, reçu {values!r}.")
    for pair in (*extraction.attributes.items(), *extraction.previous.items()):
        if not all(isinstance(text, str) for text in pair):
            raise TypeError(f"Un attribut associe un texte à un texte, reçu {pair!r}.")


class Fact(NamedTuple):
    """Une phrase et ce qu'elle annonce, pour savoir si une autre la remplace (résumés, chapitres 4 et 5)."""

    text: str
    attributes: dict[str, str]
    ended: frozenset[str]
    is_named: bool

    @classmethod
    def read(cls, sentence: str) -> Fact:
        """Lit une phrase."""
        found = extract_entities(sentence)
        values = {name: value_key(value) for name, value in found.attributes.items()}
        return cls(sentence, values, frozenset(map(value_key, found.ended)), any(found.categories.values()))


def keep_current(facts: Iterable[Fact]) -> list[Fact]:
    """Retire d'une suite de faits ce qu'un fait plus récent a remplacé.

    Si un attribut reçoit une nouvelle valeur, la phrase qui annonçait l'ancienne disparaît. Il n'en reste que les
    propositions qui nomment autre chose : de « Je m'appelle Alice et mon budget est de 10k », « Je m'appelle Alice ».

    Args:
        facts: les faits, du plus ancien au plus récent.

    Returns:
        Les faits qui tiennent encore, dans le même ordre.
    """
    current: dict[str, str] = {}
    ended: set[str] = set()
    kept: list[Fact] = []
    for fact in reversed(list(facts)):
        if _is_stale(fact, current, ended):
            clauses = [Fact.read(clause) for clause in _CLAUSES.split(fact.text.rstrip(" ."))]
            valid = [c for c in clauses if (c.attributes or c.is_named) and not _is_stale(c, current, ended)]
            if not valid or len(valid) == len(clauses):
                continue
            text = ", ".join(clause.text for clause in valid)
            fact = Fact.read(f"{text[:1].upper()}{text[1:]}.")
        for name, value in fact.attributes.items():
            current.setdefault(name, value)
        ended |= fact.ended
        kept.append(fact)
    return kept[::-1]


def drop_repetitions(facts: Iterable[Fact]) -> list[Fact]:
    """Retire les faits dont tous les mots pleins se retrouvent dans un fait plus récent (ordre conservé)."""
    kept: list[tuple[Fact, set[str]]] = []
    for fact in reversed(list(facts)):
        words = set(content_words(fact.text))
        if not any(words <= other for _, other in kept):
            kept.append((fact, words))
    return [fact for fact, _ in reversed(kept)]


_CLAUSES = re.compile(r",\s+(?:et\s+|mais\s+)?|\s+(?:et|mais)\s+|\s*[;:]\s+")


def _is_stale(fact: Fact, current: Mapping[str, str], ended: set[str]) -> bool:
    """Dit si un fait annonce une valeur remplacée depuis, ou déclarée finie."""
    for name, value in fact.attributes.items():
        newer = current.get(name) or next((current[head] for head in current if name.startswith(f"{head} ")), value)
        if newer != value or value in ended:
            return True
    return False


class RegisterMemory(BaseMemory):
    """Ce que partagent les mémoires à registre : des entités et des attributs, montrés avant les messages gardés."""

    max_values: int

    def reset(self) -> None:
        """Oublie tout, registre compris."""
        super().reset()
        self._register = EntityRegister(self.max_values)
        self._note: Note | None = None
        self._turn = 0

    @property
    def entities(self) -> dict[str, list[str]]:
        """Catégorie -> entités (une copie)."""
        return self._register.categories

    @property
    def attributes(self) -> dict[str, str]:
        """Attribut -> valeur courante (une copie)."""
        return self._register.attributes

    def history(self, name: str) -> list[tuple[int, str]]:
        """Donne les valeurs successives d'un attribut, avec leur tour."""
        return self._register.history(name)

    def _notes(self, query: str | None) -> Iterable[Note]:
        return (self._note,) if self._note else ()


class EntityMemory(RegisterMemory):
    """Mémoire à entités : un registre de ce que dit l'utilisateur, et les derniers messages.

    Seul l'utilisateur nourrit le registre : une réponse du modèle peut se tromper, et le résultat d'un outil n'est
    pas une phrase. Le tour est le rang du message de l'utilisateur.

    Args:
        max_recent: nombre de messages gardés mot pour mot (un appel d'outil et ses résultats sortent ensemble).
        extract: l'extracteur, texte -> ``Extraction``.
        max_values: borne du registre : entités par catégorie, attributs, valeurs par histoire.
        count_tokens: compteur de tokens.

    Source : définition de l'extraction d'entités, chapitre 5.
    """

    def __init__(
        self,
        max_recent: int = 4,
        extract: Extractor = extract_entities,
        max_values: int = 50,
        *,
        count_tokens: TokenCounter = count_tokens,
    ) -> None:
        if not callable(extract):
            raise TypeError(f"extract doit être une fonction texte -> Extraction, reçu {extract!r}.")
        self.max_recent = require_int("max_recent", max_recent, 0)
        self.max_values = require_int("max_values", max_values, 1)
        self.extract = extract
        super().__init__(count_tokens=count_tokens)

    def _update(self, message: Message) -> None:
        if message.role == "user":
            register = copy(self._register)  # en cas d'échec, l'ancien registre reste
            register.add(self.extract(message.content), self._turn + 1)
            text = register.render()
            note = Note("entités", text, self.count_tokens(text)) if text else None
            self._register, self._note, self._turn = register, note, self._turn + 1
        self._trim(self.max_recent)
