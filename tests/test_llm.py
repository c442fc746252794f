import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from memoire.llm import UNKNOWN, SimulatedLLM, is_abstention
from memoire.messages import count_tokens
from memoire.summary import ExtractiveSummarizer, RollingSummary, llm_summarizer


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def note(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def ask(question: str, *context: dict[str, Any]) -> str:
    return SimulatedLLM().complete([*context, user(question)]).text


INTRODUCTION = user(
    "Bonjour, je m'appelle Alice Morel et je travaille chez Tramontane Énergie. "
    "Nous utilisons XGBoost avec 50 variables. Le taux de fraude est de 0,1 %. Mon budget est de 10k."
)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Comment je m'appelle ?", "Alice Morel"),
        ("comment je m’appelle", "Alice Morel"),
        ("Quel est mon nom ?", "Alice Morel"),
        ("Où est-ce que je travaille ?", "Tramontane Énergie"),
        ("Quel est mon budget ?", "10k"),
        ("Quel modèle utilisons-nous ?", "XGBoost"),
        ("Combien de variables avons-nous ?", "50"),
        ("Quel est le taux de fraude ?", "0,1 %"),
        ("Rappelez-moi le taux de fraude.", "0,1 %"),
    ],
)
def test_a_question_is_answered_from_the_context_and_only_from_it(question: str, expected: str) -> None:
    assert expected in ask(question, INTRODUCTION)
    assert ask(question, user("Bonjour, il fait beau.")) == UNKNOWN
    assert ask(question) == UNKNOWN


@pytest.mark.parametrize(
    "question",
    ["Quel est mon numéro de téléphone ?", "Comment s'appelle notre directeur ?", "Quel est le budget publicitaire ?"],
)
def test_what_was_never_said_is_not_invented_from_something_close(question: str) -> None:
    assert is_abstention(ask(question, INTRODUCTION, user("Le numéro de la tâche est 1042.")))


def test_two_questions_in_one_message_are_both_answered() -> None:
    text = ask("Comment je m'appelle, et où est-ce que je travaille ?", INTRODUCTION)
    assert "Alice Morel" in text
    assert "Tramontane Énergie" in text
    partial = ask("Quel est mon budget ? Quelle est l'échéance ?", INTRODUCTION)
    assert "10k" in partial
    assert "je ne sais pas" in partial
    assert not is_abstention(partial)


def test_a_list_of_attributes_is_read_one_by_one() -> None:
    text = ask("Quels sont le budget, le taux de fraude, l'échéance et le nombre de variables ?", INTRODUCTION)
    assert "10k" in text
    assert "0,1 %" in text
    assert "50 variables" in text
    assert text.count("je ne sais pas") == 1


def test_the_newest_value_wins() -> None:
    context = [user("Mon budget est de 10k."), user("Mon budget est passé de 10k à 50k.")]
    assert "50k" in ask("Quel est mon budget ?", *context)
    moved = [user("Je travaille chez Airbus."), user("Depuis lundi, je travaille chez Safran.")]
    assert ask("Où est-ce que je travaille ?", *moved) == "Vous travaillez chez Safran."


@pytest.mark.parametrize(
    "text",
    [
        "[résumé] Résumé : Je m'appelle Zoé... ; Mon budget est de 10k... | Autre chose...",
        "[entités] nom : Zoé ; budget : 10k",
        "[souvenirs] [user] Je m'appelle Zoé.\n[user] Mon budget est de 10k.",
        "Vous êtes concis.\n\n## Résumé de la conversation précédente\nJe m'appelle Zoé. Mon budget est de 10k.",
    ],
)
def test_the_notes_of_a_memory_are_read(text: str) -> None:
    assert ask("Comment je m'appelle ?", note(text)) == "Vous vous appelez Zoé."
    assert "10k" in ask("Quel est mon budget ?", note(text))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Quel seuil d'alerte avons-nous retenu ?", "0,62"),
        ("Quel modèle utilisons-nous ?", "XGBoost"),
        ("Quelle est l'échéance ?", "12 mai"),
        ("Quel est le taux de fraude de notre base ?", "0,1 %"),
    ],
)
def test_an_attribute_of_the_register_is_read_by_its_name(question: str, expected: str) -> None:
    register = note(
        "[entités] personnes : Inès ; nom : Inès Vasseur ; employeur : Nacre Paiements ; modèle : XGBoost ; "
        "taux de fraude : 0,1 % ; échéance de livraison : 12 mai ; seuil d'alerte : 0,62"
    )
    assert expected in ask(question, register)
    assert ask("Comment je m'appelle ?", register) == "Vous vous appelez Inès Vasseur."
    assert ask("Où est-ce que je travaille ?", register) == "Vous travaillez chez Nacre Paiements."
    assert is_abstention(ask("Où le modèle est-il déployé ?", register))
    assert is_abstention(ask("Quel modèle de voiture conduit mon frère ?", register))


def test_the_topic_of_a_question_weighs_more_than_its_verb() -> None:
    context = [user("Nous avons essayé SMOTE, avec des résultats mitigés."), user("Chaque étape donne un résultat.")]
    assert "mitigés" in ask("Quels résultats SMOTE nous avait-il donnés ?", *context)


def test_a_tool_result_is_read() -> None:
    call = {"id": "a1", "type": "function", "function": {"name": "create_task", "arguments": "{}"}}
    context = [
        user("Créez une tâche."),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a1", "content": '{"tache": "T-7", "etat": "ouverte"}'},
    ]
    assert "T-7" in ask("Quel est le numéro de la tâche ?", *context)


def test_what_the_user_said_goes_before_what_the_assistant_said() -> None:
    context = [user("Mon budget est de 10k."), assistant("Un budget de 90k serait confortable.")]
    assert "10k" in ask("Quel est mon budget ?", *context)
    assert "90k" in ask("Quel est mon budget ?", *context[1:])


def test_neither_past_questions_nor_past_ignorance_are_answers() -> None:
    context = [
        user("Quel est mon budget ?"),
        assistant("Je ne sais pas quel est votre budget de 2024."),
        user("Merci."),
    ]
    assert ask("Quel est mon budget ?", *context) == UNKNOWN
    assert ask("Quel est mon budget ?", user("Quel est mon budget ?"), assistant(UNKNOWN)) == UNKNOWN


def test_an_answer_already_given_is_not_quoted_twice() -> None:
    first = ask("Quel est mon budget ?", user("Mon budget est de 10k."))
    second = ask("Quel est mon budget ?", assistant(first))
    assert "10k" in second
    assert second.count("«") == 1


def test_a_statement_is_acknowledged_without_being_repeated() -> None:
    text = ask("Bonjour, je m'appelle Alice.")
    assert text == "Bonjour. C'est noté."
    assert "Alice" not in text
    assert ask("Bonjour !") == "Bonjour. Je vous écoute."


def test_the_model_is_stateless_and_deterministic() -> None:
    model = SimulatedLLM()
    model.complete([INTRODUCTION])
    assert model.complete([user("Comment je m'appelle ?")]).text == UNKNOWN
    replies = {model.complete([INTRODUCTION, user("Quel est mon budget ?")]) for _ in range(5)}
    assert len(replies) == 1


def test_the_answer_does_not_depend_on_the_hash_seed() -> None:
    program = (
        "from memoire.llm import SimulatedLLM\n"
        "text = 'Le seuil de la file est 4. ' * 3 + 'La file compte 9 alertes. ' + 'x ' * 300 + 'seuil.'\n"
        "print(SimulatedLLM().complete([{'role': 'user', 'content': text}, {'role': 'user', 'content': "
        "'Quel est le seuil de la file ?'}]).text)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path), "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1


def test_tokens_read_and_written_are_counted() -> None:
    messages = [INTRODUCTION, user("Quel est mon budget ?")]
    reply = SimulatedLLM().complete(messages)
    assert reply.input_tokens == sum(len(message["content"]) // 4 for message in messages)
    assert reply.output_tokens == len(reply.text) // 4 == count_tokens(reply.text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n\n",
        "?",
        "🙂🙂 ?",
        "你好，我叫李雷。",
        "e\u0301\u0301\u0301 ?",
        "\ud800 ?",
        "\x00",
        "«»",
        "[",
        "Quel",
        "et et et ?",
        "|;|",
    ],
)
def test_odd_texts_are_read_without_failing(text: str) -> None:
    for message in (user(text), assistant(text), note(text), note(f"[résumé] {text}")):
        assert isinstance(ask("Quel est mon budget ?", message), str)
        assert isinstance(ask(text, message, INTRODUCTION), str)


def test_decomposed_accents_are_the_same_letters() -> None:
    assert ask("Quelle est l'e\u0301che\u0301ance ?", user("L'échéance est le 12 mai.")).count("12 mai") == 1


def test_a_long_quotation_is_shortened_around_the_answer() -> None:
    text = ask("Quel est mon budget ?", user("bla " * 500 + "mon budget est de 10k " + "bla " * 500))
    assert "mon budget est de 10k" in text
    assert len(text) < 300


@pytest.mark.parametrize(
    "piece", ["x1 y2 ", "quel est le budget ? ", " ", "a", "je suis ", "ou je ", "«\u00a0", "[a", "nom\t"]
)
def test_reading_time_is_linear(piece: str) -> None:
    """Le nombre d'appels de fonctions tient lieu de temps : il ne dépend pas de la machine."""

    def calls(size: int) -> int:
        count = 0

        def trace(frame: Any, event: str, arg: Any) -> None:
            nonlocal count
            count += 1

        text = piece * size
        sys.setprofile(trace)
        try:
            SimulatedLLM().complete([user(text), assistant(text), note(text), user(f"Quel est mon budget ? {text}")])
        finally:
            sys.setprofile(None)
        return count

    calls(100)
    assert calls(2000) < 5 * calls(500)


@pytest.mark.parametrize("messages", ["Bonjour", {"role": "user", "content": "Bonjour"}, 3, None])
def test_something_else_than_a_list_of_messages_is_refused(messages: Any) -> None:
    with pytest.raises(TypeError, match="liste de messages"):
        SimulatedLLM().complete(messages)


@pytest.mark.parametrize(
    ("messages", "error", "words"),
    [
        ([], ValueError, "liste vide"),
        ([{"content": "Bonjour"}], ValueError, "role"),
        ([{"role": "robot", "content": "Bonjour"}], ValueError, "Rôle inconnu"),
        ([{"role": "user", "content": 3}], TypeError, "texte"),
    ],
)
def test_unreadable_messages_are_refused(messages: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        SimulatedLLM().complete(messages)


def test_without_any_user_message_the_model_waits() -> None:
    assert SimulatedLLM().complete([note("Vous êtes concis.")]).text == "Je vous écoute."


def test_the_summary_prompt_gives_an_extractive_summary() -> None:
    old = [("user", "Mon budget est de 10k.\nLe taux de fraude est de 0,1 %."), ("assistant", "Entendu.")]
    summarize = llm_summarizer(SimulatedLLM())
    first = summarize("", old)
    assert first == ExtractiveSummarizer()("", old)
    assert "10k" in first
    assert "0,1 %" in first
    assert "(aucun)" not in first
    second = summarize(first, [("user", "L'échéance est fixée au 12 mai.")])
    assert "10k" in second
    assert "12 mai" in second
    assert len(second.split()) <= 120


def test_a_rolling_summary_written_by_the_model_still_answers() -> None:
    memory = RollingSummary(llm_summarizer(SimulatedLLM()), max_turns=4, keep_last=2)
    memory.add_message("user", "Je m'appelle Alice Morel et mon budget est de 10k.")
    for number in range(6):
        memory.add_message("assistant", f"Voici la proposition numéro {number}.")
        memory.add_message("user", "Continuons avec la suivante, je vous prie.")
    assert "10k" not in " ".join(text for _, text in memory.turns)
    question = user("Quel est mon budget ?")
    assert "10k" in SimulatedLLM().complete([*memory.get_messages(), question]).text


def test_only_a_whole_admission_of_ignorance_is_an_abstention() -> None:
    assert is_abstention(UNKNOWN)
    assert is_abstention("Je n'ai pas cette information.")
    assert not is_abstention("Vous vous appelez Alice. Pour le reste, je ne sais pas.")


def test_the_simulated_model_follows_the_protocol() -> None:
    from memoire.llm import LLM

    def complete(model: LLM, messages: Sequence[dict[str, Any]]) -> str:
        return model.complete(messages).model

    assert complete(SimulatedLLM(), [user("Bonjour")]) == "simulé"
