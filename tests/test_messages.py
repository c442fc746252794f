import pytest

from memoire.messages import Message, ToolCall, count_tokens, create_message, render


def test_tokens_follow_the_rule_of_four_characters() -> None:
    assert [count_tokens("x" * n) for n in (0, 3, 4, 7, 8, 400)] == [0, 0, 1, 1, 2, 100]


def test_message_is_immutable_and_has_no_dict() -> None:
    message = create_message("user", "bonjour")
    with pytest.raises(AttributeError):
        message.content = "autre"  # type: ignore[misc]
    assert not hasattr(message, "__dict__")


def test_tool_calls_are_counted_with_the_content() -> None:
    call = {"id": "c1", "name": "create_task", "arguments": '{"titre": "pain"}'}
    message = create_message("assistant", "Je crée la tâche.", [call], count_tokens=len)
    assert message.text == 'Je crée la tâche. create_task({"titre": "pain"})'
    assert message.tokens == len(message.text)
    assert create_message("assistant", None, [call]).text == 'create_task({"titre": "pain"})'


@pytest.mark.parametrize(
    "message",
    [
        create_message("user", "bonjour"),
        create_message("assistant", "", [{"id": "c1", "name": "f", "arguments": "{}"}]),
        create_message("tool", "ok", tool_call_id="c1"),
    ],
)
def test_chat_completions_format_round_trips(message: Message) -> None:
    assert Message.from_dict(message.to_dict()) == message


def test_both_forms_of_tool_calls_are_read() -> None:
    flat = {"id": "c1", "name": "f", "arguments": "{}"}
    nested = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert create_message("assistant", "", [flat]) == create_message("assistant", "", [nested])
    assert create_message("assistant", "", [flat]).tool_calls == (ToolCall("c1", "f", "{}"),)


def test_render_gives_one_line_a_message() -> None:
    messages = [create_message("user", "Bonjour"), create_message("assistant", "Bonjour, Alice.")]
    assert render(messages) == "[user] Bonjour\n[assistant] Bonjour, Alice."


@pytest.mark.parametrize("data", [{}, {"content": "x"}, "user", None])
def test_unreadable_message_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match="Message illisible"):
        Message.from_dict(data)  # type: ignore[arg-type]


@pytest.mark.parametrize("counter", [lambda text: "12", lambda text: -1, lambda text: 1.5])
def test_a_counter_that_does_not_count_is_refused(counter: object) -> None:
    with pytest.raises(TypeError, match="compteur de tokens"):
        create_message("user", "bonjour", count_tokens=counter)  # type: ignore[arg-type]
