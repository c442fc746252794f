"""La simulation comparative : une même conversation pour toutes les mémoires (chapitre 9)."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate
from statistics import fmean
from typing import Any

from memoire.french import fold
from memoire.llm import LLM, SimulatedLLM, is_abstention
from memoire.memory import Memory
from memoire.messages import Message, create_message

KEPT, SUMMARISED, LOST, TO_COME = "gardé", "résumé", "perdu", "à venir"
"""Les états d'un fait : message d'origine mot pour mot, preuve sous une autre forme, absent, pas encore dit."""

TRACE_WORDS = 5
"""Nombre de mots consécutifs d'un échange qui, retrouvés dans le contexte, prouvent qu'il en reste une trace."""

MEMORY_METHODS = ("add_message", "get_messages", "get_context", "get_total_tokens", "reset")
"""Ce qu'une mémoire doit savoir faire pour être simulée."""


class SimulationError(RuntimeError):
    """Une mémoire a échoué pendant la simulation ; le message dit laquelle, et à quel tour."""


@dataclass(frozen=True)
class Fact:
    """Un fait dit dans la conversation.

    Attributes:
        id: le nom court du fait.
        turn: le tour où il est dit (le premier vaut 1).
        text: le fait, en une phrase.
        evidence: les textes qui, tous présents dans un contexte, prouvent que le fait y est.
        superseded_by: le fait qui le remplace plus tard, s'il y en a un.
        kind: la famille du fait (présentation, projet, outil, suite, mise à jour).
    """

    id: str
    turn: int
    text: str
    evidence: tuple[str, ...]
    superseded_by: str | None = None
    kind: str = ""


@dataclass(frozen=True)
class Question:
    """Une question posée dans la conversation, et ce qu'une bonne réponse contient.

    Attributes:
        turn: le tour dont le message d'utilisateur pose la question.
        text: la question.
        category: fait, plusieurs faits, temps, mise à jour ou absent.
        expected: les textes que contient une bonne réponse ; vide s'il faut s'abstenir.
        fact_ids: les faits nécessaires.
    """

    turn: int
    text: str
    category: str
    expected: tuple[str, ...] = ()
    fact_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Conversation:
    """Une conversation, les faits qu'elle contient et les questions qui les redemandent.

    Un tour commence à chaque message d'utilisateur. Les preuves et les questions sont vérifiées : chacune doit
    se trouver dans un message de son tour.

    Attributes:
        messages: tous les messages, appels d'outils compris.
        facts: les faits.
        questions: les questions.
        title: le sujet de la conversation.

    Raises:
        ValueError: preuve ou question absente de son tour, fait inconnu ou en double.
    """

    messages: tuple[Message, ...]
    facts: tuple[Fact, ...] = ()
    questions: tuple[Question, ...] = ()
    title: str = ""
    turns: tuple[int, ...] = field(init=False)
    """Le tour de chaque message."""

    def __post_init__(self) -> None:
        turns = tuple(accumulate(int(message.role == "user") for message in self.messages))
        object.__setattr__(self, "turns", turns)
        ids = [fact.id for fact in self.facts]
        if len(set(ids)) < len(ids):
            raise ValueError(f"Deux faits portent le même nom : {ids}.")
        for fact in self.facts:
            if not fact.evidence or not self.sources(fact):
                raise ValueError(f"Aucun message du tour {fact.turn} ne contient les preuves du fait « {fact.id} ».")
            if fact.superseded_by is not None and fact.superseded_by not in ids:
                raise ValueError(f"Le fait « {fact.id} » est remplacé par un fait inconnu : {fact.superseded_by!r}.")
        for question in self.questions:
            said = [m.content for m in self.exchange(question.turn) if m.role == "user"]
            if not any(question.text in text for text in said):
                raise ValueError(f"Le tour {question.turn} ne pose pas la question « {question.text} ».")
            if unknown := set(question.fact_ids) - set(ids):
                raise ValueError(f"La question « {question.text} » cite des faits inconnus : {sorted(unknown)}.")

    @property
    def turn_count(self) -> int:
        """Le nombre de tours."""
        return self.turns[-1] if self.turns else 0

    def exchange(self, turn: int) -> list[Message]:
        """Donne les messages d'un tour."""
        return [m for m, t in zip(self.messages, self.turns, strict=True) if t == turn]

    def sources(self, fact: Fact) -> list[int]:
        """Donne les indices des messages du tour du fait qui en contiennent toutes les preuves."""
        return [
            index
            for index, (message, turn) in enumerate(zip(self.messages, self.turns, strict=True))
            if turn == fact.turn and contains_all(message.text, fact.evidence)
        ]

    def pairs(self) -> list[tuple[str, str]]:
        """Donne la conversation sans les outils, en paires (rôle, contenu)."""
        return [(m.role, m.content) for m in self.messages if m.role != "tool" and not m.tool_calls]


@dataclass(frozen=True)
class Answer:
    """La réponse du modèle à une question, avec le contexte d'une stratégie.

    Attributes:
        question: la question.
        text: la réponse.
        correct: vrai si elle contient tout ce qui est attendu (ou si elle s'abstient quand il le faut).
        abstained: vrai si le modèle a dit ne pas savoir.
        input_tokens: taille de ce que le modèle a lu.
    """

    question: Question
    text: str
    correct: bool
    abstained: bool
    input_tokens: int


@dataclass
class Result:
    """Ce que ``run`` a mesuré. Chaque liste a un élément par réponse de l'assistant.

    Attributes:
        conversation: la conversation jouée.
        turns: le tour de chaque mesure.
        history: la taille de tout l'historique, en tokens.
        tokens: par stratégie, la taille du contexte, en tokens.
        contexts: par stratégie, le texte du contexte.
        kept: par stratégie, les indices des messages présents mot pour mot.
        notes: par stratégie, les lignes ajoutées par la mémoire (résumé, entités…).
        retention: par stratégie puis par fait, l'état du fait (gardé, résumé, perdu ou à venir).
        answers: par stratégie, la réponse à chaque question.
    """

    conversation: Conversation
    turns: list[int] = field(default_factory=list)
    history: list[int] = field(default_factory=list)
    tokens: dict[str, list[int]] = field(default_factory=dict)
    contexts: dict[str, list[str]] = field(default_factory=dict)
    kept: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    notes: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    retention: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    answers: dict[str, list[Answer]] = field(default_factory=dict)

    @property
    def ratios(self) -> dict[str, list[float]]:
        """Le taux de compression rho_t : contexte / historique (1 tant que l'historique est vide)."""
        return {
            name: [size / total if total else 1.0 for size, total in zip(sizes, self.history, strict=True)]
            for name, sizes in self.tokens.items()
        }

    @property
    def cumulated(self) -> dict[str, list[int]]:
        """Les tokens fournis depuis le début, un contexte par tour."""
        return {name: list(accumulate(sizes)) for name, sizes in self.tokens.items()}

    def mean_tokens(self, name: str) -> float:
        """Donne la taille moyenne du contexte d'une stratégie, en tokens."""
        return fmean(self._of(self.tokens, name) or [0])

    def accuracy(self, name: str, category: str | None = None) -> float:
        """Donne la part de bonnes réponses d'une stratégie, de 0 à 1.

        Args:
            name: la stratégie.
            category: ne compter que cette catégorie de questions.

        Raises:
            ValueError: stratégie inconnue, ou aucune question de cette catégorie.
        """
        answers = [a for a in self._of(self.answers, name) if category in (None, a.question.category)]
        if not answers:
            raise ValueError(f"Aucune question à évaluer (catégorie {category!r}).")
        return fmean(answer.correct for answer in answers)

    def fact_counts(self, name: str, index: int = -1) -> dict[str, int]:
        """Compte les faits gardés, résumés et perdus à une mesure (la dernière par défaut)."""
        states = Counter(row[index] for row in self._of(self.retention, name).values())
        return {state: states[state] for state in (KEPT, SUMMARISED, LOST)}

    def exchange_counts(self, name: str, last: int = 10) -> dict[str, int]:
        """Compte, à la fin, ce qu'il reste des ``last`` derniers échanges.

        Un échange est « gardé » si tous ses messages sont dans le contexte mot pour mot ; « résumé » s'il en reste
        une trace (un de ses messages, ou ``TRACE_WORDS`` mots consécutifs dans une note) ; « perdu » sinon.
        """
        kept = set(self._of(self.kept, name)[-1]) if self.turns else set()
        notes = [_words(note) for note in self.notes[name][-1]] if self.turns else []
        seen = {run for words in notes for run in _runs(words)}
        counts = dict.fromkeys((KEPT, SUMMARISED, LOST), 0)
        conversation = self.conversation
        for turn in range(max(1, conversation.turn_count - last + 1), conversation.turn_count + 1):
            indices = [i for i, t in enumerate(conversation.turns) if t == turn]
            runs = {run for i in indices for run in _runs(_words(conversation.messages[i].text))}
            if kept.issuperset(indices):
                counts[KEPT] += 1
            elif kept.intersection(indices) or runs & seen:
                counts[SUMMARISED] += 1
            else:
                counts[LOST] += 1
        return counts

    def table(self) -> list[dict[str, Any]]:
        """Donne le bilan, une ligne par stratégie ; ``markdown_table`` le met en forme."""
        rows = []
        for name in self.tokens:
            row: dict[str, Any] = {"Stratégie": name}
            if self.turns:
                row["Tokens à la fin"] = self.tokens[name][-1]
                row["Tokens en moyenne"] = round(self.mean_tokens(name))
                row["Tokens cumulés"] = self.cumulated[name][-1]
                row["Taux de compression"] = round(self.ratios[name][-1], 2)
            if self.conversation.facts and self.turns:
                row |= {f"Faits : {state}s": n for state, n in self.fact_counts(name).items()}
            if self.conversation.questions:
                row["Exactitude"] = round(self.accuracy(name), 2)
                row["Abstentions"] = sum(answer.abstained for answer in self.answers[name])
            rows.append(row)
        return rows

    def _of(self, values: Mapping[str, Any], name: str) -> Any:
        if name not in values:
            raise ValueError(f"Stratégie inconnue : {name!r}. Stratégies mesurées : {', '.join(values)}.")
        return values[name]


def load_conversation() -> Conversation:
    """Lit la conversation de 30 tours du cours.

    Returns:
        La conversation, ses faits et ses questions.
    """
    data = json.loads(files("memoire").joinpath("data/conversation_30.json").read_text(encoding="utf-8"))
    return Conversation(
        messages=tuple(Message.from_dict(message) for message in data["messages"]),
        facts=tuple(Fact(**{**fact, "evidence": tuple(fact["evidence"])}) for fact in data["facts"]),
        questions=tuple(
            Question(**{**q, "expected": tuple(q["expected"]), "fact_ids": tuple(q["fact_ids"])})
            for q in data["questions"]
        ),
        title=data["title"],
    )


def run(
    conversation: Conversation | Iterable[tuple[str, str]], memories: Mapping[str, Memory], llm: LLM | None = None
) -> Result:
    """Joue une conversation dans chaque mémoire et mesure son contexte après chaque réponse de l'assistant.

    Les mémoires sont d'abord remises à zéro : relancer une simulation redonne les mêmes mesures. Une question est
    posée au modèle avec le contexte que donne la mémoire juste après le message d'utilisateur qui la contient ;
    ni la question ni la réponse n'entrent dans la mémoire. Un appel d'outil n'est pas une réponse : on ne mesure
    qu'après le message final du tour.

    Args:
        conversation: une ``Conversation``, ou des paires (rôle, contenu).
        memories: les mémoires à comparer, par nom de stratégie.
        llm: le modèle qui répond aux questions (``SimulatedLLM`` par défaut).

    Returns:
        Les mesures.

    Raises:
        TypeError, ValueError: conversation ou mémoires illisibles.
        SimulationError: une mémoire (ou le modèle) a échoué ; le message nomme la stratégie et le tour.
    """
    if not isinstance(conversation, Conversation):
        conversation = Conversation(tuple(read_pairs(conversation)))
    if not isinstance(memories, Mapping):
        raise TypeError(f"memories doit être un dictionnaire nom -> mémoire, reçu {type(memories).__name__}.")
    for name, memory in memories.items():
        if missing := [method for method in MEMORY_METHODS if not callable(getattr(memory, method, None))]:
            raise TypeError(f"La stratégie « {name} » n'est pas une mémoire, il lui manque : {', '.join(missing)}.")
    model = SimulatedLLM() if llm is None else llm
    result = Result(conversation)
    spoken = list(accumulate(message.tokens for message in conversation.messages))
    for index, message in enumerate(conversation.messages):
        if is_reply(message):
            result.turns.append(conversation.turns[index])
            result.history.append(spoken[index])
    for name, memory in memories.items():
        Player(result, name, memory, model).play()
    return result


class Player:
    """Joue la conversation dans une seule mémoire et range ses mesures dans le résultat."""

    def __init__(self, result: Result, name: str, memory: Memory, llm: LLM) -> None:
        self.conversation = result.conversation
        self.name, self.memory, self.llm = name, memory, llm
        self.tokens: list[int] = result.tokens.setdefault(name, [])
        self.contexts: list[str] = result.contexts.setdefault(name, [])
        self.kept: list[tuple[int, ...]] = result.kept.setdefault(name, [])
        self.notes: list[tuple[str, ...]] = result.notes.setdefault(name, [])
        self.answers: list[Answer] = result.answers.setdefault(name, [])
        facts = self.conversation.facts
        self.keys = [_key(message.to_dict()) for message in self.conversation.messages]
        self.sources = {fact.id: frozenset(self.conversation.sources(fact)) for fact in facts}
        self.retention: dict[str, list[str]] = result.retention.setdefault(name, {fact.id: [] for fact in facts})

    def play(self) -> None:
        """Joue toute la conversation."""
        turn = 0
        try:
            self.memory.reset()
            for message, turn in zip(self.conversation.messages, self.conversation.turns, strict=True):
                _add(self.memory, message)
                if message.role == "user":
                    self.ask(turn)
                elif is_reply(message):
                    self.measure(turn)
        except Exception as error:
            raise SimulationError(
                f"La stratégie « {self.name} » a échoué au tour {turn} : {type(error).__name__} : {error}"
            ) from error

    def ask(self, turn: int) -> None:
        """Pose au modèle les questions du tour, avec le contexte du moment."""
        for question in self.conversation.questions:
            if question.turn == turn:
                context = self.memory.get_messages(query=question.text)
                reply = self.llm.complete([*context, {"role": "user", "content": question.text}])
                abstained = is_abstention(reply.text)
                correct = not abstained and contains_all(reply.text, question.expected)
                correct = correct if question.expected else abstained
                self.answers.append(Answer(question, reply.text, correct, abstained, reply.input_tokens))

    def measure(self, turn: int) -> None:
        """Mesure le contexte à la fin du tour."""
        self.tokens.append(self.memory.get_total_tokens())
        self.contexts.append(self.memory.get_context())
        kept, others = self.match(self.memory.get_messages())
        self.kept.append(tuple(sorted(kept)))
        self.notes.append(tuple(others))
        texts = [_fold(text) for text in (*others, *(self.conversation.messages[index].text for index in kept))]
        for fact in self.conversation.facts:
            if fact.turn > turn:
                state = TO_COME
            elif self.sources[fact.id] & kept:
                state = KEPT
            elif all(any(_contains(text, _fold(item)) for text in texts) for item in fact.evidence):
                state = SUMMARISED
            else:
                state = LOST
            self.retention[fact.id].append(state)

    def match(self, context: Sequence[Mapping[str, Any]]) -> tuple[set[int], list[str]]:
        """Sépare, dans un contexte, les messages de la conversation (leurs indices) et les notes (leur texte)."""
        places: dict[tuple[Any, ...], list[int]] = {}
        for index, key in enumerate(self.keys):
            places.setdefault(key, []).append(index)
        kept: set[int] = set()
        notes = []
        for piece in reversed(context):
            if indices := places.get(_key(piece)):
                kept.add(indices.pop())
            else:
                notes.append(str(piece["content"]))
        return kept, notes[::-1]


# Ce que le chapitre 9 calcule sur un résultat


@dataclass(frozen=True)
class Scores:
    """Les quatre axes du compromis, pour une stratégie.

    Attributes:
        fidelity: part de bonnes réponses, de 0 à 1 (calculée ; plus elle est grande, mieux c'est).
        tokens: taille moyenne du contexte, en tokens (calculée ; plus elle est petite, mieux c'est).
        complexity: lignes de code à comprendre (comptées ; c'est nous qui jugeons que ce nombre dit la complexité).
        growth: tokens gagnés par tour à la fin de la conversation (calculés ; 0 pour un contexte borné).
    """

    fidelity: float
    tokens: float
    complexity: int
    growth: float

    def dominates(self, other: Scores) -> bool:
        """Dit si ces scores valent les autres sur les quatre axes, et les battent sur un au moins."""
        mine, theirs = self._costs(), other._costs()
        return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))

    def _costs(self) -> tuple[float, ...]:
        return (-self.fidelity, self.tokens, self.complexity, self.growth)


def trade_off(result: Result, memories: Mapping[str, Memory]) -> dict[str, Scores]:
    """Calcule les quatre axes du compromis pour chaque stratégie d'un résultat.

    Args:
        result: le résultat de ``run``.
        memories: les mémoires qui l'ont donné.

    Returns:
        Les scores, par nom de stratégie.
    """
    return {
        name: Scores(
            fidelity=result.accuracy(name),
            tokens=result.mean_tokens(name),
            complexity=code_lines(memories[name]),
            growth=token_growth(result.tokens[name]),
        )
        for name in result.tokens
    }


def champions(scores: Mapping[str, Scores]) -> list[str]:
    """Donne les stratégies qui dominent toutes les autres sur les quatre axes (en principe, aucune)."""
    return [
        name for name, mine in scores.items() if all(mine.dominates(s) for other, s in scores.items() if other != name)
    ]


def pareto_front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Donne le front de Pareto de points (coût, qualité) : ceux qu'aucun autre ne bat.

    Args:
        points: par nom, un coût (à minimiser) et une qualité (à maximiser).

    Returns:
        Les noms du front, du moins coûteux au plus coûteux.
    """
    front = [
        name
        for name, (cost, value) in points.items()
        if not any(c <= cost and v >= value and (c, v) != (cost, value) for c, v in points.values())
    ]
    return sorted(front, key=lambda name: points[name])


def token_growth(tokens: Sequence[int], last: int = 10) -> float:
    """Mesure la croissance du contexte : moyenne des ``last`` dernières tailles, moins celle des précédentes.

    Returns:
        Des tokens par tour ; 0 si le contexte ne grandit pas, ou si la conversation est trop courte.
    """
    if len(tokens) < 2 * last:
        return 0.0
    return max(0.0, (fmean(tokens[-last:]) - fmean(tokens[-2 * last : -last])) / last)


def code_lines(memory: Memory) -> int:
    """Compte les lignes de code d'une mémoire, sans commentaire ni docstring.

    Sont comptées sa classe, ses classes mères du cours (sauf la base commune) et les pièces qu'on lui a injectées
    (résumeur, extracteur, plongement), pas les règles du français qu'elles emploient.

    Raises:
        ValueError: le code d'une pièce est introuvable.
    """
    parts: dict[Any, None] = dict.fromkeys(type(memory).__mro__[:-1])
    for name, value in vars(memory).items():
        if name != "count_tokens":
            parts[value if inspect.isroutine(value) or inspect.isclass(value) else type(value)] = None
    return sum(_code_lines(part) for part in parts if _is_taught(part))


def markdown_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Met des lignes en tableau Markdown, avec la virgule décimale."""
    if not rows:
        return ""
    names = list(rows[0])
    lines = [names, ["---"] * len(names), *([_french(row.get(name, "")) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def contains_all(text: str, evidence: Iterable[str]) -> bool:
    """Dit si un texte contient chaque preuve, sans égard aux accents, aux majuscules ni aux espaces.

    Une preuve ne se trouve pas au milieu d'un mot ou d'un nombre : « 0,85 » n'est pas dans « 10,856 ».
    """
    folded = _fold(text)
    return all(_contains(folded, _fold(item)) for item in evidence)


def _contains(text: str, item: str) -> bool:
    return item in text and re.search(rf"(?<!\w)(?<!\d[,.]){re.escape(item)}(?!\w)(?![,.]\d)", text) is not None


@lru_cache(maxsize=1024)
def _fold(text: str) -> str:
    return " ".join(fold(text).split())


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", _fold(text))


def _runs(words: Sequence[str]) -> set[tuple[str, ...]]:
    """Donne les suites de ``TRACE_WORDS`` mots consécutifs."""
    return set(zip(*(words[start:] for start in range(TRACE_WORDS)), strict=False))


def read_pairs(conversation: Iterable[tuple[str, str]]) -> Iterator[Message]:
    """Lit des paires (rôle, contenu)."""
    if isinstance(conversation, (str, Mapping)) or not isinstance(conversation, Iterable):
        raise TypeError(f"La conversation doit être une suite de paires, reçu {type(conversation).__name__}.")
    for pair in conversation:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(f"Chaque message doit être une paire (rôle, contenu), reçu {pair!r}.")
        yield create_message(pair[0], pair[1])


def is_reply(message: Message) -> bool:
    """Dit si un message est une réponse de l'assistant, et non un appel d'outil."""
    return message.role == "assistant" and not message.tool_calls


def _add(memory: Memory, message: Message) -> None:
    """Donne un message à une mémoire ; celle d'un élève peut ignorer les outils s'il n'y en a pas."""
    if message.tool_calls:
        memory.add_message(message.role, message.content, tool_calls=message.to_dict()["tool_calls"])
    elif message.tool_call_id is not None:
        memory.add_message(message.role, message.content, tool_call_id=message.tool_call_id)
    else:
        memory.add_message(message.role, message.content)


def _key(message: Mapping[str, Any]) -> tuple[Any, ...]:
    """Donne ce qui distingue un message d'un autre."""
    calls = tuple(call["id"] for call in message.get("tool_calls") or ())
    return message["role"], message["content"], message.get("tool_call_id"), calls


def _is_taught(piece: Any) -> bool:
    """Dit si une pièce est propre à une stratégie : ni la base commune, ni la bibliothèque standard, ni une donnée."""
    module = str(getattr(piece, "__module__", ""))
    if module in ("memoire.messages", "memoire.memory"):
        return False
    return module == "__main__" or module.split(".")[0] == "memoire"


@lru_cache(maxsize=256)
def _code_lines(piece: Any) -> int:
    try:
        source = textwrap.dedent(inspect.getsource(piece))
    except (OSError, TypeError) as error:
        raise ValueError(f"Le code de {piece!r} est introuvable : définissez cette pièce dans un module.") from error
    # ast.unparse ne rend ni les commentaires ni les lignes vides ; restent à ôter les docstrings.
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return sum(1 for line in ast.unparse(tree).splitlines() if line.strip())


def _french(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".replace(".", ",")
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u202f")
    return str(value)
