"""Figures des chapitres 6 et 8 : mémoire hiérarchique, repli d'un modèle à l'autre, tableau de bord."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from memoire.costs import LONG_CONVERSATION
from memoire.figures import style as st


def dashboard(
    exchanges: Sequence[int],
    costs: Sequence[float],
    fallbacks: Mapping[str, int],
    currency: str = "€",
    *,
    usual_cost: tuple[float, float] | None = (0.01, 0.03),
    usual_fallbacks: tuple[float, float] | None = (2, 3),
    title: str | None = None,
) -> tuple[Figure, list[Axes]]:
    """Trace le tableau de bord : échanges et coût d'une conversation, replis par semaine.

    Args:
        exchanges: nombre d'échanges de chaque conversation (par exemple `metrics.exchanges.values()`).
        costs: coût de chaque conversation, en `currency`.
        fallbacks: semaine -> nombre de replis, dans l'ordre.
        currency: symbole de la monnaie.
        usual_cost: fourchette attendue du coût, marquée d'une bande.
        usual_fallbacks: fourchette attendue des replis par semaine, marquée d'une bande.
        title: titre de la figure.

    Returns:
        La figure, et ses trois cadres dans cet ordre.

    Raises:
        ValueError: une série est vide ou contient autre chose que des nombres positifs ou nuls.
    """
    counts, amounts = st.as_series(exchanges, "exchanges"), st.as_series(costs, "costs")
    weekly = st.as_series(fallbacks.values(), "fallbacks")
    fig, (talk, money, weeks) = st.new_panels([["1", "2"], ["3", "3"]], 6.4, title)

    longest = max(int(counts.max()), LONG_CONVERSATION + 2)
    heights = np.bincount(counts.astype(int), minlength=longest + 1)
    colors = [st.VERMILION if n > LONG_CONVERSATION else st.BLUE for n in range(longest + 1)]
    hatches = ["///" if n > LONG_CONVERSATION else "" for n in range(longest + 1)]
    talk.bar(range(longest + 1), heights, color=[st.tint(c, 0.55) for c in colors], edgecolor=colors, hatch=hatches)
    share = st.french_number(100 * float(np.mean(counts > LONG_CONVERSATION)), 1)
    talk.set_xlim(-0.7, longest + 0.7)
    st.french_axis(talk.xaxis, integer=True)
    talk.set_xlabel("échanges d’une conversation")
    _head(
        talk,
        f"{st.french_number(float(counts.mean()), 1)} échanges en moyenne\nplus de {LONG_CONVERSATION} : {share} %",
    )

    top = 1.02 * max(float(amounts.max()), usual_cost[1] if usual_cost else 0.0) or 1.0
    money.hist(amounts, bins=np.linspace(0, top, 16).tolist(), color=st.tint(st.ORANGE, 0.6), edgecolor=st.ORANGE)
    money.set_xlim(0, top)
    money.set_xlabel(f"coût d’une conversation ({currency})")
    money.xaxis.set_major_locator(MaxNLocator(4))
    mean = st.french_number(float(amounts.mean()), 4)
    inside = ""
    if usual_cost:
        money.axvspan(*usual_cost, color=st.tint(st.GREEN, 0.25), zorder=0)
        low, high = (st.french_number(bound) for bound in usual_cost)
        inside = f"\nbande : de {low} à {high}\u00a0{currency}"
    _head(money, f"{mean}\u00a0{currency} en moyenne{inside}")

    places = np.arange(len(weekly))
    weeks.bar(places, weekly, width=0.62, color=st.tint(st.PURPLE, 0.55), edgecolor=st.PURPLE)
    for place, value in enumerate(weekly):
        if len(weekly) <= 20:
            st.write(
                weeks, place, value + 0.03 * max(weekly.max(), 1), st.french_number(value), ha="center", va="bottom"
            )
    every = -(-len(weekly) // 8)
    weeks.set_xticks(places[::every], [_week_name(name) for name in list(fallbacks)[::every]])
    weeks.set_xlim(-0.7, len(weekly) - 0.3)
    weeks.set_ylim(0, 1.2 * max(weekly.max(), usual_fallbacks[1] if usual_fallbacks else 0, 1))
    weeks.set_xlabel("semaine")
    inside = ""
    if usual_fallbacks:
        weeks.axhspan(*usual_fallbacks, color=st.tint(st.GREEN, 0.25), zorder=0)
        inside = f" ; bande : de {' à '.join(map(st.french_number, usual_fallbacks))}"
    _head(weeks, f"{st.french_number(float(weekly.mean()), 1)} replis par semaine en moyenne{inside}")
    for ax, label in ((talk, "conversations"), (money, "conversations"), (weeks, "replis")):
        st.french_axis(ax.yaxis, integer=True)
        ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.set_ylabel(label)
    return fig, [talk, money, weeks]


def _head(ax: Axes, text: str) -> None:
    """Écrit le chiffre à lire en tête d'un cadre."""
    ax.set_title(text, fontsize=st.SMALL, fontweight="bold", pad=7)


def _week_name(name: str) -> str:
    """Abrège une semaine ISO : « 2025-W03 » devient « S03 »."""
    return "S" + name.partition("-W")[2] if "-W" in name else name


def hierarchical_flow(*, title: str | None = None) -> tuple[Figure, Axes]:
    """Dessine le trajet d'une requête dans la mémoire hiérarchique, et ce qui y revient.

    Args:
        title: titre de la figure.
    """
    fig, ax = st.canvas(3.5, title)
    color = st.STRATEGY_COLORS["hierarchical"]
    width, high, low, tall = 1.5, 1.98, 0.3, 0.98
    columns = (0.12, 1.85, 3.58, 5.31)
    memories = (
        ("Mémoire\nde travail", "session en cours", st.BLUE),
        ("Mémoire\népisodique", "sessions passées", st.ORANGE),
        ("Mémoire\nsémantique", "faits stables", st.GREEN),
    )
    st.box(ax, columns[0], high, width, tall, "Requête", fill=st.PALE, bold=True)
    for x, (name, content, tone) in zip(columns[1:], memories, strict=True):
        st.box(ax, x, high, width, tall, f"{name}\n{content}", fill=st.tint(tone, 0.28), edge=tone)
    below = (("Réponse", st.PALE), ("LLM", st.tint(color, 0.2)), ("Contexte\nenrichi", st.tint(color, 0.2)))
    for x, (name, fill) in zip((columns[0], columns[1], columns[3]), below, strict=True):
        st.box(ax, x, low, width, 0.62, name, fill=fill, bold=True)
    middle, floor = high + tall / 2, low + 0.31
    for left, right in pairwise(columns):
        st.arrow(ax, [(left + width, middle), (right, middle)])
    st.arrow(ax, [(columns[3] + width / 2, high), (columns[3] + width / 2, low + 0.62)])
    st.arrow(ax, [(columns[3], floor), (columns[1] + width, floor)])
    st.arrow(ax, [(columns[1], floor), (columns[0] + width, floor)])
    back = low + 1.12
    start, end = columns[0] + width / 2, columns[1] + width / 2
    st.arrow(ax, [(start, low + 0.62), (start, back), (end, back), (end, high)], color=st.BLUE)
    options = {"ha": "center", "va": "center", "color": st.MUTED}
    st.write(ax, (start + end) / 2, back - 0.17, "l’échange y entre", **options)
    top = high + tall + 0.2
    for x in columns[2:]:
        path = [(end, high + tall), (end, top), (x + width / 2, top), (x + width / 2, high + tall)]
        st.arrow(ax, path)
    st.write(
        ax,
        (columns[2] + columns[3] + width) / 2 - 0.87,
        top + 0.14,
        "fin de session : un épisode et des faits",
        **options,
    )
    return fig, ax


def fallback_flow(*, title: str | None = None) -> tuple[Figure, Axes]:
    """Dessine ce que fait `FallbackLLM` de chaque réponse d'un modèle.

    Args:
        title: titre de la figure.
    """
    rows = (
        ("200, texte complet", "réponse à l’utilisateur", st.GREEN),
        ("429, attente courte", "attente, un nouvel essai", st.SKY),
        ("429, attente longue ou inconnue", "modèle suivant, alerte", st.ORANGE),
        ("503, délai, réponse illisible", "modèle suivant, alerte", st.ORANGE),
        ("autre 4xx", "erreur, sans réessayer", st.VERMILION),
    )
    step = 0.58
    height = step * len(rows) + 0.5
    fig, ax = st.canvas(height, title)
    middle = (height - 0.3) / 2
    st.box(ax, 0.12, middle - 0.4, 1.15, 0.8, "Appel au\nmodèle", fill=st.PALE, bold=True)
    options = {"ha": "center", "va": "top", "color": st.MUTED, "fontweight": "bold"}
    st.write(ax, 3.1, height - 0.1, "le service répond", **options)
    st.write(ax, 5.62, height - 0.1, "l’application", **options)
    for rank, (event, action, color) in enumerate(rows):
        y = height - 0.42 - (rank + 1) * step + 0.08
        center = y + 0.23
        st.arrow(ax, [(1.27, middle), (1.5, middle), (1.5, center), (1.72, center)])
        st.box(ax, 1.74, y, 2.72, 0.46, event, edge=color)
        st.arrow(ax, [(4.46, center), (4.7, center)])
        st.box(ax, 4.72, y, 2.16, 0.46, action, fill=st.tint(color, 0.3), edge=color)
    return fig, ax
