"""La compression de contexte : résumé hiérarchique et sélection par plongements (chapitre 5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from memoire.entities import Fact, drop_repetitions, keep_current
from memoire.french import (
    clue_score,
    condense,
    content_words,
    is_courtesy,
    is_question,
    shorten,
    split_sentences,
    value_key,
)
from memoire.memory import BaseMemory, Note, require_int
from memoire.messages import Message, TokenCounter, count_tokens
from memoire.summary import SummarizingMemory

if TYPE_CHECKING:
    from memoire.vectors import Embedder

Themes = Mapping[str, str]

THEMES: Themes = {
    "identité": "appelle prénom nom âge habite vis ville travaille métier poste société entreprise chez suis",
    "moyens": "budget coût coûte prix euro payer dépense moyens facture tarif salaire montant",
    "calendrier": "échéance délai date calendrier livraison livrer réunion mois semaine jour planning reporter lundi",
    "mesures": "taux précision rappel score seuil résultat mesure performance erreur pourcentage moyenne chiffre test",
    "équipe": "équipe collègue client directeur directrice analyste rejoint rejoindre embaucher partenaire responsable",
    "technique": "modèle donnée outil utiliser utilise déployé algorithme code base serveur logiciel variable version",
    "préférences": "préférer préfère aimer souhaiter vouloir veux voudrais éviter détester besoin important",
}
"""Thèmes du résumé hiérarchique, et les mots qui y mènent ; ce qui n'entre dans aucun va dans « divers »."""


FACT_SEPARATOR = "\u00a0; "


def find_facts(texts: Iterable[str], limit: int = 50) -> list[Fact]:
    """Donne les faits d'une suite de textes : les phrases affirmatives qui portent un indice.

    Args:
        texts: les textes, du plus ancien au plus récent.
        limit: nombre de faits rendus au plus ; les plus récents restent.

    Returns:
        Les faits, dans l'ordre, coupés à 30 mots.
    """
    sentences = (sentence for text in texts for sentence in split_sentences(text))
    chosen = deque((s for s in sentences if not is_question(s) and clue_score(s) > 1), maxlen=limit)
    return [Fact.read(shorten(condense(sentence).rstrip(" ."), 30)) for sentence in chosen]


class HierarchicalSummaryMemory(SummarizingMemory):
    """Résumé hiérarchique : la session, ses thèmes, les faits de chaque thème ; puis les derniers messages.

    Un fait est une phrase de l'utilisateur qui porte un indice. Il va au thème dont il partage le plus de mots ;
    une valeur nouvelle remplace l'ancienne, et un thème plein oublie son fait le plus ancien.

    Args:
        max_recent: nombre de messages gardés mot pour mot.
        max_facts: nombre de faits par thème.
        themes: thème -> mots qui y mènent.
        count_tokens: compteur de tokens.

    Source : résumé hiérarchique, chapitre 5.
    """

    def __init__(
        self,
        max_recent: int = 4,
        max_facts: int = 4,
        *,
        themes: Themes = THEMES,
        count_tokens: TokenCounter = count_tokens,
    ) -> None:
        self.max_recent = require_int("max_recent", max_recent, 0)
        self.max_facts = require_int("max_facts", max_facts, 1)
        self.themes = {theme: frozenset(content_words(words)) for theme, words in themes.items()}
        super().__init__(None, count_tokens=count_tokens)  # les règles tiennent lieu de résumeur

    def reset(self) -> None:
        """Oublie tout."""
        super().reset()
        self._facts: tuple[Fact, ...] = ()
        self._summarized = 0

    @property
    def tree(self) -> dict[str, dict[str, list[str]]]:
        """Session -> thème -> faits (vide s'il n'y a pas encore de fait)."""
        return build_tree(self._facts, self.themes, self._summarized)

    def _update(self, message: Message) -> None:
        number = self._boundary(max(0, len(self._messages) - self.max_recent))
        if number:
            new = find_facts(m.content for m in islice(self._messages, number) if m.role == "user")
            facts = keep_last_by_theme(keep_current([*self._facts, *new]), self.themes, self.max_facts)
            text = render_tree(build_tree(facts, self.themes, self._summarized + number))
            note = Note("résumé", text, self.count_tokens(text)) if text else None
            self._facts, self._note, self._summarized = facts, note, self._summarized + number
            self._drop(number)


def theme_of(fact: str, themes: Mapping[str, frozenset[str]]) -> str:
    """Donne le thème dont un fait partage le plus de mots ; à égalité, le premier ; à défaut, « divers »."""
    words = set(content_words(fact))
    best = max(themes, key=lambda theme: len(words & themes[theme]), default="divers")
    return best if words & themes.get(best, frozenset()) else "divers"


def keep_last_by_theme(facts: Iterable[Fact], themes: Mapping[str, frozenset[str]], max_facts: int) -> tuple[Fact, ...]:
    """Garde, sans répétition, les ``max_facts`` derniers faits de chaque thème, dans l'ordre chronologique."""
    facts = drop_repetitions(facts)
    placed = [theme_of(fact.text, themes) for fact in facts]
    return tuple(fact for i, fact in enumerate(facts) if placed[i:].count(placed[i]) <= max_facts)


def build_tree(
    facts: Iterable[Fact], themes: Mapping[str, frozenset[str]], messages: int
) -> dict[str, dict[str, list[str]]]:
    """Range des faits par thème, sous une session de ``messages`` messages."""
    tree: dict[str, list[str]] = {theme: [] for theme in (*themes, "divers")}
    for fact in facts:
        tree[theme_of(fact.text, themes)].append(fact.text)
    filled = {theme: texts for theme, texts in tree.items() if texts}
    return {f"session de {messages} messages": filled} if filled else {}


def render_tree(tree: Mapping[str, Mapping[str, Iterable[str]]]) -> str:
    """Écrit un arbre sur une ligne : ``session de 12 messages | thème : fait ; fait | …``."""
    parts: list[str] = []
    for session, themes in tree.items():
        parts += [session, *(f"{theme}\u00a0: {FACT_SEPARATOR.join(facts)}" for theme, facts in themes.items())]
    return " | ".join(parts)


class Passage(NamedTuple):
    """Un ancien message et son vecteur."""

    text: str
    tokens: int
    vector: Any


def index_passages(messages: Iterable[Message], embedder: Embedder) -> list[Passage]:
    """Calcule en un seul appel les vecteurs des messages qui affirment quelque chose.

    Une question ressemble plus à une question qu'à sa réponse : archivée, elle prendrait la place du fait cherché.
    Seules les phrases affirmatives font donc le vecteur, et un message qui n'en a pas n'est pas archivé.

    Raises:
        ValueError: le plongement ne rend pas un vecteur par texte.
    """
    kept, texts = [], []
    for message in messages:
        said = [s for s in split_sentences(message.text) if not is_question(s) and not is_courtesy(s)]
        if any(content_words(sentence) for sentence in said):
            kept.append(message)
            texts.append(" ".join(said))
    vectors = embedder.embed(texts) if texts else ()
    if len(vectors) != len(texts):
        raise ValueError(f"Le plongement doit rendre {len(texts)} vecteurs, reçu {len(vectors)}.")
    return [Passage(m.text, m.tokens, vector.copy()) for m, vector in zip(kept, vectors, strict=True)]


def require_embedder(embedder: Embedder) -> Embedder:
    """Rend ``embedder`` s'il sait plonger des textes ; sinon lève TypeError."""
    if isinstance(embedder, type) or not callable(getattr(embedder, "embed", None)):
        raise TypeError(f"embedder doit être un plongement, avec une méthode embed(textes), reçu {embedder!r}.")
    return embedder


def nearest(question: str, passages: Sequence[Passage], embedder: Embedder, k: int, known: set[str]) -> list[Passage]:
    """Choisit les ``k`` passages les plus proches d'une question ; à égalité, le plus récent.

    Args:
        question: la question.
        passages: l'archive, du plus ancien au plus récent.
        embedder: le plongement qui a donné les vecteurs de l'archive.
        k: nombre de passages, au plus : une similarité nulle ou négative ne choisit personne.
        known: les textes (repliés par ``value_key``) à ne pas répéter.

    Returns:
        Les passages choisis, sans doublon, dans l'ordre chronologique.
    """
    if not (passages and k and question.strip()):
        return []
    target = embedder.embed([question])[0]
    scores = [round(float(passage.vector @ target), 6) for passage in passages]
    seen, chosen = set(known), list[int]()
    for place in sorted(range(len(scores)), key=lambda i: (-scores[i], -i)):
        if len(chosen) == k or scores[place] <= 0:
            break
        if (text := value_key(passages[place].text)) not in seen:
            seen.add(text)
            chosen.append(place)
    return [passages[place] for place in sorted(chosen)]


class QueriedMemory(BaseMemory):
    """Ce que partagent les mémoires qui cherchent : leurs notes dépendent de la question posée.

    Sans question, c'est le dernier message de l'utilisateur qui en tient lieu.
    """

    def reset(self) -> None:
        """Oublie tout."""
        super().reset()
        self._question = ""
        self._supplied: tuple[str, tuple[Note, ...]] | None = None  # la dernière question cherchée, et ses notes

    def get_total_tokens(self) -> int:
        """Donne la taille du dernier contexte fourni (sinon, de celui que donnerait ``get_context()``)."""
        notes = self._supplied[1] if self._supplied else self._notes(None)
        return self._tokens + sum(note.tokens for note in notes)

    def _ask(self, message: Message) -> None:
        """Prend note d'un nouveau message : ce qui avait été cherché ne vaut plus."""
        self._question = message.content if message.role == "user" else self._question
        self._supplied = None

    def _notes(self, query: str | None) -> tuple[Note, ...]:
        question = self._question if query is None else query
        if self._supplied is None or self._supplied[0] != question:
            self._supplied = (question, tuple(self._retrieve(question)))
        return self._supplied[1]

    def _retrieve(self, question: str) -> Iterable[Note]:
        """Cherche ce qui répond à une question."""
        raise NotImplementedError


class SelectionMemory(QueriedMemory):
    """Sélection par plongements : les derniers messages, et les anciens les plus proches de la question.

    Les anciens choisis sont rendus dans l'ordre chronologique, une note « souvenirs » chacun, sans doublon.

    Args:
        embedder: le plongement.
        k: nombre d'anciens messages choisis, au plus (ceux dont la similarité est positive).
        max_recent: nombre de messages gardés mot pour mot.
        max_passages: taille de l'archive ; au-delà, le plus ancien est oublié.
        count_tokens: compteur de tokens.

    Source : sélection par plongements, chapitre 5.
    """

    def __init__(
        self,
        embedder: Embedder,
        k: int = 4,
        max_recent: int = 4,
        max_passages: int = 500,
        *,
        count_tokens: TokenCounter = count_tokens,
    ) -> None:
        self.embedder = require_embedder(embedder)
        self.k = require_int("k", k, 0)
        self.max_recent = require_int("max_recent", max_recent, 0)
        self.max_passages = require_int("max_passages", max_passages, 1)
        super().__init__(count_tokens=count_tokens)

    def reset(self) -> None:
        """Oublie tout, archive comprise."""
        super().reset()
        self._passages: deque[Passage] = deque(maxlen=self.max_passages)

    def _update(self, message: Message) -> None:
        number = self._boundary(max(0, len(self._messages) - self.max_recent))
        self._passages.extend(index_passages(islice(self._messages, number), self.embedder))
        self._drop(number)
        self._ask(message)

    def _retrieve(self, question: str) -> Iterable[Note]:
        known = {value_key(message.text) for message in self._messages}
        chosen = nearest(question, self._passages, self.embedder, self.k, known)
        return [Note("souvenirs", passage.text, passage.tokens) for passage in chosen]
