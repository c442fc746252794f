"""Le résumeur extractif : borné, fidèle aux valeurs récentes, il relit le résumé précédent."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoire.french import count_words
from memoire.simulation import load_conversation
from memoire.summary import ExtractiveSummarizer, RollingSummary, SummaryMemory

Turn = tuple[str, str]


def summarize(*old: Turn, summary: str = "", max_words: int = 120) -> str:
    return ExtractiveSummarizer(max_words)(summary, list(old))


turns = st.lists(
    st.tuples(
        st.sampled_from(["user", "assistant", "model", "tool"]),
        st.one_of(
            st.text(max_size=120),
            st.sampled_from(
                [
                    "Je m'appelle Alice.",
                    "Le budget est de 10k. Le budget passe à 50k !",
                    "mot " * 300,
                    "x" * 3000,
                    "🙂" * 500,
                    "記憶とは" * 300,
                    "Jean-Pierre-" * 200,
                    "Merci !",
                ]
            ),
        ),
    ),
    max_size=6,
)


@given(turns, st.text(max_size=100), st.integers(1, 60))
def test_summary_is_bounded_in_words_and_characters(old: list[Turn], summary: str, max_words: int) -> None:
    summarizer = ExtractiveSummarizer(max_words)
    for _ in range(3):
        summary = summarizer(summary, old)
        assert count_words(summary) <= max_words
        assert len(summary.split()) <= max_words
        assert len(summary) <= 21 * max_words


@given(turns)
def test_same_turns_give_the_same_summary(old: list[Turn]) -> None:
    assert summarize(*old) == summarize(*old)


def test_facts_stay_and_small_talk_leaves() -> None:
    text = summarize(
        ("user", "Bonjour ! Je m'appelle Alice. Merci d'avance."),
        ("assistant", "Bonjour Alice, avec plaisir !"),
        ("user", "Je préfère des réponses courtes. Nous avons décidé d'attendre mars."),
        ("assistant", "D'accord, c'est noté."),
    )
    assert text == "Je m'appelle Alice. Je préfère des réponses courtes. Nous avons décidé d'attendre mars."


def test_previous_summary_is_read_again() -> None:
    text = summarize(("user", "Notre échéance est le 12 mai."), summary="Je m'appelle Alice.")
    assert text == "Je m'appelle Alice. Notre échéance est le 12 mai."


def test_summary_alone_comes_back_unchanged() -> None:
    text = summarize(("user", "Je m'appelle Alice. Le budget est de 10k ! Vu ? « Non »"), ("user", "Je pars le 3 mai"))
    assert summarize(summary=text) == text


def test_newest_value_wins_even_against_the_summary() -> None:
    first = summarize(("user", "Je m'appelle Alice et mon budget est de 10k."))
    assert "10k" in first
    second = summarize(("user", "Mon budget passe à 50k."), summary=first)
    assert second == "Je m'appelle Alice. Mon budget passe à 50k."


def test_repetitions_are_said_once() -> None:
    text = summarize(
        ("user", "Le budget est de 10k."), ("user", "Oui, le budget est de 10k."), summary="Le budget est de 10k."
    )
    assert text.count("10k") == 1


def test_open_question_stays_until_answered() -> None:
    asked = summarize(("user", "Le modèle est prêt. Quel est le délai du client Renault ?"))
    assert "Renault ?" in asked
    answered = summarize(("assistant", "Le délai est de 3 jours."), summary=asked)
    assert "?" not in answered
    assert summarize(("user", "Le taux est de 3 %."), summary=asked).count("?") == 1
    assert "?" not in summarize(("user", "Quel est le délai de 2024 ?"), ("assistant", "Trois jours."))


def test_order_is_chronological_and_full_summary_keeps_the_richest() -> None:
    old = [("user", f"Le projet numéro {i} avance à Lyon.") for i in range(30)]
    text = summarize(("user", "Je m'appelle Alice Martin et je travaille chez Airbus."), *old, max_words=40)
    assert text.startswith("Je m'appelle Alice Martin")
    numbers = [int(word) for word in text.split() if word.isdigit()]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 29


def test_huge_sentence_is_cut_and_says_so() -> None:
    text = summarize(("user", "Je travaille à Lyon " + "sans jamais finir " * 500), max_words=12)
    assert text.endswith("…")
    assert count_words(text) <= 12
    assert text.startswith("Je travaille à Lyon")


def test_nothing_to_keep_gives_an_empty_summary() -> None:
    assert summarize(("user", "Bonjour !"), ("assistant", "Merci !")) == ""
    assert summarize() == ""


def test_both_names_of_the_model_are_accepted() -> None:
    old = ("Je lance la version 3 chez Thales.", "Merci.")
    assert summarize(("model", old[0]), ("user", old[1])) == summarize(("assistant", old[0]), ("user", old[1]))


def test_facts_of_the_course_conversation_survive_sixty_messages() -> None:
    memories = SummaryMemory(6, ExtractiveSummarizer(120)), RollingSummary(ExtractiveSummarizer(120), 12, 6)
    conversation = load_conversation()
    for memory in memories:
        for message in conversation.messages:
            calls = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.tool_calls]
            memory.add_message(
                message.role, message.content, tool_calls=calls or None, tool_call_id=message.tool_call_id
            )
        assert count_words(memory.summary) <= 120
        for kept in (
            "Inès Vasseur",
            "Nacre Paiements",
            "XGBoost",
            "0,1\u00a0%",
            "0,85",
            "0,30",
            "12 mai",
            "650\u00a0€",
        ):
            assert kept in memory.summary, kept
        for outdated in ("400\u00a0€", "fin du mois"):
            assert outdated not in memory.summary, outdated


@pytest.mark.parametrize(("value", "error"), [(0, ValueError), (-3, ValueError), ("12", TypeError), (True, TypeError)])
def test_bad_length_is_refused(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="max_words"):
        ExtractiveSummarizer(value)
