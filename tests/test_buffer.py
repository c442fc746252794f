import pytest

from memoire import ConversationBufferMemory

SIX_MESSAGES = [
    ("user", "Bonjour, je m'appelle Alice."),
    ("assistant", "Bonjour Alice, que puis-je pour vous ?"),
    ("user", "Je prépare un cours sur la mémoire."),
    ("assistant", "Très bien. Par quoi commencer ?"),
    ("user", "Par la mémoire tampon."),
    ("assistant", "C'est la plus simple : elle garde tout."),
]


def filled(max_tokens: int) -> ConversationBufferMemory:
    memory = ConversationBufferMemory(max_tokens)
    for role, content in SIX_MESSAGES:
        memory.add_message(role, content)
    return memory


def test_everything_is_kept_within_the_budget() -> None:
    memory = filled(4096)
    assert memory.get_messages() == [{"role": role, "content": content} for role, content in SIX_MESSAGES]
    assert memory.get_context() == "\n".join(f"[{role}] {content}" for role, content in SIX_MESSAGES)
    assert memory.get_total_tokens() == sum(len(content) // 4 for _, content in SIX_MESSAGES) == 45


def test_the_oldest_messages_leave_first() -> None:
    memory = filled(22)
    kept = [content for _, content in SIX_MESSAGES[-2:]]
    assert [m["content"] for m in memory.get_messages()] == [SIX_MESSAGES[3][1], *kept]
    assert memory.get_total_tokens() == 21


def test_a_message_larger_than_the_budget_stays_alone_and_is_signalled() -> None:
    memory = filled(30)
    assert not memory.over_budget
    memory.add_message("user", "x" * 400)
    assert [m["content"] for m in memory.get_messages()] == ["x" * 400]
    assert memory.over_budget
    memory.add_message("user", "court")
    assert [m["content"] for m in memory.get_messages()] == ["court"]
    assert not memory.over_budget


def test_the_system_prompt_counts_in_the_budget_and_stays() -> None:
    memory = filled(46)
    memory.add_message("system", "x" * 40)
    assert memory.get_messages()[0]["content"] == "x" * 40
    assert memory.get_total_tokens() <= 46
    assert len(memory.get_messages()) == 5


@pytest.mark.parametrize(
    ("max_tokens", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("4096", TypeError)]
)
def test_bad_budget_is_refused(max_tokens: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="max_tokens"):
        ConversationBufferMemory(max_tokens)  # type: ignore[arg-type]


def test_a_counter_that_is_not_a_function_is_refused() -> None:
    with pytest.raises(TypeError, match="count_tokens"):
        ConversationBufferMemory(count_tokens="len")  # type: ignore[arg-type]
