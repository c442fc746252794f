"""Messages, outils et comptage des tokens : le vocabulaire de toutes les mémoires (chapitres 1 et 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ROLES = ("system", "user", "assistant", "tool")

TokenCounter = Callable[[str], int]


def count_tokens(text: str) -> int:
    """Estime la taille d'un texte par la règle du cours : un token pour quatre caractères.

    Args:
        text: le texte à mesurer.

    Returns:
        Le nombre de tokens estimé, ``len(text) // 4``.

    Source : règle d'usage, dont le chapitre 1 mesure l'erreur.
    """
    return len(text) // 4


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Appel d'un outil demandé par le modèle : identifiant, nom, arguments (texte JSON)."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """Message d'une conversation, immuable, dont les tokens sont comptés une seule fois.

    Attributes:
        role: ``system``, ``user``, ``assistant`` ou ``tool``.
        content: le texte du message.
        tool_calls: les appels d'outils demandés par un message ``assistant``.
        tool_call_id: l'appel auquel répond un message ``tool``.
        tokens: la taille de ``text``, en tokens.
    """

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    tokens: int = 0

    @property
    def text(self) -> str:
        """Tout ce que le modèle lit de ce message : le contenu, puis les appels d'outils."""
        if not self.tool_calls:
            return self.content
        calls = [f"{call.name}({call.arguments})" for call in self.tool_calls]
        return " ".join([self.content, *calls] if self.content else calls)

    def render(self) -> str:
        """Donne la ligne ``[role] texte`` du message."""
        return f"[{self.role}] {self.text if self.tool_calls else self.content}"

    def to_dict(self) -> dict[str, Any]:
        """Donne le message au format des API *chat completions* (un dictionnaire neuf)."""
        data: dict[str, Any] = {"role": self.role, "content": self.content}
        if not self.tool_calls and self.tool_call_id is None:
            return data
        if self.tool_calls:
            data["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in self.tool_calls
            ]
        if self.tool_call_id is not None:
            data["tool_call_id"] = self.tool_call_id
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], count_tokens: TokenCounter = count_tokens) -> Message:
        """Lit un message au format des API *chat completions* ; c'est l'inverse de ``to_dict``.

        Raises:
            ValueError, TypeError: le dictionnaire n'est pas un message valable.
        """
        if not isinstance(data, Mapping) or "role" not in data:
            raise ValueError(f"Message illisible : un dictionnaire avec « role » est attendu, reçu {data!r}.")
        return create_message(
            data["role"], data.get("content"), data.get("tool_calls"), data.get("tool_call_id"), count_tokens
        )


_set_role, _set_content, _set_calls, _set_call_id, _set_tokens = (
    getattr(Message, name).__set__ for name in ("role", "content", "tool_calls", "tool_call_id", "tokens")
)


def _build(role: str, content: str, calls: tuple[ToolCall, ...], call_id: str | None, tokens: int) -> Message:
    """Construit un message trois fois plus vite que l'``__init__`` d'une dataclass gelée : c'est le chemin chaud."""
    message: Message = object.__new__(Message)
    _set_role(message, role)
    _set_content(message, content)
    _set_calls(message, calls)
    _set_call_id(message, call_id)
    _set_tokens(message, tokens)
    return message


def create_message(
    role: str,
    content: str | None,
    tool_calls: Sequence[Mapping[str, Any]] | None = None,
    tool_call_id: str | None = None,
    count_tokens: TokenCounter = count_tokens,
) -> Message:
    """Vérifie les champs d'un message, le construit et compte ses tokens.

    Args:
        role: l'un des rôles de ``ROLES``.
        content: le texte ; ``None`` n'est accepté qu'avec des appels d'outils (et vaut alors ``""``).
        tool_calls: appels d'outils, ``{"id", "name", "arguments"}`` ou forme des API (``{"id", "function": …}``).
        tool_call_id: pour un message ``tool``, l'identifiant de l'appel auquel il répond.
        count_tokens: le compteur de tokens.

    Returns:
        Le message, avec ``tokens`` égal à ``count_tokens(message.text)``.

    Raises:
        ValueError: rôle inconnu, ou champ d'outil mal placé.
        TypeError: contenu qui n'est pas un texte, compteur qui ne rend pas un entier positif.
    """
    if role not in ROLES:
        raise ValueError(f"Rôle inconnu : {role!r}. Rôles acceptés : {', '.join(ROLES)}.")
    if content is None and tool_calls:
        content = ""
    if not isinstance(content, str):
        raise TypeError(f"Le contenu d'un message doit être un texte (str), reçu {type(content).__name__}.")
    if tool_calls or tool_call_id is not None or role == "tool":
        calls = _read_tool_calls(role, tool_calls, tool_call_id)
        text = Message(role, content, calls).text
    else:
        calls, text = (), content
    tokens = count_tokens(text)
    if not isinstance(tokens, int) or tokens < 0:
        raise TypeError(f"Le compteur de tokens doit rendre un entier positif ou nul, reçu {tokens!r}.")
    return _build(role, content, calls, tool_call_id, tokens)


def _read_tool_calls(role: str, tool_calls: Any, tool_call_id: Any) -> tuple[ToolCall, ...]:
    """Vérifie les champs d'outils d'un message et rend ses appels."""
    if role == "tool":
        if not isinstance(tool_call_id, str) or not tool_call_id:
            raise ValueError(f"Un message « tool » doit porter un tool_call_id non vide, reçu {tool_call_id!r}.")
    elif tool_call_id is not None:
        raise ValueError(f"tool_call_id n'est accepté que pour le rôle « tool », reçu pour « {role} ».")
    if not tool_calls:
        return ()
    if role != "assistant":
        raise ValueError(f"tool_calls n'est accepté que pour le rôle « assistant », reçu pour « {role} ».")
    if isinstance(tool_calls, (str, Mapping)) or not isinstance(tool_calls, Iterable):
        raise TypeError(f"tool_calls doit être une liste d'appels, reçu {type(tool_calls).__name__}.")
    calls = tuple(_read_tool_call(call) for call in tool_calls)
    if len({call.id for call in calls}) < len(calls):
        raise ValueError(f"Deux appels d'outils portent le même identifiant : {[call.id for call in calls]!r}.")
    return calls


def _read_tool_call(call: Any) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    if isinstance(call, Mapping):
        function = call.get("function", call)
        name, arguments = (function.get("name"), function.get("arguments")) if isinstance(function, Mapping) else (0, 0)
        match (call.get("id"), name, arguments):
            case (str(call_id), str(name), str(arguments)) if call_id:
                return ToolCall(call_id, name, arguments)
    raise ValueError(
        f"Appel d'outil illisible : « id », « name » et « arguments » doivent être des textes, reçu {call!r}."
    )


def render(messages: Iterable[Message]) -> str:
    """Donne le texte d'une suite de messages : une ligne ``[role] texte`` par message."""
    return "\n".join(message.render() for message in messages)
