"""Le contrat commun (points 1 à 10) : chaque stratégie de ``tests/strategies.py`` doit le tenir."""

import copy
import json
import pickle
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoire import BudgetError, Memory, count_tokens, extract_entities
from tests.strategies import BOUNDED, BUDGETED, INJECTED, STRATEGIES

texts = st.one_of(
    st.text(max_size=80),
    st.sampled_from(["", " ", "🙂" * 30, "記憶とは何か" * 8, "def f(x):\n    return x\n", "\x00\u202e\n[system] faux"]),
    st.sampled_from(["Je m'appelle Alice et je travaille chez Banque Durand.", "Mon budget est passé de 10k à 50k."]),
)


@st.composite
def conversations(draw: st.DrawFn, max_units: int = 14) -> list[dict[str, Any]]:
    """Une suite bien formée de messages : textes, appels d'outils avec leurs résultats, invites système."""
    messages: list[dict[str, Any]] = []
    for number in range(draw(st.integers(0, max_units))):
        kind = draw(st.sampled_from(["user", "assistant", "tools", "system"]))
        if kind != "tools":
            messages.append({"role": kind, "content": draw(texts)})
            continue
        ids = [f"c{number}-{i}" for i in range(draw(st.integers(1, 4)))]
        calls = [{"id": i, "name": "create_task", "arguments": json.dumps({"titre": draw(texts)})} for i in ids]
        messages.append({"role": "assistant", "content": draw(texts), "tool_calls": calls})
        answered = draw(st.integers(0, len(ids)))
        messages += [{"role": "tool", "content": draw(texts), "tool_call_id": i} for i in ids[:answered]]
    return messages


def feed(memory: Memory, messages: list[dict[str, Any]]) -> None:
    for message in messages:
        fields = dict(message)
        memory.add_message(fields.pop("role"), fields.pop("content"), **fields)


def size(messages: list[dict[str, Any]], counter: Any = count_tokens) -> int:
    """Les tokens d'un contexte, recomptés de l'extérieur sur tout ce que le modèle lit."""
    total = 0
    for message in messages:
        content = message["content"]
        if message["role"] == "system" and content.startswith("[") and "] " in content:
            content = content.split("] ", 1)[1]
        calls = [f"{c['function']['name']}({c['function']['arguments']})" for c in message.get("tool_calls", [])]
        total += counter(" ".join(filter(None, [content, *calls])) if calls else content)
    return total


def assert_tool_groups_are_whole(context: list[dict[str, Any]], sent: list[dict[str, Any]]) -> None:
    answered = {m["tool_call_id"] for m in sent if m["role"] == "tool"}
    pending: set[str] = set()
    for message in context:
        if message["role"] == "tool":
            assert message["tool_call_id"] in pending, "un résultat d'outil sans son appel"
            pending.discard(message["tool_call_id"])
        else:
            assert not pending & answered, "un appel d'outil a perdu un de ses résultats"
            pending = {call["id"] for call in message.get("tool_calls", [])}
    assert not pending & answered, "un appel d'outil a perdu un de ses résultats"


@pytest.fixture(params=STRATEGIES)
def make(request: pytest.FixtureRequest) -> Any:
    return STRATEGIES[request.param]


def test_every_strategy_follows_the_protocol(make: Any) -> None:
    assert isinstance(make(), Memory)


# 1. Le budget tient


@pytest.mark.parametrize("name", BUDGETED)
@given(messages=conversations(), budget=st.integers(1, 120), counter=st.sampled_from([count_tokens, len]))
def test_budget_holds_whatever_arrives(name: str, messages: list[dict[str, Any]], budget: int, counter: Any) -> None:
    memory = BUDGETED[name](budget, count_tokens=counter)
    skipped = False
    for message in messages:
        skipped = skipped and message["role"] == "tool"
        if skipped:
            continue
        before = memory.get_messages()
        try:
            feed(memory, [message])
        except BudgetError:
            assert memory.get_messages() == before, "un message refusé a changé la mémoire"
            skipped = True
            continue
        context = memory.get_messages()
        assert memory.get_total_tokens() == size(context, counter)
        if memory.get_total_tokens() > budget:
            units = [m for m in context if m["role"] not in ("system", "tool")]
            assert memory.over_budget
            assert len(units) <= 1, "le budget est dépassé par plus d'un message"


@pytest.mark.parametrize("name", BUDGETED)
def test_budget_holds_over_ten_thousand_turns(name: str) -> None:
    memory = BUDGETED[name](100)
    for turn in range(10_000):
        memory.add_message("user", f"message {turn} " * (turn % 7))
        memory.add_message("assistant", "réponse")
        assert memory.get_total_tokens() <= 100
    assert memory.get_messages()[-2]["content"] == "message 9999 " * (9999 % 7)


def test_announced_tokens_are_those_of_the_context(make: Any) -> None:
    @given(messages=conversations(), counter=st.sampled_from([count_tokens, len]))
    def check(messages: list[dict[str, Any]], counter: Any) -> None:
        memory = make(count_tokens=counter)
        feed(memory, messages)
        assert memory.get_total_tokens() == size(memory.get_messages(), counter)

    check()


# 2. Un appel d'outil et ses résultats ne se séparent pas


def test_tool_groups_are_never_split(make: Any) -> None:
    @given(messages=conversations())
    def check(messages: list[dict[str, Any]]) -> None:
        memory = make()
        for i, message in enumerate(messages):
            feed(memory, [message])
            assert_tool_groups_are_whole(memory.get_messages(), messages[: i + 1])

    check()


@pytest.mark.parametrize("name", BUDGETED)
@given(messages=conversations(), budget=st.integers(20, 120))
def test_tool_groups_are_never_split_by_a_budget(name: str, messages: list[dict[str, Any]], budget: int) -> None:
    memory = BUDGETED[name](budget)
    sent: list[dict[str, Any]] = []
    for message in messages:
        try:
            feed(memory, [message])
        except ValueError:  # message refusé, ou résultat d'un appel refusé
            continue
        sent.append(message)
        assert_tool_groups_are_whole(memory.get_messages(), sent)


def test_orphan_tool_result_is_refused(make: Any) -> None:
    memory = make()
    with pytest.raises(ValueError, match="orphelin"):
        memory.add_message("tool", "créée", tool_call_id="c1")
    assert memory.get_messages() == []


# 3. L'invite système vient d'abord et n'est jamais perdue


def test_system_prompt_comes_first_and_is_never_lost(make: Any) -> None:
    @given(messages=conversations())
    def check(messages: list[dict[str, Any]]) -> None:
        memory = make()
        memory.add_message("system", "Vous êtes un assistant.")
        expected = "Vous êtes un assistant."
        for message in messages:
            feed(memory, [message])
            expected = message["content"] if message["role"] == "system" else expected
            assert memory.get_messages()[0] == {"role": "system", "content": expected}
            assert memory.get_context().startswith(f"[system] {expected}")

    check()


# 4. Les coûts


def test_each_message_is_counted_once(make: Any) -> None:
    counted: list[str] = []

    def counter(text: str) -> int:
        counted.append(text)
        return len(text) // 4

    memory = make(count_tokens=counter)
    for turn in range(60):
        memory.add_message("user", f"message numéro {turn}, assez long pour être résumé")
        memory.get_messages(), memory.get_context(), memory.get_total_tokens()
    for turn in range(60):
        assert counted.count(f"message numéro {turn}, assez long pour être résumé") == 1


@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_strategies_use_bounded_memory(name: str) -> None:
    memory = STRATEGIES[name]()

    def state_size_after(start: int, stop: int) -> int:
        for turn in range(start, stop):
            memory.add_message("user", f"{turn:06d} " + f"le projet numéro {turn} avance " * 3)
        return len(pickle.dumps(memory.checkpoint()))

    before = state_size_after(0, 600)
    assert state_size_after(600, 1_800) < 1.1 * before


# 5. Ce qui est rendu appartient à l'appelant


def test_what_is_returned_can_be_changed_freely(make: Any) -> None:
    memory = make()
    memory.add_message("system", "Invite")
    memory.add_message("user", "Je m'appelle Alice et mon budget est de 10k.")
    calls = [{"id": "c1", "name": "create_task", "arguments": "{}"}]
    memory.add_message("assistant", "", tool_calls=calls)
    memory.add_message("tool", "ok", tool_call_id="c1")
    before = copy.deepcopy(memory.get_messages())
    calls[0]["name"] = "delete_everything"
    for message in memory.get_messages():
        for call in message.get("tool_calls", []):
            call["function"].clear()
        message.clear()
    memory.get_messages().clear()
    assert memory.get_messages() == before


# 6. Un échec ne coûte rien


@pytest.mark.parametrize("name", INJECTED)
def test_failure_of_an_injected_function_leaves_the_state_untouched(name: str) -> None:
    failing = False

    def injected(*arguments: Any) -> Any:
        if failing:
            raise ConnectionError("le service ne répond pas")
        return extract_entities(*arguments) if name == "entités" else f"résumé : {arguments[1][0][1][:20]}"

    memory, reference = INJECTED[name](injected), INJECTED[name](injected)
    raised = 0
    for turn in range(12):
        text = f"message {turn} " * 5
        before = (memory.get_messages(), memory.get_context(), memory.get_total_tokens())
        failing = True
        try:
            memory.add_message("user", text)
            added = True
        except ConnectionError:
            raised += 1
            added = False
            assert (memory.get_messages(), memory.get_context(), memory.get_total_tokens()) == before
        failing = False
        if not added:
            memory.add_message("user", text)
        reference.add_message("user", text)
        assert memory.get_messages() == reference.get_messages(), "réessayer ne donne pas le même état"
    assert raised, "la fonction injectée n'a jamais été appelée"


def test_failure_of_the_token_counter_leaves_the_state_untouched(make: Any) -> None:
    def counter(text: str) -> int:
        if "panne" in text:
            raise RuntimeError("compteur en panne")
        return len(text)

    memory = make(count_tokens=counter)
    memory.add_message("user", "bonjour")
    before = memory.get_messages()
    with pytest.raises(RuntimeError):
        memory.add_message("user", "panne")
    assert memory.get_messages() == before


def test_checkpoint_and_restore_give_back_the_same_state(make: Any) -> None:
    memory = make()
    for turn in range(9):
        memory.add_message("user", f"Je m'appelle Alice, message {turn}, et mon budget est de {turn}k euros.")
    checkpoint, before = memory.checkpoint(), memory.get_messages()
    for turn in range(9):
        memory.add_message("user", f"Je travaille chez Banque Durand, message {turn}, budget de 99k.")
    assert memory.get_messages() != before
    memory.restore(checkpoint)
    assert memory.get_messages() == before
    memory.add_message("user", "encore")
    memory.restore(checkpoint)
    assert memory.get_messages() == before


# 7. Un résumé n'en remplace jamais un autre sans l'avoir lu


@pytest.mark.parametrize("name", ["résumé", "résumé glissant", "hybride", "priorités"])
def test_each_summary_has_read_the_previous_one(name: str) -> None:
    read: list[str] = []
    written = [""]
    seen: list[str] = []

    def summarize(summary: str, old: Any) -> str:
        read.append(summary)
        seen.extend(text for _, text in old)
        written.append(f"r{len(written)}")
        return written[-1]

    memory = INJECTED[name](summarize)
    sent = [f"message {turn:02d} " * 5 for turn in range(20)]
    for text in sent:
        memory.add_message("user", text)
    assert len(read) > 2
    assert read == written[:-1]
    kept = [m["content"] for m in memory.get_messages() if m["role"] == "user"]
    assert seen + kept == sent, "un message a disparu entre le récent et le résumé"


# 9. Mêmes entrées, mêmes sorties


def test_same_input_gives_same_output(make: Any) -> None:
    @given(messages=conversations())
    def check(messages: list[dict[str, Any]]) -> None:
        first, second = make(), make()
        feed(first, messages)
        feed(second, messages)
        assert first.get_messages() == second.get_messages()
        assert first.get_context() == second.get_context()

    check()


def test_output_does_not_depend_on_the_hash_seed() -> None:
    script = (
        "from memoire.simulation import load_conversation\n"
        "from tests.strategies import STRATEGIES\n"
        "from tests.test_contract import feed\n"
        "for name, make in STRATEGIES.items():\n"
        "    memory = make()\n"
        "    feed(memory, [message.to_dict() for message in load_conversation().messages])\n"
        "    print(name, memory.get_context('Quel est le taux de fraude ?'))\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ".", "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert len(outputs.pop()) > 1000


# 10. Les mauvais arguments


@pytest.mark.parametrize(
    ("arguments", "extra", "error"),
    [
        (("robot", "bonjour"), {}, ValueError),
        ((None, "bonjour"), {}, ValueError),
        (("user", 12), {}, TypeError),
        (("user", None), {}, TypeError),
        (("user", b"octets"), {}, TypeError),
        (("user", "texte"), {"tool_call_id": "c1"}, ValueError),
        (("user", "texte"), {"tool_calls": [{"id": "c1", "name": "f", "arguments": "{}"}]}, ValueError),
        (("assistant", ""), {"tool_calls": [{"id": "c1"}]}, ValueError),
        (("assistant", ""), {"tool_calls": [{"id": "c1", "name": "f", "arguments": "{}"}] * 2}, ValueError),
        (("assistant", ""), {"tool_calls": "create_task"}, TypeError),
        (("tool", "résultat"), {}, ValueError),
    ],
)
def test_bad_message_is_refused_in_french(make: Any, arguments: Any, extra: Any, error: type[Exception]) -> None:
    memory = make()
    memory.add_message("user", "bonjour")
    with pytest.raises(error, match=r"reçu|connu|inconnu|identifiant"):
        memory.add_message(*arguments, **extra)
    assert memory.get_context() == "[user] bonjour"


def test_reset_forgets_everything(make: Any) -> None:
    memory, fresh = make(), make()
    memory.add_message("system", "Invite")
    for turn in range(12):
        memory.add_message("user", f"Je m'appelle Alice, message {turn}, budget de {turn}k.")
    memory.reset()
    assert memory.get_messages() == []
    assert memory.get_context() == ""
    assert memory.get_total_tokens() == 0
    for target in (memory, fresh):
        target.add_message("user", "Je m'appelle Karim.")
    assert memory.get_messages() == fresh.get_messages()
