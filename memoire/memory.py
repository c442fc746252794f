"""Ce que toutes les mémoires ont en commun : le protocole ``Memory`` et sa base (chapitre 2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from memoire.messages import Message, TokenCounter, count_tokens, create_message

ToolCalls = Sequence[Mapping[str, Any]]


def require_int(name: str, value: object, minimum: int) -> int:
    """Rend ``value`` si c'est un entier d'au moins ``minimum`` ; sinon lève TypeError ou ValueError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} doit être un entier, reçu {value!r}.")
    if value < minimum:
        raise ValueError(f"{name} doit valoir au moins {minimum}, reçu {value}.")
    return value


class BudgetError(ValueError):
    """Un message ne peut pas tenir dans le budget de la mémoire, même seul : il est refusé, rien ne change."""


@runtime_checkable
class Memory(Protocol):
    """L'interface commune des stratégies de mémoire (définition 1 du cours)."""

    def add_message(
        self, role: str, content: str, *, tool_calls: ToolCalls | None = None, tool_call_id: str | None = None
    ) -> None:
        """Ajoute un message à la conversation."""

    def get_messages(self, query: str | None = None) -> list[dict[str, Any]]:
        """Donne le contexte, prêt pour une API *chat completions*."""

    def get_context(self, query: str | None = None) -> str:
        """Donne le contexte en texte, une ligne ``[role] texte`` par message."""

    def get_total_tokens(self) -> int:
        """Donne la taille, en tokens, du contexte réellement fourni."""

    def reset(self) -> None:
        """Oublie tout."""

    def checkpoint(self) -> dict[str, Any]:
        """Photographie l'état, pour ``restore``."""

    def restore(self, checkpoint: dict[str, Any]) -> None:
        """Revient à l'état photographié."""


class Note(NamedTuple):
    """Ligne ajoutée au contexte par une mémoire (résumé, entités…), à côté des messages.

    L'étiquette tient lieu de rôle : comme lui, elle ne compte pas dans les tokens.
    """

    label: str
    text: str
    tokens: int

    def render(self) -> str:
        """Donne la ligne ``[étiquette] texte``."""
        return f"[{self.label}] {self.text}"

    def to_dict(self) -> dict[str, Any]:
        """Donne la note sous la forme d'un message système."""
        return {"role": "system", "content": self.render()}


class BaseMemory:
    """Base des stratégies : vérifie, compte, garde l'invite système à part et assemble le contexte.

    Une stratégie définit ``_update`` (ce qui sort quand un message est entré) et, s'il y a lieu,
    ``_notes`` (les lignes ajoutées en tête du contexte). Si ``_update`` échoue, le message n'est pas entré.
    """

    def __init__(self, *, count_tokens: TokenCounter = count_tokens) -> None:
        if not callable(count_tokens):
            raise TypeError(f"count_tokens doit être une fonction texte -> entier, reçu {count_tokens!r}.")
        self.count_tokens = count_tokens
        self.reset()

    def reset(self) -> None:
        """Oublie tout, invite système comprise."""
        self.system: Message | None = None
        self._messages: deque[Message] = deque()  # les messages gardés mot pour mot, du plus ancien au plus récent
        self._tokens = 0  # leur taille totale et celle de l'invite système, tenues à jour
        self._awaited: frozenset[str] = frozenset()  # les appels d'outils encore sans résultat

    def add_message(
        self, role: str, content: str, *, tool_calls: ToolCalls | None = None, tool_call_id: str | None = None
    ) -> None:
        """Ajoute un message à la conversation ; un message ``system`` remplace l'invite système.

        Args:
            role: ``system``, ``user``, ``assistant`` ou ``tool``.
            content: le texte du message.
            tool_calls: les appels d'outils d'un message ``assistant``.
            tool_call_id: l'appel auquel répond un message ``tool``.

        Raises:
            ValueError: rôle inconnu, résultat d'outil sans appel en attente, message plus grand que le budget.
            TypeError: contenu qui n'est pas un texte.
        """
        message = create_message(role, content, tool_calls, tool_call_id, self.count_tokens)
        if role == "system":
            self._replace_system(message)
            return
        awaited = self._awaited
        if awaited or message.tool_calls or role == "tool":
            self._awaited = self._awaited_after(message)
        self._push(message)
        try:
            self._update(message)
        except BaseException:
            self._unpush()
            self._awaited = awaited
            raise

    def get_messages(self, query: str | None = None) -> list[dict[str, Any]]:
        """Donne le contexte, prêt pour une API *chat completions* : invite système, notes, messages.

        Args:
            query: la question courante, pour les stratégies qui cherchent ; ignorée par les autres.

        Returns:
            Une liste neuve de dictionnaires, que l'appelant peut modifier.
        """
        return [piece.to_dict() for piece in (*self._head(query), *self._recent())]

    def get_context(self, query: str | None = None) -> str:
        """Donne le contexte en texte : une ligne ``[role] texte`` par message (``""`` s'il est vide)."""
        return "\n".join([piece.render() for piece in (*self._head(query), *self._recent())])

    def get_total_tokens(self) -> int:
        """Donne la taille du contexte fourni, en tokens : invite système, notes et messages."""
        total = self._tokens
        for note in self._notes(None):
            total += note.tokens
        return total

    def checkpoint(self) -> dict[str, Any]:
        """Photographie l'état : une copie des conteneurs (les messages, immuables, sont partagés)."""
        return {name: value.copy() if hasattr(value, "copy") else value for name, value in vars(self).items()}

    def restore(self, checkpoint: dict[str, Any]) -> None:
        """Revient à l'état photographié par ``checkpoint``."""
        vars(self).update({k: v.copy() if hasattr(v, "copy") else v for k, v in checkpoint.items()})

    # Ce que les stratégies définissent ou emploient

    def _update(self, message: Message) -> None:
        """Fait sortir ce qui doit l'être. Toute fonction injectée est appelée avant le premier changement."""

    def _notes(self, query: str | None) -> Iterable[Note]:
        """Donne les lignes que la stratégie place entre l'invite système et les messages."""
        return ()

    def _recent(self) -> Iterable[Message]:
        """Donne les messages gardés mot pour mot, dans l'ordre."""
        return self._messages

    def _replace_system(self, message: Message) -> None:
        self._tokens += message.tokens - (self.system.tokens if self.system else 0)
        self.system = message

    def _head(self, query: str | None) -> Iterable[Message | Note]:
        return self._notes(query) if self.system is None else (self.system, *self._notes(query))

    def _push(self, message: Message) -> None:
        self._messages.append(message)
        self._tokens += message.tokens

    def _unpush(self) -> None:
        self._tokens -= self._messages.pop().tokens

    def _drop(self, number: int) -> None:
        """Retire les ``number`` messages les plus anciens."""
        for _ in range(number):
            self._tokens -= self._messages.popleft().tokens

    def _trim(self, limit: int) -> int:
        """Retire les plus anciens au-delà de ``limit`` messages et dit combien sont sortis."""
        number = self._boundary(max(0, len(self._messages) - limit))
        self._drop(number)
        return number

    def _boundary(self, index: int) -> int:
        """Avance ``index`` s'il séparerait un appel d'outil de ses résultats : ils sortent ensemble."""
        while index < len(self._messages) and self._messages[index].role == "tool":
            index += 1
        return index

    def _awaited_after(self, message: Message) -> frozenset[str]:
        """Donne les appels en attente une fois ``message`` reçu ; refuse un résultat orphelin."""
        if message.role == "tool":
            if message.tool_call_id not in self._awaited:
                raise ValueError(
                    f"Résultat d'outil orphelin : aucun appel en attente ne porte l'identifiant "
                    f"{message.tool_call_id!r} (en attente : {sorted(self._awaited) or 'aucun'})."
                )
            return self._awaited - {message.tool_call_id}
        return frozenset(call.id for call in message.tool_calls)
