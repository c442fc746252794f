"""Le résumé de conversation : résumer ce qui s'éloigne, garder ce qui est récent (chapitre 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from memoire.entities import Fact, drop_repetitions, keep_current
from memoire.french import (
    clue_score,
    condense,
    count_words,
    is_courtesy,
    is_question,
    punctuate,
    shorten,
    split_sentences,
)
from memoire.memory import BaseMemory, Note, require_int
from memoire.messages import Message, TokenCounter, count_tokens

if TYPE_CHECKING:
    from memoire.llm import LLM

Turn = tuple[str, str]
"""Un message vu par un résumeur : (rôle, texte)."""

Summarizer = Callable[[str, Sequence[Turn]], str]
"""Un résumeur : ``summarize(résumé_actuel, anciens_messages) -> nouveau résumé``."""

SUMMARY_PROMPT = """\
Vous tenez à jour le résumé d'une conversation entre un utilisateur et un assistant.
Vous recevez le résumé actuel, puis les échanges à y intégrer.
- Mettez à jour le résumé actuel : gardez ce qu'il contient, ajoutez ce qui est nouveau.
- Conservez les décisions, les demandes en attente et ce que l'utilisateur a dit de lui-même et de son projet.
- Supprimez les formules de politesse et les répétitions.
- Si une information a changé, ne gardez que la nouvelle.
- 120 mots au plus, en français.
- Répondez uniquement par le texte du résumé, sans titre ni commentaire."""


def truncating_summarizer(summary: str, old: Sequence[Turn]) -> str:
    """Tient lieu de modèle : garde les 60 premiers caractères des messages de plus de 30 caractères.

    Args:
        summary: le résumé actuel (``""`` s'il n'y en a pas).
        old: les messages à résumer, (rôle, texte).

    Returns:
        ``Résumé : a... ; b...`` la première fois ; puis l'ancien résumé, ``" | "`` et les nouveaux extraits.
        Sa longueur n'est pas bornée.

    Source : substitut d'usage dans les démonstrations, critiqué au chapitre 4.
    """
    extracts = " ; ".join(f"{text[:60]}..." for _, text in old if len(text) > 30)
    return f"{summary} | {extracts}" if summary else f"Résumé : {extracts}"


def llm_summarizer(llm: LLM) -> Summarizer:
    """Donne un résumeur qui fait rédiger le résumé par un modèle, selon ``SUMMARY_PROMPT``.

    Args:
        llm: le modèle.

    Returns:
        Un résumeur ; il lève ValueError si le modèle rend un résumé vide, et rien n'est alors oublié.
    """

    def summarize(summary: str, old: Sequence[Turn]) -> str:
        exchanges = "\n".join(f"[{role}] {text}" for role, text in old)
        request = f"Résumé actuel :\n{summary or '(aucun)'}\n\nÉchanges à intégrer :\n{exchanges}"
        reply = llm.complete([{"role": "system", "content": SUMMARY_PROMPT}, {"role": "user", "content": request}])
        if not (text := reply.text.strip()):
            raise ValueError("Le modèle a rendu un résumé vide : le résumé précédent est conservé.")
        return text

    return summarize


class SummarizingMemory(BaseMemory):
    """Ce que partagent les mémoires à résumé : un résumé courant, placé avant les messages gardés.

    Args:
        summarize: le résumeur ; ``None`` pour une mémoire qui peut s'en passer.
        count_tokens: compteur de tokens.

    Raises:
        TypeError: ``summarize`` n'est pas une fonction.
    """

    def __init__(self, summarize: Summarizer | None, *, count_tokens: TokenCounter = count_tokens) -> None:
        if summarize is not None and not callable(summarize):
            raise TypeError(f"summarize doit être une fonction (résumé, messages) -> résumé, reçu {summarize!r}.")
        self.summarize = summarize
        super().__init__(count_tokens=count_tokens)

    def reset(self) -> None:
        """Oublie tout, résumé compris."""
        super().reset()
        self._note: Note | None = None

    @property
    def summary(self) -> str:
        """Le résumé courant (``""`` s'il n'y en a pas encore)."""
        return self._note.text if self._note else ""

    def _turns(self, messages: Iterable[Message]) -> list[Turn]:
        """Donne les messages sous la forme que lit le résumeur."""
        return [(message.role, message.text) for message in messages]

    def _merged(self, old: Iterable[Message]) -> Note | None:
        """Donne le résumé où ``old`` est entré, sans rien changer : un échec du résumeur ne coûte rien."""
        if self.summarize is None:
            return None
        text = self.summarize(self.summary, self._turns(old))
        if not isinstance(text, str):
            raise TypeError(f"Le résumeur doit rendre un texte (str), reçu {type(text).__name__}.")
        return Note("résumé", text, self.count_tokens(text)) if text else None

    def _summarize_oldest(self, number: int) -> None:
        """Fait entrer les ``number`` messages les plus anciens dans le résumé, puis les retire."""
        self._note = self._merged(islice(self._messages, number))
        self._drop(number)

    def _notes(self, query: str | None) -> Iterable[Note]:
        return (self._note,) if self._note else ()


class SummaryMemory(SummarizingMemory):
    """Mémoire à résumé : au-delà du seuil, les deux messages les plus anciens entrent dans le résumé.

    Un appel d'outil et ses résultats y entrent ensemble, une fois tous les résultats reçus.

    Args:
        summary_threshold: nombre de messages gardés mot pour mot avant de résumer.
        summarize: le résumeur ; celui par défaut tronque, et ne borne pas le résumé.
        count_tokens: compteur de tokens.

    Raises:
        ValueError, TypeError: ``summary_threshold`` n'est pas un entier positif ou nul.

    Source : définition du résumé de conversation, chapitre 4.
    """

    def __init__(
        self,
        summary_threshold: int = 4,
        summarize: Summarizer = truncating_summarizer,
        *,
        count_tokens: TokenCounter = count_tokens,
    ) -> None:
        self.summary_threshold = require_int("summary_threshold", summary_threshold, 0)
        super().__init__(summarize, count_tokens=count_tokens)

    def _update(self, message: Message) -> None:
        excess = len(self._messages) - self.summary_threshold
        if excess > 0 and not self._awaited:
            self._summarize_oldest(self._boundary(min(max(2, excess), len(self._messages))))


class RollingSummary(SummarizingMemory):
    """Résumé glissant : au-delà de ``max_turns`` messages, tous sauf ``keep_last`` sont résumés d'un coup.

    Args:
        summarize: le résumeur, appelé une fois par lot : ``summarize(résumé, [(rôle, texte), …])``.
        max_turns: nombre de messages au-delà duquel on résume.
        keep_last: nombre de messages qui restent mot pour mot (davantage s'ils couperaient un appel d'outil).
        count_tokens: compteur de tokens.

    Raises:
        ValueError, TypeError: paramètre qui n'est pas un entier positif, ou ``keep_last >= max_turns``.

    Source : définition du résumé glissant, chapitre 4.
    """

    def __init__(
        self,
        summarize: Summarizer,
        max_turns: int = 12,
        keep_last: int = 6,
        *,
        count_tokens: TokenCounter = count_tokens,
    ) -> None:
        self.max_turns = require_int("max_turns", max_turns, 1)
        self.keep_last = require_int("keep_last", keep_last, 0)
        if keep_last >= max_turns:
            raise ValueError(f"keep_last doit être inférieur à max_turns, reçu {keep_last} et {max_turns}.")
        super().__init__(summarize, count_tokens=count_tokens)

    def add(self, role: str, text: str) -> None:
        """Ajoute un message ; ``role`` vaut ``"user"`` ou ``"model"``."""
        if role not in ("user", "model"):
            raise ValueError(f"Rôle inconnu : {role!r}. Rôles acceptés : user, model.")
        self.add_message("assistant" if role == "model" else role, text)

    @property
    def turns(self) -> list[Turn]:
        """Les messages gardés mot pour mot, en (rôle, texte)."""
        return self._turns(self._messages)

    def _turns(self, messages: Iterable[Message]) -> list[Turn]:
        return [("model" if message.role == "assistant" else message.role, message.text) for message in messages]

    def _update(self, message: Message) -> None:
        if len(self._messages) > self.max_turns and not self._awaited:
            cut = len(self._messages) - self.keep_last
            while 0 < cut < len(self._messages) and self._messages[cut].role == "tool":
                cut -= 1
            if cut:
                self._summarize_oldest(cut)


class ExtractiveSummarizer:
    """Résumeur extractif : garde les phrases les plus riches en indices, sans dépasser ``max_words`` mots.

    Les phrases du résumé précédent concourent avec les nouvelles. Comptent : la parole de l'utilisateur, un nombre,
    un nom propre, une préférence, une décision. Sortent : les politesses, les répétitions, les questions qui ont eu
    leur réponse, les valeurs remplacées depuis. L'ordre reste chronologique. Un mot compte pour un par tranche de
    20 caractères : un texte sans espaces ne passe pas pour un seul mot.

    Args:
        max_words: nombre de mots du résumé, au plus.

    Raises:
        ValueError, TypeError: ``max_words`` n'est pas un entier d'au moins 1.

    Source : résumé extractif, chapitre 4.
    """

    def __init__(self, max_words: int = 120) -> None:
        self.max_words = require_int("max_words", max_words, 1)

    def __call__(self, summary: str, old: Sequence[Turn]) -> str:
        """Donne le nouveau résumé ; les phrases y sont allégées, et coupées à 40 mots."""
        scores: dict[str, int] = {}  # une répétition reprend sa place la plus récente
        for number, (role, text) in enumerate([("résumé", summary), *old]):
            is_open = all(later == role or (role == "résumé" and later == "user") for later, _ in old[number:])
            for sentence in split_sentences(text):
                if not is_courtesy(sentence) and (is_open or not is_question(sentence)):
                    kept = shorten(punctuate(condense(sentence)), min(40, self.max_words))
                    scores.pop(kept, None)
                    scores[kept] = clue_score(sentence) + (1 if role in ("user", "résumé") else -1)
        order = {sentence: place for place, sentence in enumerate(scores)}
        best = sorted(scores, key=lambda sentence: (-scores[sentence], -order[sentence]))[: 2 * self.max_words]
        read = (Fact.read(sentence) for sentence in sorted(best, key=order.__getitem__) if scores[sentence] > 0)
        facts = drop_repetitions(keep_current(read))
        return " ".join(fact.text for fact in self._fitting(facts, scores))

    def _fitting(self, facts: list[Fact], scores: dict[str, int]) -> list[Fact]:
        """Choisit les faits les plus riches qui tiennent ensemble ; à égalité, les plus récents."""
        left, chosen = self.max_words, set()
        for place in sorted(range(len(facts)), key=lambda i: (-self._richness(facts[i], scores), -i)):
            if (size := count_words(facts[place].text)) <= left:
                chosen.add(place)
                left -= size
        return [fact for place, fact in enumerate(facts) if place in chosen]

    def _richness(self, fact: Fact, scores: dict[str, int]) -> int:
        """Note un fait : ses indices, et trois points de plus s'il donne sa valeur à un attribut."""
        return scores.get(fact.text, 1) + 3 * bool(fact.attributes)
