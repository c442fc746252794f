"""Un modèle de langage simulé, qui ne sait que ce qu'on lui envoie (chapitre 1)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memoire.french import content_words, fold, is_courtesy, split_sentences
from memoire.messages import Message, count_tokens
from memoire.reply import Reply
from memoire.summary import SUMMARY_PROMPT, ExtractiveSummarizer

UNKNOWN = "Je ne sais pas\u00a0: cette information n'est pas dans le contexte que j'ai reçu."
"""La réponse du modèle simulé quand le contexte ne contient pas la réponse."""

MAX_QUESTIONS, MAX_QUESTION_LENGTH = 10, 500
"""Ce que le modèle simulé lit d'une demande démesurée : ses premières questions, et le début de chacune."""


def is_abstention(text: str) -> bool:
    """Dit si une réponse revient tout entière à « je ne sais pas »."""
    return _ABSTENTION.match(_plain(text)) is not None


class SimulatedLLM:
    """Modèle simulé : déterministe, hors ligne, il ne répond qu'à partir des messages qu'on lui envoie.

    À une question, il cherche la phrase du contexte qui en partage le plus de mots et la cite, en disant d'où elle
    vient ; à égalité, la plus récente l'emporte. Il lit les messages et les notes d'une mémoire (résumé,
    entités…), mais ni les questions passées, ni ses propres aveux d'ignorance. S'il ne trouve rien, il le dit.
    À une affirmation, il répond qu'il l'a notée. À ``SUMMARY_PROMPT``, il rend un résumé fait de phrases extraites.

    Il ne comprend pas ce qu'il lit : ce n'est pas un modèle de langage, mais un révélateur du contexte.

    Source : chapitre 1.
    """

    model = "simulé"

    def complete(self, messages: Sequence[Mapping[str, Any]]) -> Reply:
        """Répond au dernier message d'utilisateur.

        Args:
            messages: la conversation, au format *chat completions*.

        Returns:
            La réponse, avec les tokens lus et écrits (règle ``len // 4``).

        Raises:
            TypeError: ``messages`` n'est pas une liste de messages, ou un contenu n'est pas un texte.
            ValueError: liste vide, ou message illisible.
        """
        if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
            raise TypeError(f"messages doit être une liste de messages, reçu {type(messages).__name__}.")
        context = [Message.from_dict(message) for message in messages]
        if not context:
            raise ValueError("Le modèle a reçu une liste vide\u00a0: au moins un message est attendu.")
        text = self._answer(context)
        return Reply(text, self.model, sum(message.tokens for message in context), count_tokens(text))

    def _answer(self, context: list[Message]) -> str:
        request = next((m.content for m in reversed(context) if m.role == "user"), "")
        if context[0].role == "system" and context[0].content.strip() == SUMMARY_PROMPT.strip():
            return _summarise(request)
        sentences = list(_sentences(request))
        asked = [ask for sentence in sentences if _is_question(_plain(sentence)) for ask in _read_question(sentence)]
        if not asked:
            greeting = "Bonjour. " if _GREETING.match(_plain(request)) else ""
            told = any(content_words(s) for s in sentences if not is_courtesy(s))
            return greeting + ("C'est noté." if told else "Je vous écoute.")
        passages = list(_passages(context))
        found = list(dict.fromkeys(_find(ask, passages) for ask in asked[:MAX_QUESTIONS]))
        answers = [text for text in found if text is not None]
        if not answers:
            return UNKNOWN
        rest = [f"Pour le reste, {UNKNOWN[0].lower()}{UNKNOWN[1:]}"] if None in found else []
        return " ".join([*answers, *rest])


# Lire le contexte


@dataclass(frozen=True)
class _Passage:
    """Une phrase du contexte, et qui l'a dite : ``user``, ``assistant``, ``tool`` ou le nom d'une note."""

    text: str
    origin: str
    plain: str
    words: frozenset[str]

    @property
    def is_reply(self) -> bool:
        return self.origin == "assistant"

    def quote(self, words: Iterable[str] = ()) -> str:
        """Cite le passage en disant d'où il vient."""
        intro = _INTRODUCTIONS.get(self.origin, "D'après mes notes")
        text = _shorten(self.text, words)
        return f"{intro}\u00a0: «\u00a0{text}\u00a0»{'' if text.endswith(('.', '!', '…')) else '.'}"


_INTRODUCTIONS = {
    "user": "Vous m'avez dit",
    "assistant": "J'avais répondu",
    "tool": "D'après l'outil",
    "résumé": "D'après le résumé",
    "entités": "D'après les entités",
    "souvenirs": "D'après mes souvenirs",
    "system": "D'après mes consignes",
}
_LABEL = re.compile(r"\[(\w[\w ]*)\]\s*")
_PIECES = re.compile(r"\n+|\s\|\s|\s?;\s|\.\.\.|…")
_HEADING = re.compile(r"#+ (\w+)")
_OWN_QUOTE = re.compile(r"(?:Vous m'avez dit|J'avais répondu|D'après [\w' ]{1,30}?)\s?:\s?«\s?")


def _passages(context: Iterable[Message]) -> Iterator[_Passage]:
    """Donne les phrases du contexte où chercher, de la plus ancienne à la plus récente."""
    for message in context:
        for origin, text in _voices(message):
            for sentence in _sentences(text):
                pieces = [sentence] if origin in ("user", "assistant") else _PIECES.split(sentence)
                for piece in filter(None, (_unquote(piece).strip(" |;") for piece in pieces)):
                    plain = _plain(piece)
                    ignored = origin == "assistant" and _ABSTENTION.search(plain)
                    if not ignored and not _is_question(plain):
                        yield _Passage(piece, origin, plain, frozenset(content_words(piece)))


def _voices(message: Message) -> Iterator[tuple[str, str]]:
    """Dit qui parle dans un message : une note peut citer plusieurs voix, une par ligne ``[role] texte``."""
    if message.role != "system":
        yield message.role, message.text
        return
    origin = "system"
    for line in message.content.split("\n"):
        if (match := _HEADING.match(line)) and match[1].lower() in _INTRODUCTIONS:
            origin = match[1].lower()
            continue
        if match := _LABEL.match(line):
            origin, line = match[1].lower(), line[match.end() :]
            if inner := _LABEL.match(line):
                origin, line = inner[1].lower(), line[inner.end() :]
        yield {"model": "assistant"}.get(origin, origin), line


def _sentences(text: str) -> Iterator[str]:
    yield from (sentence.strip() for sentence in split_sentences(unicodedata.normalize("NFC", text)))


def _unquote(text: str) -> str:
    """Retire l'habillage d'une réponse déjà donnée, pour ne pas citer une citation."""
    match = _OWN_QUOTE.match(text)
    return text[match.end() :].rstrip(" \u00a0»") if match else text


def _plain(text: str) -> str:
    return " ".join(fold(text).split())


# Lire la question


@dataclass(frozen=True)
class _Ask:
    """Ce que demande une question.

    Attributes:
        kind: ``nom``, ``travail``, ``attribut`` (quel est le X), ``combien``, ``quand`` ou ``libre``.
        words: les mots qui doivent se retrouver dans la réponse.
        bonus: les mots qui peuvent s'y retrouver.
        number: vrai si l'attribut demandé est un nombre.
    """

    kind: str
    words: tuple[str, ...]
    bonus: tuple[str, ...] = ()
    number: bool = False


_ABSTENTION = re.compile(r"\bje (?:ne sais pas|n'ai pas cette information)\b")
_GREETING = re.compile(r"(?:bonjour|bonsoir|salut)\b")
_ASKS = re.compile(r"(?:quel(?:le)?s?|comment|ou (?:est|se|je|le|la|travaill)|combien|qui suis-je|est-ce qu)\b")
_REQUEST = re.compile(r"\b(?:rappel(?:le|ez)|redonne[sz]?|redi(?:s|tes)|di(?:s|tes)|donne[sz]?)-(?:moi|nous)\b")
_LISTED = r"(?:le|la|les|mon|ma|mes|notre|l')\b"
_PARTS = re.compile(
    rf",?\s+et(?:\s+aussi)?,?\s+(?=(?:avec |a |pour )?(?:quel|combien|comment|ou |quand|qui )|{_LISTED})"
    rf"|,\s+(?={_LISTED})"
)
_ATTRIBUTE = re.compile(r"\bquel(?:le)?s? (?:est|sont|etai(?:t|ent))\b(?: aujourd'hui| desormais| maintenant)?")
_CALLED = re.compile(r"\bcomment (?:s'appell\w+|se nomm\w+)")
_WHICH = re.compile(r"\bquel(?:le)?s? (\w+)")
_NAME = re.compile(r"comment (?:est-ce que )?je m'appelle|qui suis-je|\bmon (?:pre)?nom\b")
_WORK = re.compile(
    r"\b(?:ou|qui|entreprise|societe)\b.*\b(?:je travaille|travaille-je)\b|\bje travaille (?:ou|chez qui|pour qui)\b"
    r"|\b(?:mon entreprise|ma societe|mon employeur)\b"
)
_TYPES = {"numero", "nombre", "nom", "prenom", "date", "montant", "valeur", "prix", "chiffre"}
_NUMBERS = {"numero", "nombre", "montant", "prix", "chiffre"}


def _is_question(plain: str) -> bool:
    return plain.rstrip(" »\"')").endswith("?") or bool(_ASKS.match(plain) or _REQUEST.search(plain))


def _read_question(sentence: str) -> list[_Ask]:
    """Lit une question, qui peut en contenir plusieurs (« quel est X, et combien de Y ? »)."""
    asks: list[_Ask] = []
    for part in _PARTS.split(_plain(sentence[:MAX_QUESTION_LENGTH])):
        is_list = bool(asks) and asks[-1].kind == "attribut"
        asks.append(_read_part(part, is_list and re.match(_LISTED, part) is not None))
    return asks


def _read_part(part: str, is_attribute: bool) -> _Ask:
    if _NAME.search(part) and not _WORK.search(part):
        return _Ask("nom", ())
    if _WORK.search(part):
        return _Ask("travail", ())
    match = _ATTRIBUTE.search(part) or _REQUEST.search(part) or _CALLED.search(part)
    if match or is_attribute:
        words = _words(part[match.end() :] if match else part)
        types = [word for word in words if word in _TYPES]
        named = tuple(word for word in words if word not in _TYPES)
        return _Ask("attribut", named or tuple(words), number=bool(_NUMBERS.intersection(types)))
    words = _words(part)
    if "combien" in part:
        return _Ask("combien", tuple(words))
    if re.search(r"\bquand\b", part):
        return _Ask("quand", tuple(words))
    if (match := _WHICH.search(part)) and len(words) > 1:
        kind = _words(match[1])
        return _Ask("libre", tuple(word for word in words if word not in kind), tuple(kind))
    return _Ask("libre", tuple(words))


def _words(text: str) -> list[str]:
    return [word for word in dict.fromkeys(content_words(text)) if word != "lieu"]  # « quand a lieu… »


# Chercher la réponse

_PROPER = r"[^\W\d_a-zà-öø-ÿ][\w'’&-]*(?:[ \u00a0](?:de |du |des |d['’])?[^\W\d_a-zà-öø-ÿ][\w'’&-]*)*"
_NAME_SAID = re.compile(
    rf"(?i:\b(?:je m['’]appelle|vous vous appelez|mon (?:pré)?nom (?:complet )?est)|^(?:- )?(?:pré)?nom\s?[:=])\s?"
    rf"({_PROPER}|[^\W\d_][\w-]*)|\b(?i:moi,? c['’]est) ({_PROPER})"
)
_WORK_SAID = re.compile(
    rf"\b(?i:(?:je|vous) travaillez?(?: aujourd['’]hui| désormais| maintenant)?"
    rf"|(?:je suis|vous êtes)(?: [\w-]+){{0,4}}?)"
    rf" (?:(chez|pour|au|aux|dans) ((?:la |le |les |l['’])?{_PROPER}|[^,.;:!?|«»]+)|(à) ({_PROPER}))"
    rf"|(?i:\b(?:mon entreprise|ma société|mon employeur) (?:est|s['’]appelle)"
    rf"|^(?:- )?(?:entreprise|société|employeur)\s?[:=])\s?((?:la |le |les |l['’])?{_PROPER})"
)
_COUNT = r"(?:\d[\d ]*|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|douze|quinze|vingt|trente|cent|mille)"
_DATE = re.compile(r"\d|\b(?:(?:lun|mar|mercre|jeu|vendre|same)di|dimanche|hier|demain|soir|mois|fin (?:du|de))\b")
_UPDATE = re.compile(r"\bpass(?:e|ent|era|ee?) (?:a|au|de)\b|\b(?:desormais|finalement|reporte|n'est plus)\b")
THRESHOLD = 0.5  # part des mots de la question qu'un passage doit contenir pour y répondre


def _find(ask: _Ask, passages: Sequence[_Passage]) -> str | None:
    """Cherche d'abord dans ce qu'ont dit l'utilisateur, les outils et les notes, puis dans les réponses passées."""
    for replies in (False, True):
        chosen = [passage for passage in passages if passage.is_reply is replies]
        found = _find_said(ask, chosen) if ask.kind in ("nom", "travail") else _find_words(ask, chosen, passages)
        if found:
            return found
    return None


def _find_said(ask: _Ask, passages: Sequence[_Passage]) -> str | None:
    """Cherche, en remontant, où l'utilisateur a dit son nom ou son lieu de travail."""
    pattern = _NAME_SAID if ask.kind == "nom" else _WORK_SAID
    for passage in reversed(passages):
        if match := pattern.search(passage.text):
            *place, value = (group for group in match.groups() if group)
            value = re.split(r" (?:et|comme|depuis|mais) ", value)[0].strip()
            if ask.kind == "nom":
                return f"Vous vous appelez {value}."
            return f"Vous travaillez {place[0] if place else 'chez'} {value}."
    return None


def _find_words(ask: _Ask, passages: Sequence[_Passage], context: Sequence[_Passage]) -> str | None:
    """Cherche le passage qui partage le plus de mots avec la question ; à égalité, le plus récent."""
    if not ask.words:
        return None
    vocabulary = {word for passage in context for word in passage.words}
    forms = {word: {other for other in vocabulary if _same(word, other)} for word in (*ask.words, *ask.bonus)}
    # Un mot que le contexte ignore compte double : la question porte sans doute sur autre chose.
    total = sum(1 if forms[word] else 2 for word in ask.words)
    best: tuple[float, _Passage] | None = None
    for passage in passages:
        shared = sum(1 for word in ask.words if forms[word] & passage.words)
        if _names_what_is_asked(ask, passage, forms):
            shared = total
        if shared / total < THRESHOLD or not _fits(ask, passage, forms):
            continue
        extra = sum(1 for word in ask.bonus if forms[word] & passage.words) + bool(_UPDATE.search(passage.plain)) / 2
        extra += bool(forms[ask.words[0]] & passage.words) / 4  # le premier mot dit d'ordinaire le sujet
        score = (shared + extra) / total
        if best is None or score >= best[0]:
            best = (score, passage)
    return best[1].quote(set().union(*forms.values())) if best else None


def _names_what_is_asked(ask: _Ask, passage: _Passage, forms: Mapping[str, set[str]]) -> bool:
    """Dit si une note « nom : valeur » porte le nom demandé, à un mot près (« seuil d'alerte : 0,62 »)."""
    head = (ask.bonus or ask.words)[0] if ask.bonus or ask.kind == "attribut" else ""
    name, separator, _ = passage.plain.partition(" : ")
    if not head or not separator or passage.origin in ("user", "assistant", "tool") or len(name) > 40:
        return False
    words = set(content_words(name))
    missing = sum(1 for word in ask.words if not forms[word] & words)
    return missing <= 1 and bool(forms[head] & words) and words <= set().union(*forms.values())


def _fits(ask: _Ask, passage: _Passage, forms: Mapping[str, set[str]]) -> bool:
    """Dit si un passage peut répondre à ce genre de question : un nombre, une date, une valeur…"""
    if ask.kind == "combien":  # « 50 variables », « deux grands enfants », « le nombre de variables est de 50 »
        head = re.escape(ask.words[0][: max(4, len(ask.words[0]) - 2)])
        return re.search(rf"\b{_COUNT} (?:\w+ )?{head}|\b{head}\w* ?(?:est|:|=)\D*\d", passage.plain) is not None
    if ask.kind == "quand":
        return _DATE.search(passage.plain) is not None
    if ask.kind == "attribut":
        if ask.number and not any(char.isdigit() for char in passage.plain):
            return False
        known = set().union(*forms.values())
        return bool(forms[ask.words[0]] & passage.words and (_DATE.search(passage.plain) or passage.words - known))
    return True


def _same(word: str, other: str) -> bool:
    """Dit si deux mots ont le même début, à deux lettres de terminaison près (« retenu », « retenir »)."""
    size = max(4, max(len(word), len(other)) - 2)
    return word == other or (word[:size] == other[:size] and min(len(word), len(other)) >= size)


def _shorten(text: str, words: Iterable[str], length: int = 240) -> str:
    """Raccourcit une longue citation autour du premier mot cherché."""
    if len(text) <= length:
        return text
    plain = fold(text)
    start = min((place for word in words if (place := plain.find(word)) >= 0), default=0) - length // 4
    start = max(0, min(start, len(text) - length))
    return f"{'…' if start else ''}{text[start : start + length].strip()}{'…' if start + length < len(text) else ''}"


# Résumer

_SUMMARY_REQUEST = re.compile(r"Résumé actuel\s:\n(.*?)\n\nÉchanges à intégrer\s:\n(.*)", re.DOTALL)
_TURN = re.compile(r"^\[(user|assistant|model|tool|system)\] ", re.MULTILINE)


def _summarise(request: str) -> str:
    """Répond à ``SUMMARY_PROMPT`` : des phrases extraites du résumé actuel et des échanges à intégrer."""
    match = _SUMMARY_REQUEST.search(request)
    current, exchanges = match.groups() if match else ("", request)
    pieces = _TURN.split(exchanges)  # ce qui précède la première étiquette, puis rôle, texte, rôle, texte…
    turns = [
        (role, text.strip()) for role, text in zip(["user", *pieces[1::2]], pieces[::2], strict=True) if text.strip()
    ]
    return ExtractiveSummarizer()("" if current.strip() == "(aucun)" else current.strip(), turns)
