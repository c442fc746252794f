"""Les figures : elles disent les bons nombres, en français, et se lisent sans chevauchement."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.text import Text

from memoire import figures
from memoire.figures import style

NAMES = ["buffer", "window", "priority", "summary", "rolling", "hybrid", "entities", "tree", "selection"]
TITLE = "Un titre qui énonce le message de la figure, assez long pour tenir sur deux lignes"


def _tokens() -> dict[str, list[float]]:
    rng = random.Random(3)
    full = list(accumulate(rng.randint(40, 70) for _ in range(30)))
    caps = dict(zip(NAMES, (10_000, 280, 400, 1_500, 340, 1_300, 290, 385, 240), strict=True))
    return {name: [min(size, cap) for size in full] for name, cap in caps.items()}


def _retention() -> dict[str, list[str]]:
    rows = {}
    for fact in range(17):
        past = ["gardé"] * 5 + ["résumé"] * 4 + ["perdu"] * 40
        rows[f"fait numéro {fact}, nommé longuement"] = (["à venir"] * fact + past)[:30]
    return rows


POINTS = dict(
    zip(
        NAMES,
        [(853, 1), (259, 0.4), (356, 0.4), (767, 1), (325, 1), (682, 1), (257, 0.6), (318, 1), (225, 0.4)],
        strict=True,
    )
)
HISTORY = {
    "budget": [(2, "10k"), (9, "50k")],
    "échéance": [(4, "fin du mois")],
    "équipe": [(1, "données"), (12, "plateforme")],
}
TREE = {
    "session 1": {"fraude": ["XGBoost avec 50 variables", "taux de 0,1 % sur des millions de transactions en ligne"]},
    "session 2": {"budget": ["50k", "a", "b", "c", "d", "e"], "sans fait": []},
}
TEXTS = ["Je m'appelle Inès et je travaille chez Nacre Paiements.", "Merci !", "Le taux de fraude est de 0,1 %."]
RATIOS = {kind: {"Tekken": [0.4, 0.9, 1.3], "o200k": [0.5, 1.0, 1.2]} for kind in ("prose française", "JSON", "émojis")}
BUDGETS = {
    "tour 3": {"système": 60, "derniers échanges": 120, "outils": 50},
    "tour 15": {
        "système": 60,
        "derniers échanges": 110,
        "outils": 120,
        "intermédiaires": 40,
        "anciens": 20,
        "écartés": 400,
    },
}

FIGURES: dict[str, Callable[..., tuple[Figure, Axes]]] = {
    "context_growth": figures.context_growth,
    "context_growth_one": lambda **o: figures.context_growth(20, 300, [4096], **o),
    "cumulated_call_cost": figures.cumulated_call_cost,
    "stateless_calls": figures.stateless_calls,
    "stateless_calls_four": lambda **o: figures.stateless_calls(4, **o),
    "compression_ratio_curves": figures.compression_ratio_curves,
    "token_rule_error": lambda **o: figures.token_rule_error(RATIOS, **o),
    "cost_per_call": lambda **o: figures.cost_per_call([65, 110, 160, 230], [20, 30, 20, 30], **o),
    "cost_per_call_plain": lambda **o: figures.cost_per_call(range(50, 1500, 60), **o),
    "truncation_strip": lambda **o: figures.truncation_strip(
        [30, 45, 20, 60, 25], [False, False, True, True, True], 120, **o
    ),
    "window_strip": lambda **o: figures.window_strip([range(max(0, 2 * t - 6), 2 * t) for t in range(1, 9)], **o),
    "window_tokens": lambda **o: figures.window_tokens(
        [60 * t for t in range(1, 31)], [60 * min(t, 5) for t in range(1, 31)], 5, **o
    ),
    "fact_loss": lambda **o: figures.fact_loss({"window": [True] * 5 + [False] * 7, "buffer": [True] * 12}, **o),
    "priority_budget": lambda **o: figures.priority_budget(BUDGETS, 400, **o),
    "voice_pipeline": figures.voice_pipeline,
    "rolling_sawtooth": lambda **o: figures.rolling_sawtooth(
        [*range(1, 13), 6, 7, 8, 9, 10, 11, 12, 6, 7], [13, 20], **o
    ),
    "break_even": lambda **o: figures.break_even([900] * 12, [1360, *[300] * 11], **o),
    "break_even_late": lambda **o: figures.break_even([100] * 12, [700, *[40] * 11], **o),
    "break_even_never": lambda **o: figures.break_even([100] * 5, [300] * 5, **o),
    "entity_timeline": lambda **o: figures.entity_timeline(HISTORY, 20, **o),
    "summary_tree": lambda **o: figures.summary_tree(TREE, **o),
    "selection_bars": lambda **o: figures.selection_bars(
        TEXTS, [0.12, -0.05, 0.71], [2], "Quel est le taux de fraude ?", **o
    ),
    "compression_family": figures.compression_family,
    "tokens_by_turn": lambda **o: figures.tokens_by_turn(_tokens(), **o),
    "tokens_by_turn_limit": lambda **o: figures.tokens_by_turn(
        {"summary": [9, 40, 80], "extractive": [8, 20, 20]}, 60, **o
    ),
    "tokens_by_turn_log": lambda **o: figures.tokens_by_turn(_tokens(), logarithmic=True, **o),
    "cumulated_cost": lambda **o: figures.cumulated_cost(_tokens(), **o),
    "retention_heatmap": lambda **o: figures.retention_heatmap(_retention(), **o),
    "retention_bars": lambda **o: figures.retention_bars(
        {"buffer": {"gardé": 10}, "window": {"gardé": 3, "perdu": 7}, "summary": {"gardé": 3, "résumé": 7}}, **o
    ),
    "accuracy_against_tokens": lambda **o: figures.accuracy_against_tokens(POINTS, **o),
    "tradeoff_table": lambda **o: figures.tradeoff_table(
        {name: {"fidélité (%)": 100 * y, "tokens moyens": x, "complexité": 3} for name, (x, y) in POINTS.items()},
        ["fidélité (%)"],
        ["complexité"],
        **o,
    ),
    "course_map": figures.course_map,
    "course_map_partial": lambda **o: figures.course_map({1, 2, 3, 4, 5, 9}, **o),
}


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def visible_texts(fig: Figure) -> list[tuple[Text, Any]]:
    """Les textes réellement dessinés, avec leur rectangle en pixels, après un seul rendu comme dans un notebook."""
    fig.canvas.draw()
    hidden = set()
    for ax in fig.axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            hidden |= {
                label
                for t in ticks
                if not ax.axison or not low - 1e-9 <= t.get_loc() <= high + 1e-9
                for label in (t.label1, t.label2)
            }
    renderer = fig.canvas.get_renderer()  # type: ignore[attr-defined]
    found = [t for t in fig.findobj(Text) if t not in hidden and t.get_visible() and t.get_text().strip()]
    return [(t, Text.get_window_extent(t, renderer)) for t in found]


def words_of(fig: Figure) -> str:
    return "\n".join(text.get_text() for text, _ in visible_texts(fig)).replace("\u202f", " ").replace("\u00a0", " ")


@pytest.mark.parametrize("titled", [False, True], ids=["sans titre", "avec titre"])
@pytest.mark.parametrize("name", FIGURES)
def test_every_text_is_readable_and_none_overlaps(name: str, titled: bool) -> None:
    fig, ax = FIGURES[name](title=TITLE) if titled else FIGURES[name]()
    assert isinstance(fig, Figure)
    assert ax in fig.axes
    texts = visible_texts(fig)
    assert texts
    for text, extent in texts:
        assert text.get_fontsize() >= 10, f"texte trop petit : {text.get_text()!r}"
        inside = (
            extent.x0 >= -1 and extent.y0 >= -1 and extent.x1 <= fig.bbox.width + 1 and extent.y1 <= fig.bbox.height + 1
        )
        assert inside, f"texte coupé : {text.get_text()!r}"
    left, bottom, right, top = np.array([extent.extents for _, extent in texts]).T
    width = np.minimum.outer(right, right) - np.maximum.outer(left, left)
    height = np.minimum.outer(top, top) - np.maximum.outer(bottom, bottom)
    clashes = np.argwhere(np.triu((width > 1) & (height > 1), 1))
    names = [(texts[i][0].get_text(), texts[j][0].get_text()) for i, j in clashes]
    assert not names, f"textes qui se recouvrent : {names}"
    assert not any(re.search(r"\d\.\d", text.get_text()) for text, _ in texts), "virgule décimale attendue"
    assert any("message de la figure" in text.get_text().replace("\n", " ") for text, _ in texts) == titled


@pytest.mark.parametrize(
    "name", ["stateless_calls_four", "voice_pipeline", "compression_family", "course_map", "summary_tree"]
)
def test_texts_stay_inside_their_boxes(name: str) -> None:
    fig, ax = FIGURES[name]()
    texts = visible_texts(fig)
    boxes = [patch.get_window_extent() for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    assert boxes
    for text, extent in texts:
        middle = ((extent.x0 + extent.x1) / 2, (extent.y0 + extent.y1) / 2)
        around = [box for box in boxes if box.contains(*middle)]
        if around:
            box = min(around, key=lambda b: b.width * b.height)
            assert box.x0 <= extent.x0 < extent.x1 <= box.x1, f"{text.get_text()!r} déborde de sa boîte"


# Les nombres écrits sur les figures


def test_the_crossing_turn_is_computed_and_written() -> None:
    assert figures.crossing_turn(150, 4096) == 28
    assert figures.crossing_turn(150, 8192) == 55
    assert figures.crossing_turn(100, 1000) == 11  # dix tours tiennent tout juste
    words = words_of(figures.context_growth()[0])
    assert "dépassée au tour 28" in words
    assert "27 tours y tiennent" in words
    assert "tour 55" not in words
    assert "dépassée au tour 14" in words_of(figures.context_growth(tokens_per_turn=300)[0])


def test_the_cumulated_cost_of_ten_exchanges_is_right() -> None:
    fig, ax = figures.cumulated_call_cost()
    words = words_of(fig)
    assert "27 500 tokens" in words
    assert "0,0275 $" in words
    assert "5 000 tokens" in words
    assert "5,5 fois" in words
    assert list(ax.lines[0].get_ydata())[-1] == 27_500


def test_the_cost_per_call_is_summed() -> None:
    words = words_of(figures.cost_per_call([1000, 2000, 3000], price_per_1000=0.002, currency="€")[0])
    assert "6 000 tokens, soit 0,012 €" in words


def test_ratio_curves_follow_the_definition() -> None:
    _, ax = figures.compression_ratio_curves(20, [5])
    buffer, window = (np.asarray(line.get_ydata(), dtype=float) for line in ax.lines[:2])
    assert buffer.tolist() == [1] * 20
    assert window.tolist() == [min(1, 5 / t) for t in range(1, 21)]


def test_the_token_rule_shows_the_median() -> None:
    assert "× 0,40" in words_of(figures.token_rule_error({"JSON": {"Tekken": [0.1, 0.4, 2]}})[0])


def test_truncation_counts_what_is_lost_and_kept() -> None:
    words = words_of(FIGURES["truncation_strip"]()[0])
    assert "2 messages perdus" in words
    assert "105 tokens sur 120" in words


def test_the_window_bound_is_k_times_the_mean_exchange() -> None:
    words = words_of(FIGURES["window_tokens"]()[0])
    assert "borne K s̄ :\n300 tokens" in words
    assert "1 800 tokens" in words


def test_the_turn_of_the_loss_is_named() -> None:
    words = words_of(FIGURES["fact_loss"]()[0])
    assert "fenêtre glissante : le prénom disparaît au tour 6" in words
    assert "mémoire tampon : le prénom reste dans le contexte" in words


def test_window_strip_shows_kept_lost_and_unsaid_cells() -> None:
    fig, _ = figures.window_strip([{0, 1}, {2, 3}])
    glyphs = [t.get_text() for t, _ in visible_texts(fig) if len(t.get_text()) == 1 and not t.get_text().isdigit()]
    assert sorted(glyphs) == sorted("✓✓··✗✗✓✓")


@pytest.mark.parametrize(
    ("without", "with_summary", "expected"),
    [
        ([900] * 12, [1360, *[300] * 11], 2),
        ([100] * 12, [700, *[40] * 11], 11),
        ([100] * 3, [100] * 3, 1),
        ([100] * 3, [300] * 3, None),
        ([10, 1, 30], [5, 20, 1], 3),  # d'abord moins cher, puis plus cher, puis rentable pour de bon
    ],
)
def test_break_even_is_the_first_call_that_pays_for_good(
    without: list[float], with_summary: list[float], expected: int | None
) -> None:
    assert figures.break_even_call(without, with_summary) == expected
    words = words_of(figures.break_even(without, with_summary)[0])
    assert (f"l’appel {expected}" if expected else "pas encore rentable") in words


def test_theoretical_curves_are_not_cumulated_twice() -> None:
    curves = figures.theoretical_tokens()
    assert curves["buffer"][0] == 150
    assert curves["buffer"][-1] == 7_500
    assert curves["window"][-1] == 750
    assert curves["summary"][-1] == 6 * 75 + 160
    assert {len(values) for values in curves.values()} == {50}


def test_the_last_value_is_written_on_each_curve() -> None:
    words = words_of(figures.tokens_by_turn({"buffer": [100, 1234], "window": [100, 90]})[0])
    assert "mémoire tampon : 1 234" in words
    assert "fenêtre glissante : 90" in words


def test_cumulated_cost_sums_then_prices() -> None:
    assert "0,0300 $" in words_of(figures.cumulated_cost({"buffer": [10_000, 20_000]})[0])


def test_retention_bars_count_each_state() -> None:
    words = words_of(FIGURES["retention_bars"]()[0])
    for expected in ("10 gardés", "3 gardés\n7 perdus", "3 gardés\n7 résumés"):
        assert expected in words


def test_the_pareto_line_joins_only_undominated_points() -> None:
    points = {"buffer": (100, 1.0), "window": (20, 0.5), "summary": (90, 0.4), "hybrid": (50, 0.9)}
    _, ax = figures.accuracy_against_tokens({name: (float(x), y) for name, (x, y) in points.items()})
    corners = {(float(x), float(y)) for x, y in np.asarray(ax.lines[0].get_xydata())}
    assert {(20, 50), (50, 90), (100, 100)} <= corners
    assert (90, 40) not in corners


def test_the_best_of_each_column_is_starred() -> None:
    rows = {"buffer": {"fidélité": 1.0, "tokens": 900}, "window": {"fidélité": 0.5, "tokens": 300}}
    words = words_of(figures.tradeoff_table(rows, ["fidélité"], ["fidélité"])[0])
    assert "1 ★" in words
    assert "300 ★" in words
    assert "900 ★" not in words
    assert "fidélité *" in words


def test_absent_chapters_are_announced() -> None:
    assert "à paraître" in words_of(FIGURES["course_map_partial"]()[0])
    assert "à paraître" not in words_of(figures.course_map()[0])


# Le style commun


@pytest.mark.parametrize(
    ("value", "decimals", "expected"),
    [
        (1234.5, None, "1 234,5"),
        (1234.5, 2, "1 234,50"),
        (27500, None, "27 500"),
        (-0.05, 2, "−0,05"),
        (0.0275, None, "0,0275"),
        (-0.0, None, "0"),
    ],
)
def test_numbers_are_written_in_french(value: float, decimals: int | None, expected: str) -> None:
    assert figures.french_number(value, decimals) == expected.replace(" ", "\u202f")


def test_each_strategy_has_its_own_look() -> None:
    looks = list(style.STRATEGIES.values())
    assert len({look.color for look in looks}) == len(looks)
    assert len({(look.marker, look.linestyle) for look in looks}) == len(looks)
    assert len({look.marker for look in looks}) == len(looks)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("window", "window"),
        ("Fenêtre glissante", "window"),
        ("fenêtre glissante K = 3", "window"),
        ("SlidingWindowMemory", "window"),
        ("résumé", "summary"),
        ("résumé glissant", "rolling"),
        ("résumé hiérarchique", "tree"),
        ("tampon", "buffer"),
    ],
)
def test_a_strategy_is_known_by_key_label_or_class(name: str, key: str) -> None:
    assert figures.strategy_style(name).color == figures.STRATEGY_COLORS[key]


def test_an_unknown_strategy_keeps_its_name_and_a_stable_look() -> None:
    assert figures.strategy_style("ma mémoire").label == "ma mémoire"
    assert figures.strategy_style("ma mémoire") == figures.strategy_style("ma mémoire")


@pytest.mark.parametrize("color", style.STRATEGY_COLORS.values())
def test_label_colours_contrast_with_the_background(color: str) -> None:
    assert style.contrast(style.readable(color), style.BACKGROUND) >= 4.5


@pytest.mark.parametrize("status", style.STATUSES)
def test_status_signs_differ_and_contrast(status: str) -> None:
    look = style.STATUSES[status]
    assert [s.glyph for s in style.STATUSES.values()].count(look.glyph) == 1
    assert status == "à venir" or style.contrast(look.ink, look.fill) >= 4.5


def test_spread_keeps_order_distance_and_bounds() -> None:
    placed = style.spread([0.5, 0.5, 0.52, 0.98], 0.1, 0.0, 1.0)
    assert all(b - a >= 0.1 - 1e-9 for a, b in pairwise(placed))
    assert min(placed) >= 0
    assert max(placed) <= 1
    assert style.spread([0.9, 0.1], 0.1, 0, 1) == pytest.approx([0.9, 0.1])


def test_use_style_sets_the_course_look() -> None:
    with plt.rc_context():
        figures.use_style()
        assert plt.rcParams["figure.facecolor"] == style.BACKGROUND
        assert plt.rcParams["font.size"] >= 11


# Les erreurs

BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: figures.context_growth(0), "turns"),
    (lambda: figures.context_growth(tokens_per_turn=-1), "tokens_per_turn"),
    (lambda: figures.cumulated_call_cost(price_per_1000=0), "price_per_1000"),
    (lambda: figures.stateless_calls(9), "de 1 à 4"),
    (lambda: figures.compression_ratio_curves(windows=[0]), "windows"),
    (lambda: figures.token_rule_error({}), "genre de texte"),
    (lambda: figures.token_rule_error({"JSON": {"Tekken": [0.0]}}), "positifs"),
    (lambda: figures.cost_per_call([]), "non vide"),
    (lambda: figures.cost_per_call([10], [20]), "dépasser"),
    (lambda: figures.cost_per_call([10], [1, 2]), "autant de valeurs"),
    (lambda: figures.truncation_strip([10], [True, False], 5), "une valeur par message"),
    (lambda: figures.window_strip([]), "au moins un contexte"),
    (lambda: figures.window_strip([{5}]), "au tour 1"),
    (lambda: figures.window_tokens([1, 2], [1], 1), "autant de tours"),
    (lambda: figures.fact_loss({}), "au moins un état"),
    (lambda: figures.fact_loss({"a": [True], "b": [True, False]}), "même longueur"),
    (lambda: figures.priority_budget({"tour 1": {"inconnue": 3}}), "Classe inconnue"),
    (lambda: figures.rolling_sawtooth([1, 2], [], 4, 4), "inférieur"),
    (lambda: figures.rolling_sawtooth([1, 2], [7]), "hors des messages"),
    (lambda: figures.break_even([1], [1, 2]), "autant d'appels"),
    (lambda: figures.entity_timeline({"budget": [(9, "a"), (2, "b")]}, 10), "croissants"),
    (lambda: figures.entity_timeline({}, 10), "au moins un attribut"),
    (lambda: figures.summary_tree({"session": {}}), "un thème par session"),
    (lambda: figures.selection_bars(["a"], [2.0], []), "de −1 à 1"),
    (lambda: figures.selection_bars(["a"], [0.2], [3]), "hors de"),
    (lambda: figures.tokens_by_turn({}), "au moins une stratégie"),
    (lambda: figures.tokens_by_turn({"buffer": [1], "window": [1, 2]}), "autant de tours"),
    (lambda: figures.tokens_by_turn({"buffer": [float("nan")]}), "finis"),
    (lambda: figures.tokens_by_turn({"buffer": [-1]}), "négatifs"),
    (lambda: figures.tokens_by_turn({"buffer": ["a"]}), "suite de nombres"),  # type: ignore[list-item]
    (lambda: figures.theoretical_tokens(turns=0), "turns"),
    (lambda: figures.retention_heatmap({"fait": ["oublié"]}), "état inconnu"),
    (lambda: figures.retention_bars({"a": {"gardé": 1}, "b": {"gardé": 2}}), "même longueur"),
    (lambda: figures.accuracy_against_tokens({"a": (10, 85)}), "de 0 à 1"),
    (lambda: figures.tradeoff_table({"a": {"x": 1}, "b": {"y": 1}}), "mêmes axes"),
    (lambda: figures.tradeoff_table({"a": {"x": 1}}, ["z"]), "Axe inconnu"),
    (lambda: figures.course_map({42}), "chapitres inconnus"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_data_is_refused_in_french(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_shortening_keeps_non_breaking_spaces() -> None:
    assert style.shorten("Bonjour\u00a0!  Ça\nva\u00a0?", 40) == "Bonjour\u00a0! Ça va\u00a0?"
    assert style.shorten("un deux trois", 8) == "un deux…"
