"""La mémoire tampon : tout garder, puis tronquer par le plus ancien (chapitre 2)."""

from __future__ import annotations

from memoire.memory import BaseMemory, require_int
from memoire.messages import Message, TokenCounter, count_tokens


class ConversationBufferMemory(BaseMemory):
    """Mémoire tampon : tous les messages, tant qu'ils tiennent dans ``max_tokens``.

    Les plus anciens sortent tant que le total dépasse ``max_tokens`` et qu'il en reste plus d'un (un appel
    d'outil et ses résultats comptent pour un). Un message plus grand à lui seul que le budget est donc
    gardé : ``over_budget`` le signale, à l'application de le découper.

    Args:
        max_tokens: budget en tokens, invite système comprise.
        count_tokens: compteur de tokens.

    Raises:
        ValueError, TypeError: ``max_tokens`` n'est pas un entier d'au moins 1.

    Source : définition de la mémoire tampon, chapitre 2.
    """

    def __init__(self, max_tokens: int = 4096, *, count_tokens: TokenCounter = count_tokens) -> None:
        self.max_tokens = require_int("max_tokens", max_tokens, 1)
        super().__init__(count_tokens=count_tokens)

    @property
    def over_budget(self) -> bool:
        """Vrai si le dernier message, à lui seul, dépasse le budget."""
        return self._tokens > self.max_tokens

    def _update(self, message: Message) -> None:
        while self._tokens > self.max_tokens and (oldest := self._boundary(1)) < len(self._messages):
            self._drop(oldest)

    def _replace_system(self, message: Message) -> None:
        super()._replace_system(message)
        self._update(message)
