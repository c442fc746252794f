"""La mémoire hybride : le résumé de l'ancien, le récent mot pour mot, et l'archive complète (chapitre 7)."""

from __future__ import annotations

from typing import Any

from memoire.memory import require_int
from memoire.messages import Message, TokenCounter, count_tokens
from memoire.summary import Summarizer, SummaryMemory, truncating_summarizer


class HybridMemory(SummaryMemory):
    """Mémoire hybride : mêmes règles que ``SummaryMemory``, et rien n'est perdu hors du contexte.

    Le contexte est le résumé suivi des messages récents ; ``all_messages`` garde en outre toute la
    conversation, que l'on pourra relire, auditer ou indexer : elle seule grandit avec la conversation.

    Args:
        max_recent: nombre de messages gardés mot pour mot.
        summarize: le résumeur.
        count_tokens: compteur de tokens.

    Raises:
        ValueError, TypeError: ``max_recent`` n'est pas un entier positif ou nul.

    Source : définition de la mémoire hybride, chapitre 7.
    """

    def __init__(
        self,
        max_recent: int = 6,
        summarize: Summarizer = truncating_summarizer,
        *,
        count_tokens: TokenCounter = count_tokens,
    ) -> None:
        self.max_recent = require_int("max_recent", max_recent, 0)
        super().__init__(max_recent, summarize, count_tokens=count_tokens)

    def reset(self) -> None:
        """Oublie tout, archive comprise."""
        super().reset()
        self._archive: list[Message] = []

    @property
    def all_messages(self) -> list[dict[str, Any]]:
        """Tous les messages de la conversation."""
        return [message.to_dict() for message in self._archive]

    @property
    def recent_messages(self) -> list[dict[str, Any]]:
        """Les messages gardés mot pour mot dans le contexte."""
        return [message.to_dict() for message in self._messages]

    def _update(self, message: Message) -> None:
        super()._update(message)
        self._archive.append(message)
