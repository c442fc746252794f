"""La mémoire à recherche : retrouver dans tout ce qui a été dit ce qui éclaire la question (RAG, chapitre 7)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from memoire.french import content_words, is_courtesy, is_question, split_sentences, value_key
from memoire.memory import Note, require_int
from memoire.messages import Message, TokenCounter, count_tokens
from memoire.storage import require_identifier
from memoire.summary import Summarizer, SummarizingMemory

if TYPE_CHECKING:
    from memoire.vectors import Embedder, Hit, Metadata, Record, VectorStore


def kind_of(text: str) -> str:
    """Dit si un texte affirme quelque chose : ``"affirmation"``, ``"question"`` ou ``"politesse"``.

    Une question ressemble plus à une question qu'à sa réponse : retrouvée, elle prendrait la place du fait cherché.
    Elle est donc rangée, mais écartée de la recherche.
    """
    said = [sentence for sentence in split_sentences(text) if not is_courtesy(sentence) and content_words(sentence)]
    if not said:
        return "politesse"
    return "question" if all(map(is_question, said)) else "affirmation"


class RecallingMemory(SummarizingMemory):
    """Ce que partagent les mémoires qui cherchent : une base vectorielle, une question, et ce qu'elle a rapporté.

    Sans question, c'est le dernier message de l'utilisateur qui en tient lieu. Une question n'est cherchée qu'une fois.

    Args:
        embedder: le plongement.
        store: la base vectorielle ; en mémoire vive par défaut.
        owner: le propriétaire, parmi les textes duquel on cherche.
        k: nombre de souvenirs, au plus.
        summarize: le résumeur, s'il y en a un.
        count_tokens: compteur de tokens.
    """

    def __init__(
        self,
        embedder: Embedder,
        store: VectorStore | None,
        owner: str,
        k: int,
        summarize: Summarizer | None,
        *,
        count_tokens: TokenCounter = count_tokens,
    ) -> None:
        if store is None:
            from memoire.vectors import InMemoryVectorStore

            store = InMemoryVectorStore(embedder)
        self.embedder = embedder
        self.store = store
        self.owner = require_identifier("owner", owner)
        self.k = require_int("k", k, 0)
        super().__init__(summarize, count_tokens=count_tokens)

    def reset(self) -> None:
        """Oublie la conversation."""
        super().reset()
        self._question = ""
        self._supplied: tuple[str, tuple[Note, ...]] | None = None  # la dernière question, et les notes fournies

    def get_total_tokens(self) -> int:
        """Donne la taille du dernier contexte fourni, ou de celui que donnerait ``get_context()``."""
        notes = self._supplied[1] if self._supplied else self._notes(None)
        return self._tokens + sum(note.tokens for note in notes)

    def _notes(self, query: str | None) -> tuple[Note, ...]:
        question = self._question if query is None else query
        if self._supplied is None or self._supplied[0] != question:
            self._supplied = question, tuple(self._gather(question))
        return self._supplied[1]

    def _gather(self, question: str) -> Sequence[Note]:
        """Donne les notes qui éclairent une question."""
        raise NotImplementedError

    def _heard(self, message: Message) -> None:
        """Note qu'un message est entré : ce qui avait été cherché ne vaut plus."""
        self._question = message.content if message.role == "user" else self._question
        self._supplied = None

    def _search(self, question: str, number: int, kind: str) -> list[Hit]:
        """Donne au plus ``number`` textes proches d'une question, du plus proche au moins proche."""
        if not (self.k and question.strip() and self.store.count(self.owner)):
            return []
        hits = self.store.search(self.owner, self.embedder.embed([question])[0], number, kind)
        return [hit for hit in hits if hit.score > 0]


class RAGMemory(RecallingMemory):
    """Mémoire à recherche : les derniers messages, et les anciens les plus proches de la question.

    Chaque message qui sort de la fenêtre est rangé dans une base vectorielle, sous un identifiant que donnent son
    rang et son texte : repassé après un redémarrage, il n'est ni dupliqué ni recalculé. Les souvenirs sont rendus
    dans l'ordre chronologique, sans doublon.

    Args:
        embedder: le plongement.
        store: la base vectorielle ; en mémoire vive par défaut.
        owner: le propriétaire, parmi les textes duquel on cherche.
        k: nombre de souvenirs, au plus (ceux dont la similarité est positive).
        max_recent: nombre de messages gardés mot pour mot.
        max_tokens: budget du contexte ; les messages récents passent d'abord, puis le résumé s'il tient en entier,
            puis les souvenirs, du plus proche au moins proche. Seul le dernier message peut le dépasser.
        summarize: résumeur des messages qui sortent ; aucun résumé sans lui.
        count_tokens: compteur de tokens.

    Source : définition de la mémoire avec RAG, chapitre 7.
    """

    _ids: Sequence[str] = ()  # les messages que cette conversation a rangés, dans l'ordre

    def __init__(
        self,
        embedder: Embedder,
        store: VectorStore | None = None,
        owner: str = "local",
        k: int = 4,
        max_recent: int = 6,
        max_tokens: int | None = None,
        summarize: Summarizer | None = None,
        *,
        count_tokens: TokenCounter = count_tokens,
    ) -> None:
        self.max_recent = require_int("max_recent", max_recent, 0)
        self.max_tokens = None if max_tokens is None else require_int("max_tokens", max_tokens, 1)
        super().__init__(embedder, store, owner, k, summarize, count_tokens=count_tokens)

    def reset(self) -> None:
        """Oublie cette conversation, souvenirs compris ; ceux des autres conversations restent au propriétaire."""
        if self._ids:
            self.store.remove(self.owner, self._ids)
        super().reset()
        self._ids = []

    def restore(self, checkpoint: dict[str, Any]) -> None:
        """Revient à l'état photographié ; ce qui a été rangé depuis sort de la base."""
        if added := self._ids[len(checkpoint["_ids"]) :]:
            self.store.remove(self.owner, added)
        super().restore(checkpoint)

    @property
    def over_budget(self) -> bool:
        """Vrai si le dernier message, à lui seul, dépasse le budget."""
        return self._room() < 0

    def _room(self) -> float:
        """Donne ce qui reste du budget, une fois placés l'invite système et les messages récents."""
        return float("inf") if self.max_tokens is None else self.max_tokens - self._tokens

    def _update(self, message: Message) -> None:
        number, room = self._boundary(max(0, len(self._messages) - self.max_recent)), self._room()
        while room + sum(old.tokens for old in islice(self._messages, number)) < 0:
            if (following := self._boundary(number + 1)) >= len(self._messages):
                break
            number = following
        if number:
            leaving = list(islice(self._messages, number))
            note = self._merged(leaving)
            records = [make_record(old, turn) for turn, old in enumerate(leaving, len(self._ids))]
            self.store.add(self.owner, records)
            self._note, self._ids = note, [*self._ids, *(record.id for record in records)]
            self._drop(number)
        self._heard(message)

    def _replace_system(self, message: Message) -> None:
        previous, tokens = self.system, self._tokens
        super()._replace_system(message)
        try:
            self._update(message)
        except BaseException:
            self.system, self._tokens = previous, tokens
            raise

    def _gather(self, question: str) -> Sequence[Note]:
        room = self._room()
        summary = [self._note] if self._note and self._note.tokens <= room else []
        room -= sum(note.tokens for note in summary)
        seen = {value_key(message.text) for message in self._messages}
        memories: dict[int, Note] = {}
        for hit in self._search(question, 2 * self.k + len(self._messages), "affirmation"):
            note = Note("souvenirs", hit.text, int(hit.metadata["tokens"]))
            if len(memories) < self.k and note.tokens <= room and value_key(hit.text) not in seen:
                seen.add(value_key(hit.text))
                memories[hit.position] = note
                room -= note.tokens
        return [*summary, *(memories[position] for position in sorted(memories))]


def make_record(message: Message, turn: int) -> Record:
    """Donne ce qu'une mémoire range d'un message : toujours le même identifiant pour le même rang et le même texte."""
    from memoire.vectors import Record

    key = hashlib.sha256(json.dumps([turn, message.role, message.text]).encode()).hexdigest()
    kind = kind_of(message.text)
    metadata: Metadata = {"turn": turn, "role": message.role, "kind": kind, "tokens": message.tokens}
    return Record(key, message.text, metadata=metadata)
