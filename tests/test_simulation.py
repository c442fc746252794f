import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from memoire import (
    BaseMemory,
    ConversationBufferMemory,
    EntityMemory,
    HybridMemory,
    PriorityWindowMemory,
    RollingSummary,
    SlidingWindowMemory,
    SummaryMemory,
    truncating_summarizer,
)
from memoire.llm import Reply
from memoire.memory import Memory
from memoire.messages import Message
from memoire.simulation import (
    KEPT,
    LOST,
    SUMMARISED,
    TO_COME,
    Conversation,
    Fact,
    Question,
    Result,
    Scores,
    SimulationError,
    champions,
    code_lines,
    contains_all,
    load_conversation,
    markdown_table,
    pareto_front,
    run,
    token_growth,
    trade_off,
)


def strategies() -> dict[str, Memory]:
    return {
        "tampon": ConversationBufferMemory(100_000),
        "fenêtre": SlidingWindowMemory(5),
        "résumé": SummaryMemory(6),
        "hybride": HybridMemory(6),
        "entités": EntityMemory(4),
        "résumé glissant": RollingSummary(truncating_summarizer),
        "priorités": PriorityWindowMemory(1500),
    }


@pytest.fixture(scope="module")
def conversation() -> Conversation:
    return load_conversation()


@pytest.fixture(scope="module")
def result(conversation: Conversation) -> Result:
    return run(conversation, strategies())


# La conversation du cours


def test_the_conversation_has_thirty_whole_turns(conversation: Conversation) -> None:
    assert conversation.turn_count == 30
    for turn in range(1, 31):
        messages = conversation.exchange(turn)
        assert messages[0].role == "user"
        assert messages[-1].role == "assistant"
        assert not messages[-1].tool_calls
        assert [message.role for message in messages].count("user") == 1


def test_its_messages_have_the_size_of_real_ones(conversation: Conversation) -> None:
    sizes = {
        role: [m.tokens for m in conversation.messages if m.role == role and m.content]
        for role in ("user", "assistant")
    }
    assert min(sizes["user"]) >= 30
    assert max(sizes["user"]) <= 80
    assert 70 <= sum(sizes["assistant"]) / 30 <= 100


def test_its_typography_is_french(conversation: Conversation) -> None:
    for message in conversation.messages:
        if message.role != "tool":
            assert not re.search(r"[^\u00a0:;!?][:;!?»](?:\s|$)| [€%]|« |\.\.\.", message.content), message.content


def test_ten_facts_of_the_project_are_said_in_the_first_ten_turns(conversation: Conversation) -> None:
    first = [fact for fact in conversation.facts if fact.turn <= 10]
    assert sum(fact.kind == "projet" for fact in first) == 10
    said = " ".join(item for fact in first for item in fact.evidence)
    for value in ("XGBoost", "50", "0,1", "SMOTE", "0,85", "0,30", "fin du mois", "AWS", "Airflow", "400"):
        assert value in said


def test_the_evidence_of_each_fact_is_in_a_message_of_its_turn(conversation: Conversation) -> None:
    for fact in conversation.facts:
        texts = [message.text for message in conversation.exchange(fact.turn)]
        assert any(all(item in text for item in fact.evidence) for text in texts), fact.id


def test_the_scripted_replies_do_not_restate_the_facts(conversation: Conversation) -> None:
    for fact in conversation.facts:
        echoes = [
            m
            for m in conversation.messages
            if m.role == "assistant" and not m.tool_calls and contains_all(m.text, fact.evidence)
        ]
        assert not echoes, fact.id


def test_two_facts_change_later(conversation: Conversation) -> None:
    facts = {fact.id: fact for fact in conversation.facts}
    changed = {fact.id: facts[fact.superseded_by] for fact in conversation.facts if fact.superseded_by}
    assert set(changed) == {"échéance", "budget GPU"}
    for old, new in changed.items():
        assert new.turn > facts[old].turn
        assert not contains_all(conversation.exchange(new.turn)[0].content, facts[old].evidence)


def test_a_task_is_created_then_changed_by_reference(conversation: Conversation) -> None:
    calls = [
        (turn, m.tool_calls[0])
        for m, turn in zip(conversation.messages, conversation.turns, strict=True)
        if m.tool_calls
    ]
    (created, first), (changed, second) = calls
    assert (first.name, second.name) == ("create_task", "update_task")
    assert changed > created
    assert "T-1042" in second.arguments
    assert not any("T-1042" in m.content for m in conversation.messages if m.role == "user")


def test_each_question_is_asked_in_its_turn_after_its_facts(conversation: Conversation) -> None:
    facts = {fact.id: fact for fact in conversation.facts}
    for question in conversation.questions:
        assert question.text in conversation.exchange(question.turn)[0].content
        evidence = " ".join(item for name in question.fact_ids for item in facts[name].evidence)
        assert all(facts[name].turn < question.turn for name in question.fact_ids)
        assert all(
            facts[name].superseded_by is None or facts[facts[name].superseded_by or ""].turn > question.turn
            for name in question.fact_ids
        )
        assert all(expected in evidence for expected in question.expected)
        assert bool(question.expected) == (question.category != "absent")
    counts = Counter(question.category for question in conversation.questions)
    assert set(counts) == {"fait", "plusieurs faits", "temps", "mise à jour", "absent"}
    assert counts["absent"] >= 2
    assert counts["mise à jour"] >= 2


# Les mesures


def test_tokens_are_those_of_an_independent_count(conversation: Conversation, result: Result) -> None:
    total, buffer = 0, []
    for message in conversation.messages:
        text = message.content
        for call in message.tool_calls:
            text = f"{text} {call.name}({call.arguments})".strip()
        total += len(text) // 4
        if message.role == "assistant" and not message.tool_calls:
            buffer.append(total)
    assert result.tokens["tampon"] == buffer == result.history
    assert result.ratios["tampon"] == [1.0] * 30
    last_ten = conversation.pairs()[-10:]
    assert result.tokens["fenêtre"][-1] == sum(len(text) // 4 for _, text in last_ten)
    assert result.turns == list(range(1, 31))
    assert result.cumulated["tampon"][-1] == sum(buffer)


def test_pairs_are_measured_after_each_assistant_message() -> None:
    pairs = [("user" if n % 2 == 0 else "assistant", "x" * (4 * n + 4)) for n in range(60)]
    outcome = run(pairs, strategies())
    sizes = [n + 1 for n in range(60)]
    assert outcome.tokens["tampon"] == [sum(sizes[: n + 2]) for n in range(0, 60, 2)]
    assert outcome.tokens["fenêtre"] == [sum(sizes[max(0, n - 8) : n + 2]) for n in range(0, 60, 2)]
    for name, memory in strategies().items():
        expected = []
        for role, text in pairs:
            memory.add_message(role, text)
            if role == "assistant":
                expected.append((memory.get_total_tokens(), memory.get_context()))
        assert list(zip(outcome.tokens[name], outcome.contexts[name], strict=True)) == expected
    assert outcome.retention["tampon"] == {}
    assert outcome.answers["tampon"] == []


def test_any_iterable_of_pairs_is_accepted() -> None:
    def pairs() -> Iterator[tuple[str, str]]:
        yield "assistant", "Bonjour."
        yield "user", "Bonjour, vous."
        yield "assistant", "Oui."

    outcome = run(pairs(), {"tampon": ConversationBufferMemory()})
    assert outcome.turns == [0, 1]
    assert len(outcome.tokens["tampon"]) == 2
    assert run([], {"tampon": ConversationBufferMemory()}).tokens == {"tampon": []}


def test_running_again_gives_the_same_measures(conversation: Conversation) -> None:
    memories = strategies()
    first, second = run(conversation, memories), run(conversation, memories)
    assert first == second


def test_the_retention_of_a_fact_follows_its_message(conversation: Conversation, result: Result) -> None:
    assert all(
        set(row[fact.turn - 1 :]) == {KEPT}
        for fact, row in zip(conversation.facts, result.retention["tampon"].values(), strict=True)
    )
    for fact in conversation.facts:
        row = result.retention["fenêtre"][fact.id]
        assert row[: fact.turn - 1] == [TO_COME] * (fact.turn - 1)
        assert row[fact.turn - 1] == KEPT
    assert result.retention["fenêtre"]["nom"] == [KEPT] * 5 + [LOST] * 25
    assert SUMMARISED in result.retention["résumé"]["SMOTE"]
    assert result.retention["résumé"]["SMOTE"][-1] == SUMMARISED
    assert result.retention["résumé"]["taux de fraude"][-1] == LOST
    assert result.retention["priorités"]["tâche"][-1] == KEPT, "un appel d'outil est prioritaire"


def test_kept_and_notes_describe_the_context(conversation: Conversation, result: Result) -> None:
    for name, contexts in result.contexts.items():
        for context, kept, notes in zip(contexts, result.kept[name], result.notes[name], strict=True):
            rebuilt = [*notes, *(conversation.messages[index].render() for index in kept)]
            assert context == "\n".join(rebuilt)


def test_repeated_messages_are_counted_as_the_latest_ones() -> None:
    pairs = [("user", "Oui."), ("assistant", "Bien.")] * 6
    outcome = run(pairs, {"fenêtre": SlidingWindowMemory(2)})
    assert outcome.kept["fenêtre"][-1] == (8, 9, 10, 11)


def test_the_last_ten_exchanges_are_kept_summarised_or_lost(conversation: Conversation) -> None:
    memories = {
        "tampon": ConversationBufferMemory(100_000),
        "fenêtre": SlidingWindowMemory(3),
        "résumé": SummaryMemory(6),
    }
    outcome = run(conversation.pairs(), memories)
    assert outcome.exchange_counts("tampon") == {KEPT: 10, SUMMARISED: 0, LOST: 0}
    assert outcome.exchange_counts("fenêtre") == {KEPT: 3, SUMMARISED: 0, LOST: 7}
    assert outcome.exchange_counts("résumé") == {KEPT: 3, SUMMARISED: 7, LOST: 0}


# Les réponses


def test_with_the_whole_history_nearly_every_answer_is_right(result: Result) -> None:
    assert result.accuracy("tampon") >= 0.9
    assert result.accuracy("tampon", "absent") == 1
    assert result.accuracy("tampon", "mise à jour") == 1


def test_an_answer_is_right_only_if_its_facts_are_in_the_context(conversation: Conversation, result: Result) -> None:
    for name in result.answers:
        for answer in result.answers[name]:
            question = answer.question
            if question.category == "absent":
                assert answer.correct == answer.abstained
            elif answer.correct:
                rows = [result.retention[name][fact][question.turn - 2 : question.turn] for fact in question.fact_ids]
                assert all({KEPT, SUMMARISED} & set(row) for row in rows), (name, question.text)


def test_a_window_abstains_when_the_fact_has_left(conversation: Conversation, result: Result) -> None:
    answers = {answer.question.text: answer for answer in result.answers["fenêtre"]}
    first, last = conversation.questions[0], conversation.questions[-1]
    assert answers[first.text].abstained
    assert answers[last.text].abstained
    assert result.accuracy("fenêtre", "absent") == 1
    assert 0 < result.accuracy("fenêtre") < result.accuracy("tampon")


def test_another_model_may_answer(conversation: Conversation) -> None:
    class Parrot:
        def complete(self, messages: Sequence[dict[str, Any]]) -> Reply:
            return Reply("0,1 %, 0,85 et 0,30", "perroquet", 7, 5)

    outcome = run(conversation, {"fenêtre": SlidingWindowMemory(0)}, Parrot())
    right = [answer.question.turn for answer in outcome.answers["fenêtre"] if answer.correct]
    assert right == [11, 16]
    assert outcome.answers["fenêtre"][0].input_tokens == 7


def test_asking_a_question_changes_nothing_in_the_memory(conversation: Conversation, result: Result) -> None:
    silent = run(Conversation(conversation.messages), strategies())
    assert silent.contexts == result.contexts


# Les erreurs


class FailingMemory(BaseMemory):
    def _update(self, message: Message) -> None:
        if "Airflow" in message.content:
            raise RuntimeError("le disque est plein")


def test_a_failing_memory_is_named_with_its_turn(conversation: Conversation) -> None:
    with pytest.raises(SimulationError, match=r"« fragile » a échoué au tour 9.*le disque est plein") as caught:
        run(conversation, {"tampon": ConversationBufferMemory(), "fragile": FailingMemory()})
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize(
    ("pairs", "error", "words"),
    [
        ("bonjour", TypeError, "suite de paires"),
        (3, TypeError, "suite de paires"),
        ([("user", "a", "b")], ValueError, "paire"),
        (["ab"], ValueError, "paire"),
        ([("robot", "a")], ValueError, "Rôle inconnu"),
        ([("user", None)], TypeError, "texte"),
    ],
)
def test_an_unreadable_conversation_is_refused(pairs: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        run(pairs, {"tampon": ConversationBufferMemory()})


def test_what_is_not_a_memory_is_refused() -> None:
    with pytest.raises(TypeError, match=r"« vide » n'est pas une mémoire.*get_context"):
        run([("user", "a")], {"vide": object()})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="dictionnaire"):
        run([("user", "a")], [ConversationBufferMemory()])  # type: ignore[arg-type]


def test_an_unknown_strategy_or_category_is_refused(result: Result) -> None:
    with pytest.raises(ValueError, match="Stratégie inconnue : 'rag'"):
        result.accuracy("rag")
    with pytest.raises(ValueError, match="Aucune question"):
        result.accuracy("tampon", "énigme")


MESSAGES = (Message("user", "Mon budget est de 10k. Quel est mon nom ?"), Message("assistant", "C'est noté."))


@pytest.mark.parametrize(
    ("facts", "questions", "words"),
    [
        ([Fact("a", 1, "", ("50k",))], [], "Aucun message du tour 1"),
        ([Fact("a", 2, "", ("10k",))], [], "Aucun message du tour 2"),
        ([Fact("a", 1, "", ())], [], "Aucun message"),
        ([Fact("a", 1, "", ("10k",))] * 2, [], "même nom"),
        ([Fact("a", 1, "", ("10k",), "b")], [], "fait inconnu"),
        ([], [Question(1, "Quel est mon âge ?", "fait")], "ne pose pas la question"),
        ([], [Question(1, "Quel est mon nom ?", "fait", (), ("z",))], "faits inconnus"),
    ],
)
def test_an_inconsistent_conversation_is_refused(facts: list[Fact], questions: list[Question], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Conversation(MESSAGES, tuple(facts), tuple(questions))


# Les tableaux du chapitre 9


@pytest.mark.parametrize(
    ("text", "evidence", "found"),
    [
        ("Le taux est de 0,1\u00a0%.", ["0,1 %"], True),
        ("LE BUDGET : 400\u202f€", ["budget", "400 €"], True),
        ("10,1 %", ["0,1 %"], False),
        ("0,856", ["0,85"], False),
        ("1,0,85", ["0,85"], False),
        ("Airflows", ["Airflow"], False),
        ("Airflow,", ["Airflow"], True),
        ("rien", [], True),
    ],
)
def test_evidence_is_found_as_whole_words_and_numbers(text: str, evidence: list[str], found: bool) -> None:
    assert contains_all(text, evidence) is found


def test_the_pareto_front_keeps_what_nothing_beats() -> None:
    points = {"a": (10.0, 0.2), "b": (20.0, 0.2), "c": (30.0, 0.9), "d": (40.0, 0.8), "e": (10.0, 0.2)}
    assert pareto_front(points) == ["a", "e", "c"]
    assert pareto_front({}) == []


def test_domination_needs_four_axes_as_good_and_one_better() -> None:
    base = Scores(0.5, 100, 20, 1)
    assert Scores(0.5, 99, 20, 1).dominates(base)
    assert not base.dominates(base)
    assert not Scores(0.9, 50, 21, 0).dominates(base)
    assert champions({"a": base, "b": Scores(0.5, 99, 20, 1)}) == ["b"]
    assert champions({"a": base, "b": Scores(0.9, 200, 20, 1)}) == []


def test_no_strategy_dominates_the_others_on_the_four_axes(result: Result) -> None:
    scores = trade_off(result, strategies())
    assert champions(scores) == []
    assert max(scores, key=lambda name: scores[name].growth) == "tampon"
    assert scores["fenêtre"].growth < 5 < 100 < scores["tampon"].growth


def test_growth_is_measured_in_tokens_per_turn() -> None:
    assert token_growth([150 * turn for turn in range(1, 31)]) == pytest.approx(150)
    assert token_growth([700] * 30) == 0 == token_growth([5, 9]) == token_growth(list(range(30, 0, -1)))


def test_code_lines_count_what_is_specific_to_a_strategy() -> None:
    assert 0 < code_lines(SlidingWindowMemory()) < code_lines(SummaryMemory()) < code_lines(HybridMemory())
    plain, injected = PriorityWindowMemory(), PriorityWindowMemory(summarize=truncating_summarizer)
    assert code_lines(injected) > code_lines(plain)
    orphan = type("Orphan", (BaseMemory,), {"__module__": "__main__"})()
    with pytest.raises(ValueError, match="introuvable"):
        code_lines(orphan)


def test_the_table_sums_up_each_strategy(result: Result) -> None:
    rows = result.table()
    assert [row["Stratégie"] for row in rows] == list(strategies())
    for row in rows:
        assert sum(row[f"Faits : {state}s"] for state in (KEPT, SUMMARISED, LOST)) == len(result.conversation.facts)
    lines = markdown_table(rows).splitlines()
    assert len(lines) == len(rows) + 2
    assert len({line.count("|") for line in lines}) == 1
    assert "1,00" in lines[2]
    assert markdown_table([]) == ""


def test_the_buffer_grows_and_the_window_does_not(result: Result) -> None:
    assert all(before < after for before, after in pairwise(result.tokens["tampon"]))
    assert max(result.tokens["fenêtre"]) < 1.5 * result.tokens["fenêtre"][5]
