"""L'explorateur : une vue par tour, reliée au curseur dans le navigateur, sans rien laisser passer de dangereux."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets
import pytest
from ipywidgets.embed import dependency_state

from memoire.buffer import ConversationBufferMemory
from memoire.explorer import Frame, explore, frames_explorer, render_frame, result_frames, window_frames
from memoire.messages import create_message
from memoire.simulation import Result, load_conversation, run
from memoire.summary import SummaryMemory
from memoire.window import SlidingWindowMemory

PAIRS = [
    ("user", "Bonjour, je m'appelle Inès."),
    ("assistant", "Bonjour Inès."),
    ("user", "Merci."),
    ("assistant", "Je vous en prie."),
]


@pytest.fixture(scope="module")
def result() -> Result:
    memories = {
        "tampon": ConversationBufferMemory(100_000),
        "fenêtre": SlidingWindowMemory(3),
        "résumé": SummaryMemory(6),
    }
    return run(load_conversation(), memories)


def links(explorer: widgets.VBox) -> list[Any]:
    """Les liens `jslink` de l'explorateur, tels que la page HTML les reçoit."""
    return [model for model in _state(explorer).values() if model["model_name"] == "LinkModel"]


def _state(explorer: widgets.VBox) -> dict[str, Any]:
    return dict(dependency_state([explorer], drop_defaults=False))


def stacks(widget: Any) -> list[Any]:
    own = [widget] if isinstance(widget, widgets.Stack) else []
    return own + [found for child in getattr(widget, "children", ()) for found in stacks(child)]


def test_each_strategy_has_one_view_per_turn(result: Result) -> None:
    for name in result.tokens:
        frames = result_frames(result, name)
        assert len(frames) == 30
        assert [len(f.messages) for f in frames] == sorted(len(f.messages) for f in frames)
        assert len(frames[-1].messages) == len(result.conversation.messages)
    outer, *inner = stacks(explore(result))
    assert len(outer.children) == len(inner) == 3
    assert all(len(stack.children) == 31 for stack in inner)  # une par tour, plus la position 0, vide
    assert all(stack.children[0].value == "" for stack in inner)


def test_slider_and_views_are_linked_in_the_browser(result: Result) -> None:
    explorer = explore(result)
    slider = next(child for child in explorer.children if isinstance(child, widgets.IntSlider))
    assert (slider.min, slider.max, slider.value) == (1, 30, 30)
    sources = [model["state"]["source"] for model in links(explorer)]
    assert sources.count([f"IPY_MODEL_{slider.model_id}", "value"]) == 3
    tabs = next(child for child in explorer.children if isinstance(child, widgets.ToggleButtons))
    assert [f"IPY_MODEL_{tabs.model_id}", "index"] in sources
    assert tuple(tabs.options) == tuple(result.tokens)


def test_views_tell_what_the_memory_really_holds(result: Result) -> None:
    last = {name: result_frames(result, name)[-1] for name in result.tokens}
    assert set(last["tampon"].statuses) == {"gardé"}
    assert last["fenêtre"].statuses.count("gardé") == len(result.kept["fenêtre"][-1])
    assert set(last["fenêtre"].statuses) == {"gardé", "perdu"}
    assert "résumé" in last["résumé"].statuses
    assert last["fenêtre"].tokens == result.tokens["fenêtre"][-1]
    assert last["fenêtre"].ratio == result.ratios["fenêtre"][-1]
    assert last["résumé"].notes == result.notes["résumé"][-1]


def test_a_view_shows_sign_count_tokens_and_ratio() -> None:
    messages = tuple(create_message(*pair) for pair in PAIRS)
    html = render_frame(
        Frame("Tour 2 sur 9", messages, ("perdu", "résumé", "gardé", "gardé"), 1234, 0.256, ("[résumé] Inès",))
    )
    text = re.sub("<[^>]+>", "", html).replace("\u202f", " ").replace("\u00a0", " ")
    for expected in (
        "Tour 2 sur 9",
        "1 234 tokens",
        "ρt = 0,26",
        "✓ 2 messages gardés mot pour mot",
        "4 assistant Je vous en prie.",
    ):
        assert expected in text
    assert "≈ 1 message dans une note seulement : 2" in text
    assert "✗ 1 message perdu : 1" in text
    assert "[résumé] Inès" in text
    assert "✗≈✓" in text


def test_texts_are_escaped() -> None:
    attack = "<script>alert(1)</script><img src=x onerror='alert(2)'>"
    frame = Frame(attack, (create_message("user", attack),), ("gardé",), 3, 1.0, (attack,))
    html = render_frame(frame)
    assert "<script" not in html
    assert "<img" not in html
    assert html.count("&lt;script&gt;") == 3


def test_strategy_names_are_not_read_as_html(result: Result) -> None:
    named = run([("user", "a"), ("assistant", "b")], {"<script>x</script>": ConversationBufferMemory(100)})
    state = json.dumps([m["state"].get("value") for m in _state(explore(named)).values()])
    assert "<script" not in state


def test_the_page_stays_light(result: Result) -> None:
    memories = {
        f"stratégie {i}": memory
        for i, memory in enumerate(
            [
                ConversationBufferMemory(100_000),
                *(SummaryMemory(4 + i) for i in range(4)),
                *(SlidingWindowMemory(i) for i in range(4)),
            ]
        )
    }
    state = _state(explore(run(load_conversation(), memories)))
    assert len(json.dumps(state)) < 400_000


def test_window_explorer_has_one_view_per_context() -> None:
    frames = window_frames(PAIRS, [{0, 1}, {2, 3}])
    assert [frame.statuses for frame in frames] == [("gardé", "gardé"), ("perdu", "perdu", "gardé", "gardé")]
    (stack,) = stacks(frames_explorer(frames, "Échange", start=1))
    assert len(stack.children) == 3
    assert stack.selected_index == 1
    assert "messages perdus : 1 à 2" in stack.children[2].value.replace("\u00a0", " ")


def test_long_lists_are_folded() -> None:
    messages = tuple(create_message("user", f"message {i}") for i in range(40))
    html = render_frame(Frame("Tour 20", messages, ("gardé",) * 40), shown=4)
    assert "… et 36 autres" in html
    assert html.count("<li>") == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: frames_explorer([]), "Aucune vue"),
        (lambda: frames_explorer(window_frames(PAIRS, [{0}]), start=2), "start doit aller de 1 à 1"),
        (lambda: window_frames(PAIRS, []), "0 contextes"),
        (lambda: window_frames(PAIRS, [{0}] * 3), "3 contextes pour 4 messages"),
        (lambda: Frame("t", (), ("gardé",)), "il en faut autant"),
        (lambda: Frame("t", (create_message("user", "a"),), ("oublié",)), "États inconnus"),
        (lambda: explore(run([], {})), "Aucune stratégie"),
        (lambda: explore(run([], {"a": ConversationBufferMemory()})), "Aucune vue"),
        (lambda: explore(run([], {"a": ConversationBufferMemory()}), ["b"]), "Stratégie inconnue"),
    ],
)
def test_bad_arguments_are_refused_in_french(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
