"""Les figures de la production et de la mémoire hiérarchique : lisibles, et aux bons nombres."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from memoire import figures
from memoire.costs import Metrics, Usage
from tests.test_figures import TITLE, visible_texts, words_of

EXCHANGES = [1, 1, 2, 2, 3, 3, 4, 5, 8, 12, 14]
COSTS = [0.004 * n for n in EXCHANGES]
WEEKS = {f"2025-W{week:02d}": week % 4 for week in range(1, 13)}

FIGURES: dict[str, Callable[..., tuple[Figure, Any]]] = {
    "dashboard": lambda **o: figures.dashboard(EXCHANGES, COSTS, WEEKS, **o),
    "dashboard d'une conversation": lambda **o: figures.dashboard([1], [0.0], {"2025-W01": 0}, **o),
    "dashboard d'une année": lambda **o: figures.dashboard(
        EXCHANGES, COSTS, {f"2025-W{n:02d}": n for n in range(1, 53)}, **o
    ),
    "dashboard sans repères": lambda **o: figures.dashboard(
        EXCHANGES, COSTS, WEEKS, "$", usual_cost=None, usual_fallbacks=None, **o
    ),
    "hierarchical_flow": figures.hierarchical_flow,
    "fallback_flow": figures.fallback_flow,
}


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.mark.parametrize("titled", [False, True], ids=["sans titre", "avec titre"])
@pytest.mark.parametrize("name", FIGURES)
def test_every_text_is_readable_and_none_overlaps(name: str, titled: bool) -> None:
    fig, _ = FIGURES[name](title=TITLE) if titled else FIGURES[name]()
    texts = visible_texts(fig)
    assert texts
    for text, extent in texts:
        assert text.get_fontsize() >= 10, f"texte trop petit : {text.get_text()!r}"
        assert extent.x0 >= -1, f"texte coupé : {text.get_text()!r}"
        assert extent.y0 >= -1, f"texte coupé : {text.get_text()!r}"
        assert extent.x1 <= fig.bbox.width + 1, f"texte coupé : {text.get_text()!r}"
        assert extent.y1 <= fig.bbox.height + 1, f"texte coupé : {text.get_text()!r}"
    left, bottom, right, top = np.array([extent.extents for _, extent in texts]).T
    width = np.minimum.outer(right, right) - np.maximum.outer(left, left)
    height = np.minimum.outer(top, top) - np.maximum.outer(bottom, bottom)
    clashes = np.argwhere(np.triu((width > 1) & (height > 1), 1))
    names = [(texts[i][0].get_text(), texts[j][0].get_text()) for i, j in clashes]
    assert not names, f"textes qui se recouvrent : {names}"
    assert not any(re.search(r"\d\.\d", text.get_text()) for text, _ in texts), "virgule décimale attendue"
    assert any("message de la figure" in text.get_text().replace("\n", " ") for text, _ in texts) == titled


@pytest.mark.parametrize("name", ["hierarchical_flow", "fallback_flow"])
def test_texts_stay_inside_their_boxes(name: str) -> None:
    fig, ax = FIGURES[name]()
    texts = visible_texts(fig)
    boxes = [patch.get_window_extent() for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    inside = [
        (text, extent, box)
        for text, extent in texts
        for box in boxes
        if box.contains((extent.x0 + extent.x1) / 2, (extent.y0 + extent.y1) / 2)
    ]
    assert len(inside) == len(boxes)
    for text, extent, box in inside:
        assert box.x0 + 3 <= extent.x0 < extent.x1 <= box.x1 - 3, f"{text.get_text()!r} déborde de sa boîte"
        assert box.y0 <= extent.y0 < extent.y1 <= box.y1, f"{text.get_text()!r} déborde de sa boîte"


def test_the_dashboard_writes_the_means_and_the_share_of_long_conversations() -> None:
    fig, (talk, money, weeks) = figures.dashboard(EXCHANGES, COSTS, WEEKS)
    words = words_of(fig)
    assert "5,0 échanges en moyenne" in words
    assert "plus de 10 : 18,2 %" in words
    assert "0,0200 € en moyenne" in words
    assert "1,5 replis par semaine" in words
    assert sum(bar.get_height() for bar in talk.patches) == len(EXCHANGES)
    bars = [patch.get_height() for patch in money.patches if patch.get_hatch() is None]
    assert sum(bars[:15]) == len(COSTS)
    assert [bar.get_height() for bar in weeks.patches[: len(WEEKS)]] == list(WEEKS.values())


def test_the_dashboard_is_drawn_from_a_log() -> None:
    usages = [
        Usage(
            "fort",
            "réponse",
            1000,
            200,
            1.0,
            at=1736000000.0 + 86400 * n,
            call=str(n),
            conversation=f"c{n % 3}",
            cost=0.01,
        )
        for n in range(30)
    ]
    metrics = Metrics.from_usages(usages)
    fig, _ = figures.dashboard(
        list(metrics.exchanges.values()), list(metrics.costs.values()), metrics.fallbacks_per_week
    )
    assert "10,0 échanges en moyenne" in words_of(fig)
    assert "0,1000 € en moyenne" in words_of(fig)


def test_the_flow_names_the_three_memories_in_order() -> None:
    fig, _ = figures.hierarchical_flow()
    places = {
        text.get_text().split("\n")[1]: box.x0 for text, box in visible_texts(fig) if "Mémoire" in text.get_text()
    }
    assert sorted(places, key=places.__getitem__) == ["de travail", "épisodique", "sémantique"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], COSTS, WEEKS), "exchanges"),
        ((EXCHANGES, [], WEEKS), "costs"),
        ((EXCHANGES, COSTS, {}), "fallbacks"),
        ((EXCHANGES, [-1], WEEKS), "négatifs"),
        ((EXCHANGES, [float("nan")], WEEKS), "finis"),
    ],
)
def test_bad_data_is_refused_in_french(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        figures.dashboard(*arguments)
