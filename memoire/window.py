"""Les fenêtres : les derniers échanges, ou les plus utiles sous un budget (chapitre 3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain

from memoire.memory import BaseMemory, BudgetError, Note, require_int
from memoire.messages import Message, TokenCounter, count_tokens
from memoire.summary import Summarizer, SummarizingMemory


class SlidingWindowMemory(BaseMemory):
    """Fenêtre glissante : les ``2 * window_size`` derniers messages, rien d'autre.

    Un appel d'outil et ses résultats sortent ensemble : un groupe plus grand que la fenêtre n'y tient pas.

    Args:
        window_size: nombre K d'échanges gardés ; 0 donne une mémoire vide.
        count_tokens: compteur de tokens.

    Raises:
        ValueError, TypeError: ``window_size`` n'est pas un entier positif ou nul.

    Source : définition de la fenêtre glissante, chapitre 3.
    """

    def __init__(self, window_size: int = 5, *, count_tokens: TokenCounter = count_tokens) -> None:
        self.window_size = require_int("window_size", window_size, 0)
        super().__init__(count_tokens=count_tokens)

    def reset(self) -> None:
        """Oublie tout."""
        super().reset()
        self._lost = 0

    def get_lost_count(self) -> int:
        """Donne le nombre de messages sortis de la fenêtre depuis le début."""
        return self._lost

    def _update(self, message: Message) -> None:
        self._lost += self._trim(2 * self.window_size)


class PriorityWindowMemory(SummarizingMemory):
    """Fenêtre à priorités sous un budget de tokens : quand la place manque, le moins utile sort d'abord.

    Sortent, dans l'ordre : les anciens messages ordinaires, du plus vieux au plus récent ; les anciens appels
    d'outils, avec leurs résultats ; puis les messages des ``keep_exchanges`` derniers échanges. Ni l'invite système
    ni le dernier message (ou groupe d'outils) ne sont coupés : ce qui ne tiendrait pas est refusé (``BudgetError``).

    Args:
        max_tokens: budget en tokens : invite système + résumé + messages.
        keep_exchanges: nombre des derniers échanges, de priorité haute.
        max_exchanges: nombre d'échanges à partir duquel ``is_full`` conseille une nouvelle conversation.
        summarize: résumeur des messages qui sortent ; sans lui, ils sont abandonnés.
        summary_tokens: part du budget réservée au résumé (un quart par défaut) ; au-delà, son début est coupé.
        count_tokens: compteur de tokens.

    Raises:
        ValueError, TypeError: paramètre hors de son domaine.

    Source : fenêtre à priorités, chapitre 3.
    """

    def __init__(
        self,
        max_tokens: int = 4096,
        keep_exchanges: int = 2,
        max_exchanges: int = 20,
        *,
        summarize: Summarizer | None = None,
        summary_tokens: int | None = None,
        count_tokens: TokenCounter = count_tokens,
    ) -> None:
        self.max_tokens = require_int("max_tokens", max_tokens, 1)
        self.keep_exchanges = require_int("keep_exchanges", keep_exchanges, 1)
        self.max_exchanges = require_int("max_exchanges", max_exchanges, 1)
        share = max_tokens // 4 if summary_tokens is None else require_int("summary_tokens", summary_tokens, 0)
        if share > max_tokens:
            raise ValueError(f"summary_tokens doit être au plus max_tokens ({max_tokens}), reçu {share}.")
        self.summary_tokens = share if summarize else 0
        super().__init__(summarize, count_tokens=count_tokens)

    def reset(self) -> None:
        """Oublie tout."""
        super().reset()
        self._units: dict[int, tuple[Message, ...]] = {}  # un message, ou un appel d'outil et ses résultats
        self._plain: deque[int] = deque()  # les clés des messages ordinaires, dans l'ordre
        self._tools: deque[int] = deque()  # les clés des groupes d'outils, dans l'ordre
        self._starts: deque[int] = deque()  # la première clé de chacun des derniers échanges
        self._last = -1  # la clé la plus récente
        self.exchange_count = 0

    @property
    def is_full(self) -> bool:
        """Vrai quand la conversation compte ``max_exchanges`` échanges : mieux vaut en ouvrir une autre."""
        return self.exchange_count >= self.max_exchanges

    def _update(self, message: Message) -> None:
        if self.get_total_tokens() > self.max_tokens:
            out = self._chosen_to_leave()
            if self.summarize:
                note = self._merged(chain.from_iterable(self._units[key] for key in out))
                self._note = self._shortened(note) if note else None
            for key in out:
                self._remove(key)
        while len(self._starts) > self.keep_exchanges:
            self._starts.popleft()

    def _chosen_to_leave(self) -> list[int]:
        """Choisit les unités à sacrifier pour tenir dans le budget, résumé compris."""
        out: list[int] = []
        excess = self._tokens + self.summary_tokens - self.max_tokens
        for key in self._by_priority():
            if excess <= 0:
                break
            out.append(key)
            excess -= sum([message.tokens for message in self._units[key]])
        if excess > 0:
            raise BudgetError(
                f"Ce message ne tient pas dans le budget de {self.max_tokens} tokens, même sans les autres : "
                f"{excess} de trop. Raccourcissez-le ou augmentez max_tokens."
            )
        return out

    def _by_priority(self) -> Iterator[int]:
        """Donne les clés, de la première à sacrifier à la dernière ; jamais celle du dernier message."""
        recent = self._starts[-self.keep_exchanges] if len(self._starts) >= self.keep_exchanges else 0
        for keys in (self._plain, self._tools):
            for key in keys:
                if key >= recent:
                    break
                yield key
        yield from (key for key in self._units if recent <= key < self._last)

    def _shortened(self, note: Note) -> Note | None:
        """Coupe le début d'un résumé trop long pour sa part du budget."""
        text, words = note.text, note.text.split()
        while words and self.count_tokens(text) > self.summary_tokens:
            words = words[1 + len(words) // 8 :]
            text = " ".join(["…", *words]) if words else ""
        return Note(note.label, text, self.count_tokens(text)) if text else None

    def _push(self, message: Message) -> None:
        self._tokens += message.tokens
        if message.role == "tool":
            self._units[self._last] += (message,)
            return
        self._last += 1
        self._units[self._last] = (message,)
        (self._tools if message.tool_calls else self._plain).append(self._last)
        if message.role == "user":
            self._starts.append(self._last)
            self.exchange_count += 1

    def _unpush(self) -> None:
        *before, message = self._units[self._last]
        self._tokens -= message.tokens
        if before:
            self._units[self._last] = tuple(before)
            return
        del self._units[self._last]
        (self._tools if message.tool_calls else self._plain).pop()
        if message.role == "user":
            self._starts.pop()
            self.exchange_count -= 1
        self._last -= 1

    def _remove(self, key: int) -> None:
        unit = self._units.pop(key)
        (self._tools if unit[0].tool_calls else self._plain).popleft()
        self._tokens -= sum([message.tokens for message in unit])

    def _recent(self) -> Iterable[Message]:
        return chain.from_iterable(self._units.values())

    def _replace_system(self, message: Message) -> None:
        previous, tokens = self.system, self._tokens
        super()._replace_system(message)
        try:
            self._update(message)
        except BaseException:
            self.system, self._tokens = previous, tokens
            raise
