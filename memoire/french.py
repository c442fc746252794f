"""Règles de français partagées : phrases, mots pleins, politesses, indices (chapitres 4 et 5).

Tout est fait de règles simples, en temps linéaire : aucune expression ne revient deux fois sur le même texte.
"""

from __future__ import annotations

import re
import unicodedata


def word_set(text: str) -> frozenset[str]:
    """Fait d'une liste de mots séparés par des espaces un ensemble."""
    return frozenset(text.split())


# Ramener à une même forme

_RANGES = (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
_FOLDING: dict[int, str | None] = {
    code: base for code in _RANGES if (base := unicodedata.normalize("NFD", chr(code))[0]) != chr(code)
}
_FOLDING |= dict.fromkeys(range(0x300, 0x370))  # les accents séparés de leur lettre
_FOLDING |= {ord("œ"): "oe", ord("æ"): "ae", ord("ß"): "ss", ord("’"): "'", ord("ʼ"): "'"}


def fold(text: str) -> str:
    """Ramène un texte à une forme sans majuscules ni accents, pour comparer.

    Args:
        text: le texte.

    Returns:
        Le texte en minuscules, sans accents, « œ » écrit « oe » et l'apostrophe courbe redressée.
    """
    lower = text.lower()
    return lower if lower.isascii() else lower.translate(_FOLDING)


def value_key(value: str) -> str:
    """Donne ce qui identifie une valeur, quels que soient sa casse, ses accents et ses espaces."""
    return " ".join(fold(value).split())


# Couper en phrases

_MARKS = re.compile(r"[.!?…。！？]+|[«»]")
_CLOSING = re.compile(r"(?:[ \u00a0\u202f]?»|[”\"’')\]])*")
_NEXT_WORD = re.compile(r"\s*[«“\"'’(\[–—-]*\s*([\w]*)")
_LAST_WORD = re.compile(r"[\w.-]+$")
_BULLET = re.compile(r"\s*[-*•–—‣◦]\s+")
_NEVER_LAST = word_set(
    "M MM Mr Mme Mmes Mlle Dr Pr Me Mgr St Ste cf Cf p pp art Art fig Fig chap vol n no ex av bd c.-à-d"
)
_SOMETIMES_LAST = word_set(
    "etc env max min tél tel réf ref janv févr fév avr juil sept oct nov déc approx resp éd coll hab sec J.-C"
)


def split_sentences(text: str) -> list[str]:
    """Coupe un texte français en phrases.

    Une phrase finit par « . », « ! », « ? » ou « … », guillemet fermant compris, ou par un saut de ligne. Ne coupent
    pas : les abréviations (M., Mme, etc.), les initiales, les nombres, les adresses, les points de suspension suivis
    d'une minuscule, et ce qui est entre guillemets français. Les puces de liste sont retirées.

    Args:
        text: le texte.

    Returns:
        Les phrases, dans l'ordre, sans espaces autour ni phrase vide.
    """
    sentences = []
    for line in text.splitlines():
        bullet = _BULLET.match(line)
        start = bullet.end() if bullet else 0
        last_quote, quoted = line.rfind("»"), False
        for mark in _MARKS.finditer(line, start):
            if mark[0] in "«»":
                quoted = mark[0] == "«" and mark.start() < last_quote
                continue
            closing = _CLOSING.match(line, mark.end())
            end = closing.end() if closing else mark.end()
            quoted = quoted and "»" not in line[mark.end() : end]
            if not quoted and _ends_sentence(line, start, mark, end):
                sentences.append(line[start:end].strip())
                start = end
        sentences.append(line[start:].strip())
    return [sentence for sentence in sentences if sentence]


def _ends_sentence(line: str, start: int, mark: re.Match[str], end: int) -> bool:
    """Dit si la ponctuation ``mark`` (guillemets fermants jusqu'à ``end``) termine la phrase commencée à ``start``."""
    if end == len(line) or not line[end].isspace():
        return end == len(line) or mark[0][-1] in "。！？"
    following = _NEXT_WORD.match(line, end)
    next_word = following[1] if following else ""
    goes_on = next_word[:1].islower()
    if mark[0] != ".":
        is_ellipsis = "!" not in mark[0] and "?" not in mark[0]
        return not (goes_on and (is_ellipsis or end > mark.end()))
    before = line[max(start, mark.start() - 12) : mark.start()]
    match = _LAST_WORD.search(before)
    word = match[0] if match else ""
    if word in _NEVER_LAST or (mark.start() - start < 6 and before.strip().isdigit()):
        return False
    if word in _SOMETIMES_LAST:
        return next_word[:1].isupper()
    if len(word.rpartition("-")[2]) == 1 and word[-1].isupper():  # une initiale, sauf devant « Il », « Ensuite »…
        return not next_word[:1].isupper() or fold(next_word) in STOP_WORDS
    return not (goes_on and end > mark.end())


# Reconnaître les mots pleins

STOP_WORDS = word_set(
    """
    a ai aie ainsi ait alors apres as assez au aucun aucune aujourd auquel aura aurait aussi autre autres aux
    avaient avait avant avec avez aviez avions avoir avons ayant beaucoup bien c ca car ce ceci cela celle celles
    celui cependant certain certaine certaines certains ces cet cette ceux chacun chaque chez ci combien comme
    comment d dans de deja depuis des desormais donc dont du elle elles en encore enfin ensuite entre es est et
    etaient etait etais etant ete etes etre eu eux faire fais fait faut finalement font fut hui il ils j je jusqu
    jusque l la laquelle le lequel les lesquels leur leurs lors lorsque lui m ma maintenant mais me meme memes mes
    mien mienne moi moins mon n ne ni non nos notre nous on ont or ou par parce pas pendant peu peut peux plus
    plutot pour pourquoi pourtant puis puisque qu quand que quel quelle quelles quels quelque quelques qui quoi s
    sa sans sauf se selon sera seraient serait seront ses seul seulement si sien soit sommes son sont souvent sous
    suis sur t ta tandis te tel telle tels tes toi ton toujours tous tout toute toutes tres trop tu un une vers
    voici voila vos votre vous y
    """
)
"""Mots grammaticaux du français, sans accents : ils ne disent rien du sujet d'une phrase."""

_WORD = re.compile(r"\d+(?:[.,]\d+)*[^\W\d_]*|[^\W_]+")
_INVARIABLE = word_set("avis bras bus cas corps cours fois mois pays prix process repas temps")


def content_words(text: str) -> list[str]:
    """Donne les mots pleins d'un texte, ramenés à une forme commune.

    Args:
        text: le texte.

    Returns:
        Les mots, dans l'ordre, sans mots grammaticaux, sans accents et sans leurs terminaisons les plus
        courantes : « projets » et « projet », « travaillez » et « travailler » s'y rejoignent.
    """
    words = (word for word in _WORD.findall(fold(text)) if word not in STOP_WORDS)
    return [_stem(word) for word in words if len(word) > 1 or word.isdigit()]


def _stem(word: str) -> str:
    """Ramène pluriels et formes verbales courantes à une même forme, encore lisible."""
    if len(word) < 4 or word in _INVARIABLE or word[0].isdigit():
        return word
    if word.endswith("aux"):
        return word[:-1] if word.endswith("eaux") else word[:-3] + "al"
    if len(word) > 6 and word.endswith("ons") and not word.endswith(("ions", "aisons")):
        return word[:-3] + "e"
    if word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if len(word) > 4 and word.endswith(("er", "ez")):
        return word[:-1]
    return word[:-1] if word.endswith("ee") else word


# Reconnaître les politesses

_POLITE = word_set(
    """
    bonjour bonsoir salut coucou hello merci remercie remercions accord ok okay parfait parfaitement super genial
    excellent top entendu compris note volontiers plaisir prie bienvenue journee soiree nuit weekend week bientot
    revoir cordialement salutations enchante enchantee ravi ravie plait svp stp idee juste allez vas va impeccable
    nickel formidable bravo felicitations desole desolee pardon excusez
    """
)
_POLITE_FILLERS = word_set(
    """
    a aide aider au aussi avance avec avez beaucoup belle bien bon bonne bonnes c ca cela ces comment continuation
    cordiales d de demain des en encore end espere est et etes excellente fin grand heure infiniment j je l la le
    les lundi m me mille moi oui par plus pour probleme que quoi pas reponse reponses rien s sincere soit souci
    sur suis t te temps toutes tard tous tout toute tres tu un une vendredi vos votre vous y il
    """
)
_ADDRESS = word_set("bonjour bonsoir salut coucou hello merci monsieur madame mademoiselle cher chere m mme dr")
_LETTERS = re.compile(r"[^\W_]+")


def is_courtesy(sentence: str) -> bool:
    """Dit si une phrase n'est que politesse ou accusé de réception.

    Args:
        sentence: une phrase.

    Returns:
        Vrai pour « Bonjour Alice ! », « Merci beaucoup », « D'accord, parfait » ; faux dès qu'elle apprend quelque
        chose (« Merci, mon budget est de 50k »), pour un simple « oui » ou « non », et pour une phrase sans mot.
    """
    polite, can_name = False, False
    for number, match in enumerate(_LETTERS.finditer(sentence)):
        word = fold(match[0])
        if number == 16:
            return False
        if word in _ADDRESS or (can_name and match[0][0].isupper() and word not in STOP_WORDS):
            can_name = polite = True
        elif word in _POLITE:
            can_name, polite = False, True
        elif word in _POLITE_FILLERS:
            can_name = False
        else:
            return False
    return polite


# Reconnaître ce qui mérite d'être retenu

_IDENTITY = re.compile(
    r"\b(?:m'appelle|mon (?:pre)?nom|moi,? c'est|je suis|nous sommes|(?:travaill|habit)\w+"
    r"|(?:mon|ma|notre) \w+ (?:est|sont))\b"
)
_PREFERENCE = re.compile(
    r"\b(?:prefer\w+|aime\w*|deteste\w*|souhait\w+|voudr\w+|veux|voulons|besoin|eviter?|important\w*"
    r"|contrainte\w*|limite\w*"
    r"|surtout)\b"
)
_DECISION = re.compile(
    r"\b(?:decid\w+|choisi\w*|reten\w+|retien\w+|valid\w+|finalement|desormais|report\w+|repouss\w+|annul\w+"
    r"|pass(?:e|ons|era) (?:a|au|en)"
    r"|(?:est|sera|sont) (?:fixe|prevu|limite|deploye|confie)\w*|objectif)\b"
)
_REQUEST = re.compile(r"\b(?:tache|rappelez?-moi|n'oubliez pas|il faut|a faire|demande)\b")
_NUMBER = re.compile(r"\d")
_NAME = re.compile(r"(?<=[\w,;:»)'’] )[^\W\d_a-zà-öø-ÿ][\w'’-]+|['’][^\W\d_a-zà-öø-ÿ][\w-]+|\b[A-ZÀ-Ý]{2,}\b")
_CLUES = ((_IDENTITY, 2), (_PREFERENCE, 2), (_DECISION, 2), (_REQUEST, 1))


def clue_score(sentence: str) -> int:
    """Compte les indices qu'une phrase porte un fait à retenir.

    Args:
        sentence: une phrase.

    Returns:
        0 pour une phrase sans indice ou de pure politesse ; des points pour un nombre, un nom propre, une identité,
        une préférence, une décision, une demande.
    """
    if is_courtesy(sentence):
        return 0
    plain = fold(sentence)
    score = sum(points for clue, points in _CLUES if clue.search(plain))
    return score + 2 * bool(_NUMBER.search(plain)) + 2 * bool(_NAME.search(sentence.replace("\u00a0", " ")))


_EXPLANATION = re.compile(
    r",? (?:parce qu|car |si bien qu|puisqu|ce qui |afin d|afin qu|de sorte qu|de peur d|pour qu"
    r"|alors qu|tandis qu).*$",
    re.DOTALL,
)


def condense(sentence: str) -> str:
    """Allège une phrase de ce qui annonce ou explique un fait, sans toucher au fait.

    Args:
        sentence: une phrase.

    Returns:
        La phrase sans sa subordonnée d'explication (« parce que… », « si bien que… ») et, de part et d'autre d'un
        deux-points, la seule moitié qui porte des indices, s'il n'y en a qu'une. Une condition (« si… ») reste.
    """
    kept = sentence
    head, colon, tail = re.sub("[\u00a0\u202f]:", " :", sentence).partition(" : ")
    if colon and "«" not in sentence and bool(clue_score(head)) != bool(clue_score(tail)):
        kept = tail if clue_score(tail) else head
        kept = kept[:1].upper() + kept[1:]
    short = _EXPLANATION.sub("", kept)
    return short if clue_score(short) else kept


_QUESTION = re.compile(r"\?[\s»\"”')!.…]*$")


def is_question(sentence: str) -> bool:
    """Dit si une phrase finit par un point d'interrogation."""
    return _QUESTION.search(sentence[-20:]) is not None


def punctuate(sentence: str) -> str:
    """Termine par un point une phrase qui n'a pas de ponctuation finale."""
    return sentence if sentence.endswith((".", "!", "?", "…", "»")) else f"{sentence}."


def shorten(text: str, max_words: int) -> str:
    """Coupe un texte trop long, et le signale par « … ».

    Args:
        text: le texte.
        max_words: nombre de mots gardés au plus ; un mot compte pour un par tranche de 20 caractères.

    Returns:
        Le texte tel quel s'il tient, sinon son début suivi de « … ».
    """
    if count_words(text) <= max_words:
        return text
    kept: list[str] = []
    left = max_words
    for word in text.split():
        kept.append(word[: 20 * left - 1])  # il faut une place pour « … »
        left -= count_words(word)
        if left <= 0:
            break
    return " ".join(kept) + "…"


def count_words(text: str) -> int:
    """Compte les mots d'un texte, un par tranche de 20 caractères : un mot sans fin ne passe pas pour un seul."""
    return sum(1 + (len(word) - 1) // 20 for word in text.split())
