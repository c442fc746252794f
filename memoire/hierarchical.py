"""La mémoire hiérarchique : de travail, épisodique, sémantique (chapitre 6)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from memoire.entities import EntityRegister, Extraction, Extractor, extract_entities
from memoire.memory import Note, require_int
from memoire.messages import Message, TokenCounter, count_tokens
from memoire.rag import RecallingMemory
from memoire.summary import ExtractiveSummarizer, Summarizer

if TYPE_CHECKING:
    from memoire.vectors import Embedder, Metadata, VectorStore


class FactStore(Protocol):
    """Où vivent les faits stables d'un utilisateur : attribut -> valeur. ``PersistentMemory`` en est un."""

    @property
    def profile(self) -> Mapping[str, Any]:
        """Les faits."""

    def update(self, profile: Mapping[str, Any], /) -> None:
        """Met à jour des faits d'un seul tenant ; une valeur ``None`` efface."""


class LocalFacts:
    """Faits gardés en mémoire vive, le temps du programme."""

    def __init__(self) -> None:
        self.profile: dict[str, Any] = {}

    def update(self, profile: Mapping[str, Any]) -> None:
        """Met à jour des faits d'un seul tenant ; une valeur ``None`` efface."""
        merged = {**self.profile, **profile}
        self.profile = {name: value for name, value in merged.items() if value is not None}


class HierarchicalMemory(RecallingMemory):
    """Mémoire hiérarchique : les derniers échanges, les sessions passées qui éclairent la question, les faits stables.

    La mémoire de travail garde les ``window_size`` derniers échanges, et résume deux par deux les messages qui en
    sortent. ``end_session`` en fait un épisode, que l'on retrouvera par le sens, et des faits, que l'on retrouvera par
    leur nom : une valeur nouvelle remplace l'ancienne. Seul l'utilisateur nourrit les faits. Attachée à une session
    enregistrée (``SessionMemory``), elle en change quand elle se clôt.

    Args:
        user: l'utilisateur, propriétaire des épisodes.
        embedder: le plongement.
        episodes: la base vectorielle des épisodes ; en mémoire vive par défaut.
        facts: les faits stables, par exemple une ``PersistentMemory`` ; en mémoire vive par défaut.
        window_size: nombre d'échanges gardés mot pour mot.
        k: nombre d'épisodes retrouvés, au plus.
        extract: l'extracteur de faits, texte -> ``Extraction``.
        summarize: le résumeur ; extractif par défaut.
        count_tokens: compteur de tokens.

    Source : définition de la mémoire hiérarchique, chapitre 6.
    """

    def __init__(
        self,
        user: str,
        embedder: Embedder,
        episodes: VectorStore | None = None,
        facts: FactStore | None = None,
        window_size: int = 5,
        k: int = 3,
        extract: Extractor = extract_entities,
        summarize: Summarizer | None = None,
        *,
        count_tokens: TokenCounter = count_tokens,
    ) -> None:
        self.facts: FactStore = LocalFacts() if facts is None else facts
        self.window_size = require_int("window_size", window_size, 0)
        self.extract = extract
        summarize = ExtractiveSummarizer() if summarize is None else summarize
        super().__init__(embedder, episodes, user, k, summarize, count_tokens=count_tokens)

    def reset(self) -> None:
        """Oublie la session en cours ; épisodes et faits demeurent (``memoire.persistence.erase`` les efface)."""
        super().reset()
        self._turn = 0
        self._register = EntityRegister()
        self._register.add(Extraction(attributes={k: str(v) for k, v in self.facts.profile.items()}), self._turn)

    @property
    def attributes(self) -> dict[str, str]:
        """Les faits courants, attribut -> valeur : ceux des sessions passées, mis à jour par celle-ci."""
        return self._register.attributes

    def history(self, name: str) -> list[tuple[int, str]]:
        """Donne les valeurs successives d'un attribut, avec leur tour (0 : une session passée)."""
        return self._register.history(name)

    def end_session(self) -> str:
        """Clôt la session : la mémoire de travail devient un épisode et des faits, puis se vide.

        Si une écriture échoue, rien n'est gardé, la session continue et l'appel peut être refait.

        Returns:
            Le texte de l'épisode (``""`` si la session est vide).
        """
        note = self._merged(self._messages) if self._messages else self._note
        known, current = self.facts.profile, self._register.attributes
        changes: dict[str, str | None] = {k: v for k, v in current.items() if str(known.get(k)) != v}
        changes.update({k: None for k in known if k not in current and self._register.history(k)})
        episode = self._add_episode(note) if note else None
        try:
            if changes:
                self.facts.update(changes)
        except BaseException:
            if episode:
                self.store.remove(self.owner, [episode])
            raise
        system = self.system
        self.reset()
        if system:
            self._replace_system(system)
        return note.text if note else ""

    def _add_episode(self, note: Note) -> str | None:
        """Range un épisode ; rend son identifiant, ou ``None`` s'il était déjà connu."""
        from memoire.vectors import Record

        key, before = hashlib.sha256(note.text.encode()).hexdigest(), self.store.count(self.owner)
        metadata: Metadata = {"kind": "épisode", "tokens": note.tokens}
        self.store.add(self.owner, [Record(key, note.text, metadata=metadata)])
        return key if self.store.count(self.owner) > before else None

    def _update(self, message: Message) -> None:
        register, turn = self._register, self._turn
        if message.role == "user":
            register, turn = copy(register), turn + 1
            register.add(self.extract(message.content), turn)
        excess = 0 if self._awaited else len(self._messages) - 2 * self.window_size
        number = self._boundary(min(max(2, excess), len(self._messages))) if excess > 0 else 0
        note = self._merged(islice(self._messages, number)) if number else self._note
        self._register, self._turn, self._note = register, turn, note
        self._drop(number)
        self._heard(message)

    def _gather(self, question: str) -> Sequence[Note]:
        facts = " ; ".join(f"{name} : {value}" for name, value in self._register.attributes.items())
        semantic = [Note("faits", facts, self.count_tokens(facts))] if facts else []
        hits = sorted(self._search(question, self.k, "épisode"), key=lambda hit: hit.position)
        episodic = [Note("souvenirs", hit.text, int(hit.metadata["tokens"])) for hit in hits]
        return [*semantic, *episodic, *([self._note] if self._note else [])]
