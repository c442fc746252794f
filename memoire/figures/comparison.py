"""Figures du chapitre 9 : tokens, rétention, exactitude, coûts et compromis des stratégies comparées."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullFormatter

from memoire.figures import style as st
from memoire.simulation import pareto_front


def tokens_by_turn(
    tokens: Mapping[str, Sequence[float]],
    limit: float | None = None,
    *,
    logarithmic: bool = False,
    title: str | None = None,
) -> tuple[Figure, Axes]:
    """Trace les tokens du contexte à chaque tour, une courbe par stratégie.

    Args:
        tokens: stratégie -> tokens du contexte après chaque tour (par exemple `result.tokens`).
        limit: budget ou fenêtre de contexte, en tokens, marqué d'un trait.
        logarithmic: échelle logarithmique, pour séparer les petites mémoires.
        title: titre de la figure.

    Raises:
        ValueError: aucune stratégie, série vide ou séries de longueurs différentes.
    """
    fig, ax = _curves(tokens, "tokens", logarithmic, title)
    ax.set_ylabel("tokens du contexte")
    if limit is not None:
        st.positive(limit, "limit")
        ax.set_ylim(top=max(ax.get_ylim()[1], 1.1 * limit))
        ax.axhline(limit, color=st.VERMILION, linestyle="--", linewidth=1.6)
        text = f"limite : {st.plural(limit, 'token')}"
        options = {
            "color": st.readable(st.VERMILION),
            "va": "bottom",
            "bbox": {"facecolor": st.BACKGROUND, "edgecolor": "none", "pad": 1},
        }
        st.write(ax, ax.get_xlim()[0] + 0.5, limit, text, **options)
    _label_finals(ax, tokens, {name: st.french_number(round(values[-1])) for name, values in tokens.items()})
    return fig, ax


def cumulated_cost(
    tokens: Mapping[str, Sequence[float]],
    price_per_1000: float = 0.001,
    currency: str = "$",
    *,
    title: str | None = None,
) -> tuple[Figure, Axes]:
    """Trace le coût cumulé des contextes envoyés au modèle, une courbe par stratégie.

    Args:
        tokens: stratégie -> tokens payés à chaque tour (le cumul est fait ici).
        price_per_1000: prix de mille tokens, en `currency`.
        currency: symbole de la monnaie.
        title: titre de la figure.

    Raises:
        ValueError: aucune stratégie, séries de longueurs différentes, ou prix qui n'est pas positif.
    """
    st.positive(price_per_1000, "price_per_1000")
    costs = {name: np.cumsum(st.as_series(t, name)) * price_per_1000 / 1000 for name, t in tokens.items()}
    fig, ax = _curves({name: list(values) for name, values in costs.items()}, "tokens", False, title)
    ax.set_ylabel(f"coût cumulé ({currency})")
    _label_finals(ax, costs, {name: f"{st.french_number(v[-1], 4)}\u00a0{currency}" for name, v in costs.items()})
    return fig, ax


def theoretical_tokens(
    turns: int = 50,
    tokens_per_message: float = 75,
    window_size: int = 5,
    max_recent: int = 6,
    summary_tokens: float = 160,
) -> dict[str, list[float]]:
    """Calcule la taille théorique du contexte après chaque tour (un tour : deux messages).

    Tampon : tous les messages. Fenêtre : les `window_size` derniers échanges. Résumé : les `max_recent`
    derniers messages, et un résumé borné dès qu'un message est sorti.

    Args:
        turns: nombre de tours.
        tokens_per_message: taille d'un message, en tokens.
        window_size: nombre K d'échanges de la fenêtre.
        max_recent: nombre de messages que la mémoire à résumé garde mot pour mot.
        summary_tokens: taille du résumé, en tokens (160 pour 120 mots).

    Returns:
        Stratégie (« buffer », « window », « summary ») -> tokens après chaque tour, sans cumul.

    Raises:
        ValueError: un nombre n'est pas strictement positif.
    """
    numbers = {"turns": turns, "tokens_per_message": tokens_per_message, "window_size": window_size}
    for name, value in (numbers | {"max_recent": max_recent, "summary_tokens": summary_tokens}).items():
        st.positive(value, name)
    messages = 2 * np.arange(1, turns + 1)
    summary = tokens_per_message * np.minimum(messages, max_recent) + summary_tokens * (messages > max_recent)
    return {
        "buffer": [float(v) for v in tokens_per_message * messages],
        "window": [float(v) for v in tokens_per_message * np.minimum(messages, 2 * window_size)],
        "summary": [float(v) for v in summary],
    }


def retention_heatmap(retention: Mapping[str, Sequence[str]], *, title: str | None = None) -> tuple[Figure, Axes]:
    """Montre ce que devient chaque fait à chaque tour : gardé, résumé, perdu ou à venir.

    Args:
        retention: fait -> un état par tour (par exemple `result.retention["buffer"]`).
        title: titre de la figure.

    Raises:
        ValueError: tableau vide ou irrégulier, ou état inconnu.
    """
    rows = st.as_statuses(retention.values(), "retention")
    fig, ax = st.new_axes(1.35 + 0.29 * len(rows), title)
    st.draw_cells(ax, rows, fontsize=10)
    st.column_numbers(ax, range(1, len(rows[0]) + 1), "tour de conversation")
    st.row_names(ax, [st.shorten(fact, 26) for fact in retention])
    st.status_legend(ax, [status for row in rows for status in row])
    return fig, ax


def retention_bars(counts: Mapping[str, Mapping[str, int]], *, title: str | None = None) -> tuple[Figure, Axes]:
    """Montre, pour chaque stratégie, combien des derniers échanges sont perdus, résumés et gardés.

    Args:
        counts: stratégie -> état -> nombre d'échanges (par exemple `result.exchange_counts(name)`).
        title: titre de la figure.

    Raises:
        ValueError: aucune stratégie, état inconnu, ou totaux différents selon les stratégies.
    """
    order = ("perdu", "résumé", "gardé")
    unknown = sorted({status for row in counts.values() for status in row} - set(order))
    st.require(not unknown, f"« counts » : état inconnu {unknown!r} ; états acceptés : {', '.join(order)}.")
    rows = st.as_statuses(([s for s in order for _ in range(row.get(s, 0))] for row in counts.values()), "counts")
    fig, ax = st.new_axes(1.5 + 0.56 * len(rows), title)
    st.draw_cells(ax, rows)
    st.column_numbers(ax, range(1, len(rows[0]) + 1), f"nombre d’échanges, sur les {len(rows[0])} derniers")
    st.row_names(ax, [st.strategy_style(name).label for name in counts])
    for line, row in enumerate(rows):
        text = "\n".join(f"{n} {s}{'s' if n > 1 else ''}" for s in reversed(order) if (n := row.count(s)))
        st.write(ax, len(row) + 0.15, line + 0.5, text, va="center", fontsize=10)
    st.status_legend(ax, [status for row in rows for status in row])
    return fig, ax


def accuracy_against_tokens(
    points: Mapping[str, tuple[float, float]], *, title: str | None = None
) -> tuple[Figure, Axes]:
    """Place chaque stratégie selon sa taille et son exactitude, et trace le front de Pareto.

    Args:
        points: stratégie -> (tokens moyens du contexte, part de bonnes réponses de 0 à 1).
        title: titre de la figure.

    Raises:
        ValueError: aucune stratégie, tokens négatifs ou exactitude hors de 0 à 1.
    """
    st.as_series([tokens for tokens, _ in points.values()], "points")
    st.require(all(0 <= share <= 1 for _, share in points.values()), "« points » : exactitude de 0 à 1 attendue.")
    front = pareto_front(points)
    fig, ax = st.new_axes(4.8, title, grid="both")
    path = [(points[front[0]][0], 100 * points[front[0]][1])]
    for x, share in (points[name] for name in front[1:]):
        path += [(x, path[-1][1]), (x, 100 * share)]
    dashes: dict[str, Any] = {"color": st.MUTED, "linestyle": "--", "linewidth": 1.6}
    ax.plot(*zip(*path, strict=True), zorder=2, **dashes)
    labels = []
    for name, (x, share) in points.items():
        style, first = st.strategy_style(name), name in front
        edge: dict[str, Any] = {"markeredgecolor": st.INK, "markeredgewidth": 1.4 if first else 0.5}
        ax.plot([x], [100 * share], style.marker, color=style.color, markersize=12 if first else 9, zorder=4, **edge)
        labels.append((float(x), 100.0 * share, style.label, style.color))
    ax.set_xlim(0, 1.2 * max(x for x, _ in points.values()) or 1)
    ax.set_ylim(max(-4.0, 100 * min(share for _, share in points.values()) - 12), 107)
    st.french_axis(ax.yaxis, "%")
    ax.set_xlabel("tokens du contexte, en moyenne")
    ax.set_ylabel("réponses exactes")
    note = "front de Pareto : on ne peut y gagner sur un axe sans perdre sur l’autre"
    fig.legend([Line2D([], [], **dashes)], [note], loc="outside lower center", fontsize=st.SMALL, frameon=False)
    st.label_points(ax, labels, path)
    return fig, ax


def tradeoff_table(
    rows: Mapping[str, Mapping[str, float]],
    higher_is_better: Collection[str] = (),
    judged: Collection[str] = (),
    decimals: Mapping[str, int] | None = None,
    *,
    title: str | None = None,
) -> tuple[Figure, Axes]:
    """Dessine le tableau des compromis : une stratégie par ligne, un axe par colonne, le meilleur plus foncé.

    Args:
        rows: stratégie -> axe -> valeur ; les mêmes axes pour toutes.
        higher_is_better: axes où une grande valeur est bonne ; pour les autres, une petite.
        judged: axes notés par jugement et non mesurés, signalés par un astérisque.
        decimals: axe -> nombre de décimales.
        title: titre de la figure.

    Raises:
        ValueError: aucune ligne, axes différents selon les lignes, ou axe inconnu dans les options.
    """
    st.require(bool(rows), "« rows » : au moins une stratégie est attendue.")
    columns = list(next(iter(rows.values())))
    st.require(
        all(list(row) == columns for row in rows.values()), "« rows » : toutes les lignes doivent avoir les mêmes axes."
    )
    unknown = sorted({*higher_is_better, *judged, *(decimals or {})} - set(columns))
    st.require(not unknown, f"Axe inconnu {unknown!r} ; axes du tableau : {', '.join(columns)}.")
    fig, ax = st.new_axes(1.0 + 0.42 * len(rows), title, grid="")
    for column, axis in enumerate(columns):
        values = np.array([row[axis] for row in rows.values()], dtype=float)
        span = np.ptp(values) or 1.0
        merits = (values - values.min()) / span
        merits = merits if axis in higher_is_better else 1 - merits
        for line, (value, merit) in enumerate(zip(values, merits, strict=True)):
            fill = st.tint(st.BLUE, 0.06 + 0.84 * float(merit))
            ax.add_patch(Rectangle((column + 0.02, line + 0.04), 0.96, 0.92, facecolor=fill, edgecolor="none"))
            best = bool(np.ptp(values)) and merit == 1
            text = st.french_number(float(value), (decimals or {}).get(axis)) + (" ★" if best else "")
            ink = st.INK if st.contrast(st.INK, fill) > st.contrast("#FFFFFF", fill) else "#FFFFFF"
            weight = "bold" if best else "normal"
            st.write(ax, column + 0.5, line + 0.5, text, ha="center", va="center", color=ink, fontweight=weight)
    ax.set_xlim(0, len(columns))
    ax.set_ylim(len(rows), 0)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.xaxis.tick_top()
    width = 4.6 / len(columns)
    heads = [st.wrap(axis + ("\u00a0*" if axis in judged else ""), width) for axis in columns]
    ax.set_xticks([i + 0.5 for i in range(len(columns))], heads)
    st.row_names(ax, [st.strategy_style(name).label for name in rows])
    notes = "★ meilleure valeur de la colonne" + ("     * jugé, non mesuré" if judged else "")
    ax.set_xlabel(notes, fontsize=st.SMALL, color=st.MUTED)
    return fig, ax


def _curves(
    series: Mapping[str, Sequence[float]], name: str, logarithmic: bool, title: str | None
) -> tuple[Figure, Axes]:
    st.require(bool(series), f"« {name} » : au moins une stratégie est attendue.")
    arrays = {key: st.as_series(values, key) for key, values in series.items()}
    lengths = {len(values) for values in arrays.values()}
    st.require(len(lengths) == 1, f"« {name} » : toutes les séries doivent avoir autant de tours.")
    fig, ax = st.new_axes(max(4.2, 1.2 + 0.36 * len(arrays)), title)
    for key, values in arrays.items():
        st.plot_series(ax, values, st.strategy_style(key))
    st.turn_axis(ax, lengths.pop())
    top = max(values.max() for values in arrays.values())
    if logarithmic:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_minor_formatter(NullFormatter())
        st.french_axis(ax.yaxis)
    else:
        ax.set_ylim(0, 1.06 * top if top else 1)
    return fig, ax


def _label_finals(ax: Axes, series: Mapping[str, Sequence[float] | np.ndarray], finals: Mapping[str, str]) -> None:
    labels = []
    for name, values in series.items():
        style = st.strategy_style(name)
        labels.append((float(len(values)), float(values[-1]), f"{style.label} : {finals[name]}", style.color))
    st.label_ends(ax, labels)
