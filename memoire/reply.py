"""Ce qu'est un modèle de langage pour ce cours : des messages en entrée, une réponse et son coût (chapitre 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Reply:
    """La réponse d'un modèle.

    Attributes:
        text: le texte de la réponse.
        model: le nom du modèle.
        input_tokens: taille de ce que le modèle a lu, en tokens.
        output_tokens: taille de ce qu'il a écrit, en tokens.
    """

    text: str
    model: str
    input_tokens: int
    output_tokens: int


class LLM(Protocol):
    """Un modèle de langage : une fonction sans état, des messages vers une réponse (chapitre 1)."""

    def complete(self, messages: Sequence[dict[str, Any]]) -> Reply:
        """Répond au dernier message d'utilisateur d'une conversation au format *chat completions*."""
