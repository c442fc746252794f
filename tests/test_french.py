"""Les règles de français : couper, replier, trouver les mots pleins, reconnaître politesses et indices."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoire.french import (
    clue_score,
    condense,
    content_words,
    count_words,
    fold,
    is_courtesy,
    is_question,
    punctuate,
    shorten,
    split_sentences,
    value_key,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Bonjour. Je pars.", ["Bonjour.", "Je pars."]),
        ("bonjour. je m'appelle alice. merci", ["bonjour.", "je m'appelle alice.", "merci"]),
        ("M. Dupont et Mme. Roux arrivent. Bien.", ["M. Dupont et Mme. Roux arrivent.", "Bien."]),
        ("Le Dr. Nguyen, cf. p. 3, confirme.", ["Le Dr. Nguyen, cf. p. 3, confirme."]),
        ("Du pain, du lait, etc. et du sel.", ["Du pain, du lait, etc. et du sel."]),
        ("Du pain, du lait, etc. Ensuite, rien.", ["Du pain, du lait, etc.", "Ensuite, rien."]),
        ("Le taux est de 0,1 % et 0.85 reste. Oui.", ["Le taux est de 0,1 % et 0.85 reste.", "Oui."]),
        ("Je pense... que oui. Non… Peut-être.", ["Je pense... que oui.", "Non…", "Peut-être."]),
        ("Vraiment\u00a0? Oui\u00a0! Bien.", ["Vraiment\u00a0?", "Oui\u00a0!", "Bien."]),
        ("Vraiment ?! Non !!! Si.", ["Vraiment ?!", "Non !!!", "Si."]),
        (
            "Il a dit\u00a0: «\u00a0Bonjour. Je pars.\u00a0» puis il est parti.",
            ["Il a dit\u00a0: «\u00a0Bonjour. Je pars.\u00a0» puis il est parti."],
        ),
        ('Elle a crié "stop !" puis elle a ri.', ['Elle a crié "stop !" puis elle a ri.']),
        ("Il a dit «\u00a0oui\u00a0». Elle aussi.", ["Il a dit «\u00a0oui\u00a0».", "Elle aussi."]),
        ("Voir http://ex.fr/a?b=1.2&c!d ou www.ex.fr. Fin.", ["Voir http://ex.fr/a?b=1.2&c!d ou www.ex.fr.", "Fin."]),
        ("J. Dupont et J.-P. Martin sont là.", ["J. Dupont et J.-P. Martin sont là."]),
        ("On retient le plan B. Ensuite, on avance.", ["On retient le plan B.", "Ensuite, on avance."]),
        ("une ligne\nune autre\r\n\n  fin ", ["une ligne", "une autre", "fin"]),
        ("- du pain\n* du lait\n• du sel", ["du pain", "du lait", "du sel"]),
        ("1. Ouvrir.\n2. Fermer.", ["1. Ouvrir.", "2. Fermer."]),
        ("Nous sommes en 2024. Bien.", ["Nous sommes en 2024.", "Bien."]),
        ("今日は。元気？", ["今日は。", "元気？"]),
        ("", []),
        (" \n\t ", []),
        ("«\u00a0jamais fermé. Une autre phrase.", ["«\u00a0jamais fermé.", "Une autre phrase."]),
    ],
)
def test_sentences_are_cut_like_a_french_reader_would(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected


@given(st.text(alphabet=st.sampled_from("aÀ .!?…«»\"'\n-1,M\u00a0🙂。"), max_size=80))
def test_cutting_loses_nothing_but_spaces_and_bullets(text: str) -> None:
    def letters(value: str) -> str:
        return "".join(value.replace("-", "").split())

    assert letters("".join(split_sentences(text))) == letters(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Écho ÇA", "echo ca"),
        ("Cœur naïf", "coeur naif"),
        ("L’été", "l'ete"),
        ("e\u0301", "e"),
        ("ABC", "abc"),
        ("記憶", "記憶"),
    ],
)
def test_fold_removes_case_and_accents(text: str, expected: str) -> None:
    assert fold(text) == expected


def test_value_key_ignores_case_accents_and_kinds_of_space() -> None:
    assert value_key("40\u202f000  €") == value_key("40 000 €")
    assert value_key("Émilie") == value_key("emilie")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("travaille", "travailler"),
        ("travaillez", "travaillons"),
        ("projet", "projets"),
        ("déployé", "déployées"),
        ("journal", "journaux"),
        ("bureau", "bureaux"),
        ("utilisons", "utilise"),
    ],
)
def test_forms_of_a_word_meet(first: str, second: str) -> None:
    assert content_words(first) == content_words(second) != []


def test_content_words_skip_grammar_and_keep_numbers() -> None:
    text = "Est-ce que l'entreprise d’Airbus n'a pas 0,85 et 10k aujourd'hui ?"
    assert content_words(text) == ["entreprise", "airbu", "0,85", "10k"]
    assert content_words("le la les de du et je nous que qui") == []
    assert content_words("le client et l'argent") == ["client", "argent"]


@pytest.mark.parametrize(
    "sentence",
    [
        "Bonjour !",
        "Bonjour Alice !",
        "Merci Monsieur Petit.",
        "Merci beaucoup pour votre aide",
        "D'accord, parfait.",
        "Bonne journée !",
        "Entendu.",
        "C'est noté.",
        "À bientôt",
        "Comment allez-vous ?",
        "Je vous en prie.",
        "Super, merci !",
    ],
)
def test_courtesies_are_recognised(sentence: str) -> None:
    assert is_courtesy(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Merci, mon budget est de 50k.",
        "Bonjour, je m'appelle Alice.",
        "Bonjour, moi c'est Karim",
        "Non merci.",
        "Oui.",
        "Non.",
        "Comment va le projet ?",
        "D'accord pour la marche à blanc.",
        "Parfait, on garde cette version.",
        "",
        "🙂",
        "42",
    ],
)
def test_what_informs_is_not_a_courtesy(sentence: str) -> None:
    assert not is_courtesy(sentence)


def test_facts_score_more_than_small_talk() -> None:
    assert clue_score("Merci beaucoup.") == 0
    assert clue_score("Il fait beau et tout va bien par ici.") == 0
    for fact in ("Le budget est de 10k", "Je préfère le thé", "Nous avons décidé d'attendre", "Je m'appelle Alice"):
        assert clue_score(fact) > 0, fact
    assert clue_score("Cette nuit, la machine a tourné") == 0, "un début de phrase n'est pas un nom propre"


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (
            "La difficulté est ailleurs\u00a0: le taux est de 0,1\u00a0%, si bien que tout échoue.",
            "Le taux est de 0,1\u00a0%",
        ),
        ("Nous utilisons XGBoost avec 50 variables : montants, pays.", "Nous utilisons XGBoost avec 50 variables"),
        ("Si le client accepte, le budget sera de 50k.", "Si le client accepte, le budget sera de 50k."),
        ("Créez la tâche 12 : «\u00a0relire : vite\u00a0»", "Créez la tâche 12 : «\u00a0relire : vite\u00a0»"),
        ("Rien à alléger.", "Rien à alléger."),
    ],
)
def test_condensing_keeps_the_fact_and_its_condition(sentence: str, expected: str | None) -> None:
    assert condense(sentence) == expected


def test_questions_are_recognised_behind_quotes() -> None:
    assert is_question("Quel est le taux\u00a0?")
    assert is_question("«\u00a0Vraiment\u00a0?\u00a0»")
    assert is_question("Vraiment ?!")
    assert not is_question("Voir a?b.")
    assert not is_question("")


def test_punctuate_ends_a_sentence_once() -> None:
    assert [punctuate(s) for s in ("oui", "oui.", "oui ?", "oui…", "«\u00a0oui\u00a0»")] == [
        "oui.",
        "oui.",
        "oui ?",
        "oui…",
        "«\u00a0oui\u00a0»",
    ]


@given(st.one_of(st.text(max_size=300), st.sampled_from(["a" * 5000, "記憶" * 900, "mot " * 900])), st.integers(1, 40))
def test_shortened_text_never_exceeds_its_words(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert count_words(short) <= limit
    assert len(short) <= max(len(text), 21 * limit) if count_words(text) > limit else short == text


HOSTILE = {
    "a": "a" * 10**6,
    "espaces": " " * 10**6,
    "points": "." * 10**6,
    "points suivis": "." * 10**6 + "a",
    "phrases vides": ". " * 200_000,
    "guillemets ouverts": "« " * 400_000,
    "guillemets fermés": "»" * 10**6,
    "abréviations": "M. " * 200_000,
    "sauts de ligne": "\n" * 10**6,
    "nombres": "1," * 500_000,
    "accents empilés": "e\u0327\u0301" * 300_000,
    "élisions": "l'" * 400_000,
    "emoji": "🙂" * 10**6,
    "caractères isolés": "\ud800" * 10**6,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(
    "function",
    [split_sentences, fold, content_words, is_courtesy, clue_score, condense, is_question, lambda t: shorten(t, 5)],
)
def test_a_hostile_megabyte_is_read_in_linear_time(name: str, function: Callable[[str], Any]) -> None:
    text = HOSTILE[name]
    sizes = (len(text) // 16, len(text) // 2)
    durations = []
    for size in sizes:
        start = time.process_time()
        function(text[:size])
        durations.append(time.process_time() - start)
    # Huit fois plus de texte : huit fois plus de temps, pas soixante-quatre. Le plancher écarte le bruit.
    assert durations[1] < 32 * max(durations[0], 0.02)
