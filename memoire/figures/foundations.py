"""Figures des chapitres 1 et 2 : appels sans état, croissance du contexte, coûts, tokens, troncature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator

from memoire.figures import style as st

_PART_COLORS = (st.BLUE, st.ORANGE, st.GREEN, st.PURPLE)
_HATCHES = ("", "///", "...", "xxx")


def crossing_turn(tokens_per_turn: float, limit: float) -> int:
    """Donne le premier tour où un contexte qui grandit de `tokens_per_turn` dépasse `limit` tokens.

    Args:
        tokens_per_turn: taille moyenne d'un échange, en tokens.
        limit: taille de la fenêtre de contexte, en tokens.

    Raises:
        ValueError: un des deux nombres n'est pas strictement positif.
    """
    st.positive(tokens_per_turn, "tokens_per_turn")
    st.positive(limit, "limit")
    return floor(limit / tokens_per_turn) + 1


def context_growth(
    turns: int = 50,
    tokens_per_turn: float = 150,
    windows: Sequence[int] = (4096, 8192),
    *,
    title: str | None = None,
) -> tuple[Figure, Axes]:
    """Trace la croissance linéaire de l'historique et le tour où il dépasse chaque fenêtre de contexte.

    Args:
        turns: nombre de tours.
        tokens_per_turn: taille d'un échange, en tokens.
        windows: tailles des fenêtres de contexte, en tokens.
        title: titre de la figure.

    Raises:
        ValueError: un nombre n'est pas strictement positif.
    """
    st.positive(turns, "turns")
    crossings = {window: crossing_turn(tokens_per_turn, window) for window in windows}
    fig, ax = st.new_axes(title=title)
    sizes = tokens_per_turn * np.arange(1, turns + 1)
    st.plot_series(ax, sizes, st.strategy_style("buffer"))
    st.turn_axis(ax, turns)
    ax.set_ylim(0, 1.14 * max([sizes[-1], *windows]))
    ax.set_ylabel("tokens du contexte")
    for window, color in zip(windows, (st.VERMILION, st.BLUE, st.PURPLE, st.GREEN), strict=False):
        ax.axhline(window, color=color, linestyle="--", linewidth=1.8)
        name = f"fenêtre : {st.french_number(window)} tokens"
        st.write(ax, 1, window + 0.015 * ax.get_ylim()[1], name, color=st.readable(color), va="bottom")
        turn = crossings[window]
        if turn <= turns:
            ax.plot([turn], [turn * tokens_per_turn], "o", color=color, markersize=10, zorder=5)
            text = f"dépassée au tour {turn}\n({st.plural(turn - 1, 'tour')} y tiennent)"
            st.point_out(ax, (turn, turn * tokens_per_turn), text, (86, -30), color=st.readable(color))
    label = f"historique :\n{st.french_number(tokens_per_turn)} tokens\npar tour"
    st.label_ends(ax, [(turns, sizes[-1], label, st.BLACK)])
    return fig, ax


def cumulated_call_cost(
    exchanges: int = 10,
    tokens_per_exchange: float = 500,
    price_per_1000: float = 0.001,
    currency: str = "$",
    *,
    title: str | None = None,
) -> tuple[Figure, Axes]:
    """Trace les tokens traités à chaque appel et leur cumul, quadratique, quand tout est renvoyé.

    Args:
        exchanges: nombre d'échanges de la conversation.
        tokens_per_exchange: taille d'un échange, en tokens.
        price_per_1000: prix de mille tokens traités, en `currency`.
        currency: symbole de la monnaie.
        title: titre de la figure.

    Raises:
        ValueError: un nombre n'est pas strictement positif.
    """
    for name, value in (("exchanges", exchanges), ("tokens_per_exchange", tokens_per_exchange)):
        st.positive(value, name)
    st.positive(price_per_1000, "price_per_1000")
    numbers = np.arange(1, exchanges + 1)
    sent = tokens_per_exchange * numbers
    total = np.cumsum(sent)
    fig, ax = st.new_axes(title=title)
    ax.bar(numbers, sent, width=0.62, color=st.tint(st.BLUE, 0.55), edgecolor=st.BLUE)
    ax.plot(numbers, total, color=st.VERMILION, marker="o")
    ratio = st.french_number(total[-1] / (tokens_per_exchange * exchanges), 1)
    note = f"en moyenne, un échange coûte\n{ratio} fois un échange isolé"
    st.write(ax, 0.03, 0.97, note, transform=ax.transAxes, va="top")
    st.turn_axis(ax, exchanges, "échange")
    ax.set_ylim(0, 1.1 * total[-1])
    ax.set_ylabel("tokens traités")
    price = st.french_number(total[-1] * price_per_1000 / 1000)
    ends = [
        (exchanges, total[-1], f"cumul :\n{st.plural(total[-1], 'token')}\nsoit {price}\u00a0{currency}", st.VERMILION),
        (exchanges, sent[-1], f"dernier appel :\n{st.plural(sent[-1], 'token')}", st.BLUE),
    ]
    st.label_ends(ax, ends)
    return fig, ax


def stateless_calls(calls: int = 3, *, title: str | None = None) -> tuple[Figure, Axes]:
    """Dessine des appels sans état : à chaque appel, l'application renvoie tout l'historique au modèle.

    Args:
        calls: nombre d'appels dessinés, de 1 à 4.
        title: titre de la figure.

    Raises:
        ValueError: `calls` est hors de 1 à 4.
    """
    st.require(1 <= calls <= 4, f"« calls » : reçu {calls!r}, un entier de 1 à 4 est attendu.")
    side, gap = 0.4, 0.62
    height = gap * calls + 1.2
    fig, ax = st.canvas(height, title)
    st.box(ax, 0.12, 0.5, 4.75, height - 0.62, fill=st.tint(st.BLUE, 0.07), edge=st.BLUE, back=True)
    heading = {"fontweight": "bold", "va": "center"}
    st.write(ax, 0.27, height - 0.34, "Application : elle garde l’historique", color=st.readable(st.BLUE), **heading)
    st.write(ax, 6.13, height - 0.34, "Modèle : sans état", ha="center", **heading)
    for call in range(1, calls + 1):
        y = height - 0.5 - gap * call
        st.write(ax, 0.27, y + side / 2, f"appel {call}", va="center")
        for position in range(2 * call - 1):
            exchange, is_answer = position // 2, position % 2 == 1
            new = position == 2 * call - 2
            edge = st.GREEN if is_answer else st.BLUE
            fill, color = (edge, "#FFFFFF") if new else (st.tint(edge, 0.28), st.INK)
            name = ("a" if is_answer else "r") + "₁₂₃₄"[exchange]
            st.box(ax, 1.0 + position * (side + 0.09), y, side, side, name, fill=fill, edge=edge, color=color)
        st.arrow(ax, [(1.0 + (2 * call - 1) * (side + 0.09), y + side / 2), (5.44, y + side / 2)])
        st.box(ax, 5.46, y, 0.72, side, "LLM", fill=st.PALE, bold=True)
        st.arrow(ax, [(6.19, y + side / 2), (6.44, y + side / 2)])
        st.box(ax, 6.46, y, side, side, "a" + "₁₂₃₄"[call - 1], fill=st.GREEN, edge=st.GREEN, color="#FFFFFF")
    handles = [
        Patch(facecolor=st.BLUE, edgecolor=st.BLUE, label="nouvelle requête"),
        Patch(facecolor=st.tint(st.BLUE, 0.28), edgecolor=st.BLUE, label="déjà envoyé, renvoyé"),
        Patch(facecolor=st.GREEN, edgecolor=st.GREEN, label="réponse"),
    ]
    ax.legend(handles=handles, loc="lower left", ncols=3, fontsize=st.SMALL, handlelength=1.2, frameon=False)
    return fig, ax


def compression_ratio_curves(
    turns: int = 50, windows: Sequence[int] = (5, 10), *, title: str | None = None
) -> tuple[Figure, Axes]:
    """Trace le taux de compression ρ : 1 pour la mémoire tampon, min(1, K/t) pour une fenêtre de K échanges.

    Args:
        turns: nombre de tours.
        windows: valeurs de K, en échanges.
        title: titre de la figure.

    Raises:
        ValueError: un nombre n'est pas strictement positif.
    """
    for name, value in [("turns", turns), *(("windows", k) for k in windows)]:
        st.positive(value, name)
    fig, ax = st.new_axes(title=title)
    numbers = np.arange(1, turns + 1)
    st.plot_series(ax, np.ones(turns), st.strategy_style("buffer"))
    ends = [(float(turns), 1.0, "mémoire tampon :\nρ\u00a0=\u00a01", st.BLACK)]
    window = st.strategy_style("window")
    shades = (window.color, st.SKY, st.DEEP, st.PLUM)
    for k, color, marker in zip(windows, shades, ("s", "D", "^", "v"), strict=False):
        ratios = np.minimum(1, k / numbers)
        ax.plot(numbers, ratios, color=color, linestyle="--", marker=marker, markevery=max(1, turns // 8))
        text = f"fenêtre K\u00a0=\u00a0{k} :\nρ\u00a0=\u00a0{st.french_number(ratios[-1], 2)} au tour {turns}"
        ends.append((float(turns), float(ratios[-1]), text, color))
    st.turn_axis(ax, turns)
    ax.set_ylim(0, 1.08)
    ax.set_ylabel("taux de compression ρ")
    st.label_ends(ax, ends)
    return fig, ax


def token_rule_error(
    ratios: Mapping[str, Mapping[str, Sequence[float]]], *, title: str | None = None
) -> tuple[Figure, Axes]:
    """Compare la règle `len(texte) // 4` à de vrais tokenizers, par genre de texte.

    Chaque barre part de 1 (règle exacte) et va à la médiane des rapports estimation / compte réel ;
    le trait fin va du plus petit au plus grand rapport mesuré.

    Args:
        ratios: genre de texte -> tokenizer -> rapports mesurés, un par texte.
        title: titre de la figure.

    Raises:
        ValueError: aucun rapport, ou un rapport qui n'est pas strictement positif.
    """
    st.require(bool(ratios), "« ratios » : au moins un genre de texte est attendu.")
    tokenizers = list(dict.fromkeys(name for group in ratios.values() for name in group))
    st.require(
        0 < len(tokenizers) <= len(_PART_COLORS), f"« ratios » : de 1 à {len(_PART_COLORS)} tokenizers attendus."
    )
    thickness = 0.8 / len(tokenizers)
    fig, ax = st.new_axes(1.5 + len(ratios) * (0.34 + 0.22 * len(tokenizers)), title, grid="x")
    for row, (kind, group) in enumerate(ratios.items()):
        for name, values in group.items():
            rank = tokenizers.index(name)
            measured = st.as_series(values, f"ratios, {kind}, {name}")
            st.require(bool((measured > 0).all()), f"« ratios » : les rapports de « {kind} » doivent être positifs.")
            low, middle, high = np.log2([measured.min(), np.median(measured), measured.max()])
            y = row + (rank - (len(tokenizers) - 1) / 2) * thickness
            color, hatch = _PART_COLORS[rank], _HATCHES[rank]
            fill = st.tint(color, 0.5)
            ax.barh(y, middle, height=0.86 * thickness, facecolor=fill, edgecolor=color, hatch=hatch, linewidth=1)
            ax.plot([low, high], [y, y], color=st.INK, linewidth=1.4, marker="|", markersize=7)
            right = max(high, 0.0) + 0.06
            st.write(ax, right, y, f"×\u00a0{st.french_number(2**middle, 2)}", va="center", fontsize=10.5)
    ax.axvline(0, color=st.INK, linewidth=1.4)
    left, right = ax.get_xlim()
    left, right = min(left, -1.05), max(right, 1.05)
    ax.set_xlim(left, right + 0.28)
    ticks = [value for value in (0.125, 0.25, 0.5, 1, 2, 4, 8) if left <= np.log2(value) <= right]
    ax.xaxis.set_major_locator(FixedLocator([float(np.log2(value)) for value in ticks]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels([f"×\u00a0{st.french_number(value)}" for value in ticks])
    ax.set_xlabel("estimation / compte réel (échelle logarithmique)")
    for text, side in (("← la règle sous-estime", "left"), ("elle surestime →", "right")):
        ax.set_title(text, loc=side, fontsize=st.SMALL, fontweight="normal")  # type: ignore[arg-type]
    ax.set_yticks(range(len(ratios)), list(ratios))
    ax.invert_yaxis()
    handles: list[Patch | Line2D] = [
        Patch(facecolor=st.tint(_PART_COLORS[i], 0.5), edgecolor=_PART_COLORS[i], hatch=_HATCHES[i], label=name)
        for i, name in enumerate(tokenizers)
    ]
    handles.append(Line2D([], [], color=st.INK, marker="|", markersize=8, linewidth=1.4, label="du minimum au maximum"))
    fig.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=st.SMALL, frameon=False)
    return fig, ax


def cost_per_call(
    sent: Sequence[float],
    new: Sequence[float] | None = None,
    price_per_1000: float = 0.001,
    currency: str = "$",
    *,
    title: str | None = None,
) -> tuple[Figure, Axes]:
    """Montre les tokens envoyés à chaque appel d'un chatbot qui renvoie tout l'historique.

    Args:
        sent: tokens envoyés à chaque appel (par exemple `[r.input_tokens for r in bot.replies]`).
        new: parmi eux, tokens du dernier message de l'utilisateur ; le reste a déjà été envoyé.
        price_per_1000: prix de mille tokens envoyés, en `currency`.
        currency: symbole de la monnaie.
        title: titre de la figure.

    Raises:
        ValueError: série vide, ou `new` d'une autre longueur que `sent` ou plus grand que lui.
    """
    totals = st.as_series(sent, "sent")
    st.positive(price_per_1000, "price_per_1000")
    fresh = st.as_series(new, "new") if new is not None else np.zeros(len(totals))
    st.require(len(fresh) == len(totals), "« new » : il faut autant de valeurs que d'appels dans « sent ».")
    st.require(bool((fresh <= totals).all()), "« new » : une part ne peut pas dépasser le total envoyé.")
    fig, ax = st.new_axes(title=title)
    numbers = np.arange(1, len(totals) + 1)
    old = totals - fresh
    ax.bar(numbers, old, width=0.66, color=st.tint(st.BLACK, 0.3), edgecolor=st.MUTED, label="déjà envoyés, renvoyés")
    if new is not None:
        ax.bar(numbers, fresh, width=0.66, bottom=old, color=st.BLUE, edgecolor=st.BLUE, hatch="//", label="nouveaux")
        fig.legend(loc="outside lower center", ncols=2, fontsize=st.SMALL, frameon=False)
    shown = {0, len(totals) // 2, len(totals) - 1}
    for index in sorted(shown):
        text = st.french_number(totals[index], 0)
        st.write(ax, index + 1, totals[index] + 0.015 * totals.max(), text, ha="center", va="bottom")
    ax.set_xlim(0.4, len(totals) + 0.6)
    ax.set_ylim(0, 1.22 * totals.max())
    st.french_axis(ax.xaxis, integer=True)
    ax.set_xlabel("appel au modèle")
    ax.set_ylabel("tokens envoyés")
    price = st.french_number(totals.sum() * price_per_1000 / 1000)
    summary = f"cumul : {st.plural(round(totals.sum()), 'token')}, soit {price}\u00a0{currency}"
    st.write(ax, 0.02, 0.97, summary, transform=ax.transAxes, va="top", fontweight="bold")
    return fig, ax


def truncation_strip(
    tokens: Sequence[float], kept: Sequence[bool], max_tokens: int, *, title: str | None = None
) -> tuple[Figure, Axes]:
    """Montre quels messages restent et lesquels partent quand la mémoire tampon tronque.

    Args:
        tokens: taille de chaque message, du plus ancien au plus récent.
        kept: pour chaque message, vrai s'il est encore dans le contexte.
        max_tokens: budget de la mémoire, en tokens.
        title: titre de la figure.

    Raises:
        ValueError: liste vide, longueurs différentes ou budget qui n'est pas strictement positif.
    """
    sizes = st.as_series(tokens, "tokens")
    st.require(len(sizes) == len(kept), "« kept » : il faut une valeur par message.")
    st.positive(max_tokens, "max_tokens")
    fig, ax = st.new_axes(2.5, title, grid="")
    edges = np.concatenate([[0.0], np.cumsum(sizes)])
    total = edges[-1]
    for index, size in enumerate(sizes):
        look = st.STATUSES["gardé" if kept[index] else "perdu"]
        ax.barh(0, size, left=edges[index], height=0.8, color=look.fill, edgecolor=st.BACKGROUND, linewidth=2)
        middle = edges[index] + size / 2
        st.write(ax, middle, 0, look.glyph, ha="center", va="center", color=look.ink)
    remaining = float(sizes[np.array(kept, dtype=bool)].sum())
    limit = Line2D([], [], color=st.INK, linestyle="--", linewidth=1.6)
    if total > max_tokens:
        ax.axvline(total - max_tokens, color=st.INK, linestyle="--", linewidth=1.6)
    ax.set_ylim(-0.5, 0.5)
    ax.set_xlim(0, total)
    ax.set_yticks([])
    ax.spines[["left"]].set_visible(False)
    ax.set_xlabel("tokens depuis le début de la conversation")
    lost = len(kept) - sum(map(bool, kept))
    lead = f"{st.plural(lost, 'message')} perdu{'s' if lost > 1 else ''}"
    rest = f"gardés : {st.plural(remaining, 'token')} sur {st.french_number(max_tokens)} permis"
    for text, side, color in ((lead, "left", st.STATUSES["perdu"].ink), (rest, "right", st.STATUSES["gardé"].fill)):
        ax.set_title(text, loc=side, fontsize=st.SMALL, fontweight="normal", color=color)  # type: ignore[arg-type]
    st.status_legend(ax, ["gardé", "perdu"], extra=[(limit, f"les {st.french_number(max_tokens)} derniers tokens")])
    return fig, ax
