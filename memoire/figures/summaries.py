"""Figures des chapitres 4 et 5 : résumés, seuil de rentabilité, entités, arbre de résumé, sélection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from memoire.figures import style as st


def rolling_sawtooth(
    buffered: Sequence[int], calls: Sequence[int], max_turns: int = 12, keep_last: int = 6, *, title: str | None = None
) -> tuple[Figure, Axes]:
    """Trace la dent de scie du résumé glissant : les messages en attente et les appels au résumeur.

    Args:
        buffered: nombre de messages gardés mot pour mot après chaque ajout.
        calls: numéros (à partir de 1) des messages qui ont déclenché un appel au résumeur.
        max_turns: nombre de messages au-delà duquel on résume.
        keep_last: nombre de messages gardés après un résumé.
        title: titre de la figure.

    Raises:
        ValueError: série vide, `keep_last` non inférieur à `max_turns`, ou appel hors de la série.
    """
    sizes = st.as_series(buffered, "buffered")
    st.require(
        0 <= keep_last < max_turns, f"« keep_last » ({keep_last}) doit être inférieur à « max_turns » ({max_turns})."
    )
    outside = [call for call in calls if not 1 <= call <= len(sizes)]
    st.require(not outside, f"« calls » : {outside} hors des messages 1 à {len(sizes)}.")
    look = st.strategy_style("rolling")
    fig, ax = st.new_axes(3.7, title)
    numbers = np.arange(1, len(sizes) + 1)
    ax.step(numbers, sizes, where="post", color=look.color)
    ax.fill_between(numbers, sizes, step="post", color=st.tint(look.color, 0.2))
    ends = [(float(len(sizes)), float(max_turns), f"max_turns\u00a0=\u00a0{max_turns}", st.VERMILION)]
    ends.append((float(len(sizes)), float(keep_last), f"keep_last\u00a0=\u00a0{keep_last}", st.BLUE))
    for _, level, _, color in ends:
        ax.axhline(level, color=color, linestyle="--", linewidth=1.6)
    for call in calls:
        ax.plot([call], [sizes[call - 1]], marker="v", markersize=10, color=st.INK, zorder=5)
        st.write(ax, call, sizes[call - 1] - 0.07 * max_turns, st.french_number(call), ha="center", va="top")
    if calls:
        text = f"▼ {st.plural(len(calls), 'appel')} au résumeur, au numéro du message qui le déclenche"
        ax.set_title(text, loc="left", fontsize=st.SMALL, fontweight="normal")
    ax.set_xlim(1, len(sizes))
    ax.set_ylim(0, 1.12 * max(max_turns, sizes.max()))
    st.french_axis(ax.xaxis, integer=True)
    st.french_axis(ax.yaxis, integer=True)
    ax.set_xlabel("message ajouté")
    ax.set_ylabel("messages gardés\nmot pour mot")
    st.label_ends(ax, ends)
    return fig, ax


def break_even_call(without: Sequence[float], with_summary: Sequence[float]) -> int | None:
    """Donne le premier appel à partir duquel le résumé est rentable, ou `None` s'il ne l'est pas.

    Args:
        without: tokens payés à chaque appel, sans résumé.
        with_summary: tokens payés à chaque appel, coût des résumés compris.

    Raises:
        ValueError: séries vides ou de longueurs différentes.
    """
    plain, summarised = st.as_series(without, "without"), st.as_series(with_summary, "with_summary")
    st.require(len(plain) == len(summarised), "Les deux séries doivent avoir autant d'appels.")
    ahead = np.cumsum(summarised) > np.cumsum(plain)
    if ahead[-1]:
        return None
    worse = np.flatnonzero(ahead)
    return int(worse[-1]) + 2 if worse.size else 1


def break_even(
    without: Sequence[float], with_summary: Sequence[float], *, title: str | None = None
) -> tuple[Figure, Axes]:
    """Trace les tokens cumulés avec et sans résumé, et l'appel où les courbes se croisent.

    Args:
        without: tokens payés à chaque appel, sans résumé.
        with_summary: tokens payés à chaque appel, coût des résumés compris.
        title: titre de la figure.

    Raises:
        ValueError: séries vides ou de longueurs différentes.
    """
    crossing = break_even_call(without, with_summary)
    fig, ax = st.new_axes(title=title)
    ends = []
    totals = {}
    for name, values, text in (("buffer", without, "sans résumé"), ("summary", with_summary, "avec résumé")):
        totals[name] = np.cumsum(st.as_series(values, name))
        style = st.strategy_style(name)
        st.plot_series(ax, totals[name], style)
        label = f"{text} :\n{st.plural(round(totals[name][-1]), 'token')}"
        ends.append((float(len(totals[name])), float(totals[name][-1]), label, style.color))
    st.turn_axis(ax, len(totals["buffer"]), "appel au modèle")
    ax.set_ylim(0, 1.08 * max(values[-1] for values in totals.values()))
    ax.set_ylabel("tokens cumulés")
    if crossing is None:
        st.write(ax, 0.03, 0.97, "le résumé n’est pas encore rentable", transform=ax.transAxes, va="top")
    else:
        ax.axvline(crossing, color=st.BLUE, linestyle=":", linewidth=1.8)
        early = crossing < 0.55 * len(totals["buffer"])
        text = f"rentable dès\nl’appel {crossing}"
        options = {"va": "top", "ha": "left" if early else "right", "color": st.readable(st.BLUE)}
        gap = 0.015 * len(totals["buffer"]) * (1 if early else -1)
        st.write(ax, crossing + gap, 0.98 * ax.get_ylim()[1], text, **options)
    st.label_ends(ax, ends)
    return fig, ax


def entity_timeline(
    history: Mapping[str, Sequence[tuple[int, str]]], turns: int, *, title: str | None = None
) -> tuple[Figure, Axes]:
    """Montre l'histoire des attributs suivis : la valeur courante en plein, les anciennes hachurées.

    Args:
        history: attribut -> couples (tour, valeur) dans l'ordre, comme `EntityRegister.history`.
        turns: dernier tour de la conversation.
        title: titre de la figure.

    Raises:
        ValueError: aucun attribut, histoire vide, tours hors de 1 à `turns` ou non croissants.
    """
    st.require(bool(history), "« history » : au moins un attribut est attendu.")
    fig, ax = st.new_axes(1.5 + 0.55 * len(history), title, grid="x")
    color = st.strategy_style("entities").color
    for line, (name, values) in enumerate(history.items()):
        starts = [turn for turn, _ in values]
        valid = bool(starts) and starts == sorted(starts) and starts[0] >= 1 and starts[-1] <= turns
        st.require(valid, f"« history » : pour « {name} », des tours croissants de 1 à {turns} sont attendus.")
        for (start, value), end in zip(values, [*starts[1:], turns + 1], strict=True):
            current = end == turns + 1
            style = {"facecolor": st.tint(color, 0.85 if current else 0.12), "edgecolor": st.readable(color)}
            hatch = None if current else "//"
            ax.barh(line, end - start, left=start, height=0.64, hatch=hatch, linewidth=1.2, **style)  # type: ignore[arg-type]
            text = st.wrap(str(value), (end - start) / turns * 5.4, lines=1)
            halo = {"facecolor": style["facecolor"], "edgecolor": "none", "pad": 1.5}
            st.write(ax, (start + end) / 2, line, text, ha="center", va="center", bbox=halo)
    ax.set_xlim(1, turns + 1)
    ax.set_ylim(len(history) - 0.5, -0.5)
    ax.set_yticks(range(len(history)), list(history))
    every = max(1, round(turns / 10))
    shown = range(1, turns + 1, every)
    ax.set_xticks([turn + 0.5 for turn in shown], [st.french_number(turn) for turn in shown])
    ax.set_xlabel("tour de conversation")
    edge = st.readable(color)
    handles = [
        Patch(facecolor=st.tint(color, 0.85), edgecolor=edge, label="valeur courante"),
        Patch(facecolor=st.tint(color, 0.12), edgecolor=edge, hatch="//", label="ancienne valeur, gardée en histoire"),
    ]
    fig.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=st.SMALL, frameon=False)
    return fig, ax


def summary_tree(
    tree: Mapping[str, Mapping[str, Sequence[str]]], *, max_facts: int = 4, title: str | None = None
) -> tuple[Figure, Axes]:
    """Dessine un résumé hiérarchique : session, puis thèmes, puis faits.

    Args:
        tree: session -> thème -> faits.
        max_facts: nombre de faits dessinés par thème ; les suivants sont comptés.
        title: titre de la figure.

    Raises:
        ValueError: arbre sans session, ou session sans thème.
    """
    st.require(bool(tree) and all(tree.values()), "« tree » : il faut au moins une session, et un thème par session.")
    columns = ((0.12, 1.3), (1.85, 1.55), (3.85, 3.03))
    line, gap = 0.2, 0.16
    blocks: list[tuple[str, list[tuple[str, list[str]]]]] = []
    for session, themes in tree.items():
        shown = []
        for theme, facts in themes.items():
            texts = [st.wrap(fact, columns[2][1] - 0.2, lines=2) for fact in facts[:max_facts]]
            if len(facts) > max_facts:
                texts.append(f"+ {st.plural(len(facts) - max_facts, 'autre')}")
            shown.append((theme, texts or ["(aucun fait)"]))
        blocks.append((session, shown))
    fact_height = [[[0.14 + line * (t.count("\n") + 1) for t in texts] for _, texts in shown] for _, shown in blocks]
    height = 0.5 + sum(sum(heights) + 0.06 * len(heights) + gap for session in fact_height for heights in session)
    fig, ax = st.canvas(height, title)
    top = height - 0.12
    for (x, width), name in zip(columns, ("session", "thème", "fait"), strict=True):
        st.write(ax, x + width / 2, top, name, ha="center", va="top", fontweight="bold", color=st.MUTED)
    top -= 0.34
    fills = [st.tint(color, 0.3) for color in (st.BLUE, st.ORANGE, st.GREEN)]
    for (session, shown), session_heights in zip(blocks, fact_height, strict=True):
        start, theme_middles = top, []
        for (theme, texts), heights in zip(shown, session_heights, strict=True):
            theme_top, fact_middles = top, []
            for text, size in zip(texts, heights, strict=True):
                st.box(
                    ax, columns[2][0], top - size, columns[2][1], size, text, fill=fills[2], edge=st.GREEN, align="left"
                )
                fact_middles.append(top - size / 2)
                top -= size + 0.06
            middle = (theme_top + top + 0.06) / 2
            theme_middles.append(middle)
            _node(ax, columns[1], middle, theme, fills[1], st.ORANGE)
            _branches(ax, columns[1], columns[2], middle, fact_middles)
            top -= gap
        middle = (start + top + gap + 0.06) / 2
        _node(ax, columns[0], middle, session, fills[0], st.BLUE)
        _branches(ax, columns[0], columns[1], middle, theme_middles)
    return fig, ax


def _node(ax: Axes, column: tuple[float, float], middle: float, text: str, fill: str, edge: str) -> None:
    wrapped = st.wrap(text, column[1] - 0.12, lines=2)
    height = 0.18 + 0.2 * (wrapped.count("\n") + 1)
    st.box(ax, column[0], middle - height / 2, column[1], height, wrapped, fill=fill, edge=edge)


def _branches(
    ax: Axes, parent: tuple[float, float], child: tuple[float, float], y: float, children: Sequence[float]
) -> None:
    right, left = parent[0] + parent[1], child[0]
    elbow = (right + left) / 2
    for target in children:
        ax.plot([right, elbow, elbow, left], [y, y, target, target], color=st.MUTED, linewidth=1.3, zorder=1)


def selection_bars(
    texts: Sequence[str],
    similarities: Sequence[float],
    chosen: Sequence[int],
    question: str | None = None,
    *,
    title: str | None = None,
) -> tuple[Figure, Axes]:
    """Montre la sélection par plongements : similarité de chaque message à la question, choisis marqués.

    Args:
        texts: messages, dans l'ordre chronologique (le premier en haut).
        similarities: similarité cosinus de chaque message avec la question, de −1 à 1.
        chosen: indices des messages choisis.
        question: la question posée, rappelée au-dessus des barres.
        title: titre de la figure.

    Raises:
        ValueError: listes vides ou de longueurs différentes, similarité hors de [−1, 1], indice hors de la liste.
    """
    st.require(
        bool(texts) and len(texts) == len(similarities),
        "Il faut autant de similarités que de messages, et au moins un.",
    )
    values = np.asarray(similarities, dtype=float)
    st.require(bool((np.abs(values) <= 1.0001).all()), "« similarities » : des nombres de −1 à 1 sont attendus.")
    outside = [index for index in chosen if not 0 <= index < len(texts)]
    st.require(not outside, f"« chosen » : indices {outside} hors de 0 à {len(texts) - 1}.")
    fig, ax = st.new_axes(1.2 + 0.36 * len(texts) + (0.3 if question else 0), title, grid="x")
    look, kept = st.strategy_style("selection"), set(chosen)
    for line, value in enumerate(values):
        picked = line in kept
        fill = st.GREEN if picked else st.tint(look.color, 0.3)
        ax.barh(line, value, height=0.7, facecolor=fill, edgecolor=st.GREEN if picked else look.color)
        sign = "✓" if picked else "✗"
        text = f"{sign} {st.french_number(float(value), 2)}"
        color = st.readable(st.GREEN) if picked else st.MUTED
        weight = "bold" if picked else "normal"
        st.write(ax, max(value, 0) + 0.01, line, text, va="center", color=color, fontweight=weight)
    ax.set_yticks(range(len(texts)), [f"{st.shorten(text, 38)}  {i + 1}" for i, text in enumerate(texts)])
    ax.set_ylim(len(texts) - 0.5, -0.5)
    ax.set_xlim(min(0.0, 1.1 * values.min()), max(values.max(), 0.1) * 1.3 + 0.02)
    ax.set_xlabel("similarité avec la question")
    if question:
        text = f"«\u00a0{st.shorten(question, 70)}\u00a0»"
        ax.set_title(text, loc="right", fontsize=st.SMALL, fontweight="normal", fontstyle="italic")
    return fig, ax


def compression_family(*, title: str | None = None) -> tuple[Figure, Axes]:
    """Dessine la famille des compressions de contexte : ce que chacune garde de l'historique.

    Args:
        title: titre de la figure.
    """
    families = (
        ("entities", "Extraction d’entités", "personnes, organisations,\nsujets, lieux"),
        ("summary", "Suivi d’entités", "la valeur courante,\nl’histoire des anciennes"),
        ("tree", "Résumé hiérarchique", "session > thème > fait"),
        ("selection", "Sélection par plongements", "les messages proches\nde la question"),
    )
    height, gap = 0.62, 0.14
    total = len(families) * (height + gap) + 0.42
    fig, ax = st.canvas(total, title)
    middle = (total - 0.3) / 2
    st.box(ax, 0.12, middle - 0.45, 1.05, 0.9, "Historique\nHₜ", fill=st.PALE, bold=True)
    st.box(ax, 5.92, middle - 0.45, 0.96, 0.9, "Contexte\nCₜ", fill=st.PALE, bold=True)
    st.write(ax, 2.45, total - 0.1, "transformation", ha="center", va="top", color=st.MUTED, fontweight="bold")
    st.write(ax, 4.62, total - 0.1, "ce qui reste", ha="center", va="top", color=st.MUTED, fontweight="bold")
    for rank, (key, name, result) in enumerate(families):
        y = total - 0.38 - (rank + 1) * height - rank * gap
        color = st.STRATEGY_COLORS[key]
        center = y + height / 2
        st.box(ax, 1.55, y, 1.8, height, name.replace(" ", "\n", 1), fill=st.tint(color, 0.3), edge=color, bold=True)
        st.box(ax, 3.58, y, 2.06, height, result, fill=st.BACKGROUND, edge=color)
        st.arrow(ax, [(1.17, middle), (1.36, middle), (1.36, center), (1.54, center)])
        st.arrow(ax, [(3.35, center), (3.57, center)])
        ax.plot([5.64, 5.78, 5.78], [center, center, middle], color=st.MUTED, linewidth=1.5, zorder=2)
    st.arrow(ax, [(5.78, middle), (5.91, middle)])
    return fig, ax
