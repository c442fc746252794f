"""Figures du chapitre 3 : fenêtre glissante, oubli du prénom, budget par priorité, assistant vocal."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from memoire.figures import style as st

PRIORITY_PARTS: dict[str, tuple[str, str]] = {
    "système": (st.BLACK, ""),
    "derniers échanges": (st.BLUE, "//"),
    "outils": (st.ORANGE, "xx"),
    "résumé": (st.VERMILION, "++"),
    "intermédiaires": (st.SKY, ".."),
    "anciens": (st.GREY, "\\\\"),
    "écartés": ("#B0B0B0", ""),
}


def window_strip(
    contexts: Sequence[Collection[int]],
    turns: Sequence[int] | None = None,
    *,
    messages_per_turn: int = 2,
    title: str | None = None,
) -> tuple[Figure, Axes]:
    """Montre la fenêtre qui glisse : une ligne par tour, une cellule par message.

    Args:
        contexts: pour chaque ligne, indices (à partir de 0) des messages présents dans le contexte.
        turns: numéros des tours des lignes ; par défaut 1, 2, 3…
        messages_per_turn: nombre de messages par tour.
        title: titre de la figure.

    Raises:
        ValueError: aucune ligne, ou un message présent avant d'avoir été dit.
    """
    st.require(bool(contexts), "« contexts » : au moins un contexte est attendu.")
    st.positive(messages_per_turn, "messages_per_turn")
    numbers = list(turns) if turns is not None else list(range(1, len(contexts) + 1))
    st.require(len(numbers) == len(contexts), "« turns » : il faut un numéro de tour par contexte.")
    count = max(numbers) * messages_per_turn
    rows: list[list[str]] = []
    for turn, context in zip(numbers, contexts, strict=True):
        said = turn * messages_per_turn
        early = sorted(index for index in context if not 0 <= index < said)
        st.require(not early, f"« contexts » : au tour {turn}, les indices {early} ne sont pas entre 0 et {said - 1}.")
        rows.append(["à venir" if i >= said else "gardé" if i in context else "perdu" for i in range(count)])
    fig, ax = st.new_axes(1.35 + 0.34 * len(rows), title)
    st.draw_cells(ax, rows)
    st.column_numbers(ax, range(1, count + 1), "message")
    st.row_names(ax, [f"tour {turn}" for turn in numbers])
    for line, row in enumerate(rows):
        kept = [i for i, status in enumerate(row) if status == "gardé"]
        if kept:
            frame = Rectangle((kept[0], line + 0.02), kept[-1] + 1 - kept[0], 0.96)
            frame.set(facecolor="none", edgecolor=st.INK, linewidth=1.8)
            ax.add_patch(frame)
    names = {"gardé": "dans la fenêtre", "perdu": "sorti, perdu", "à venir": "pas encore dit"}
    st.status_legend(ax, [status for row in rows for status in row], names)
    return fig, ax


def window_tokens(
    buffer_tokens: Sequence[float],
    window_tokens: Sequence[float],
    window_size: int,
    *,
    title: str | None = None,
) -> tuple[Figure, Axes]:
    """Oppose la croissance linéaire du tampon à la fenêtre, qui reste près de la borne K s̄.

    Args:
        buffer_tokens: tokens du contexte de la mémoire tampon après chaque tour.
        window_tokens: tokens du contexte de la fenêtre glissante après chaque tour.
        window_size: nombre K d'échanges gardés.
        title: titre de la figure.

    Raises:
        ValueError: séries vides ou de longueurs différentes, `window_size` négatif ou nul.
    """
    full, short = st.as_series(buffer_tokens, "buffer_tokens"), st.as_series(window_tokens, "window_tokens")
    st.require(len(full) == len(short), "Les deux séries doivent avoir autant de tours.")
    st.positive(window_size, "window_size")
    mean = full[-1] / len(full)
    bound = window_size * mean
    fig, ax = st.new_axes(title=title)
    buffer, window = st.strategy_style("buffer"), st.strategy_style("window")
    st.plot_series(ax, full, buffer)
    st.plot_series(ax, short, window)
    ax.axhline(bound, color=st.VERMILION, linestyle=":", linewidth=1.8)
    st.turn_axis(ax, len(full))
    ax.set_ylim(0, 1.06 * max(full.max(), bound))
    ax.set_ylabel("tokens du contexte")
    ends = [
        (len(full), full[-1], f"mémoire tampon :\n{st.plural(round(full[-1]), 'token')}", buffer.color),
        (len(full), bound, f"borne K\u00a0s̄ :\n{st.plural(round(bound), 'token')}", st.VERMILION),
        (
            len(full),
            short[-1],
            f"fenêtre K\u00a0=\u00a0{window_size} :\n{st.plural(round(short[-1]), 'token')}",
            window.color,
        ),
    ]
    st.label_ends(ax, [(float(x), float(y), text, color) for x, y, text, color in ends])
    return fig, ax


def fact_loss(
    present: Mapping[str, Sequence[bool]], fact: str = "le prénom", *, title: str | None = None
) -> tuple[Figure, Axes]:
    """Montre le tour exact où un fait sort du contexte, pour une ou plusieurs mémoires.

    Args:
        present: nom de la mémoire -> pour chaque tour, vrai si le fait est dans le contexte.
        fact: le fait suivi, tel qu'il est nommé dans l'annotation.
        title: titre de la figure.

    Raises:
        ValueError: aucune mémoire, ou des nombres de tours différents.
    """
    rows = [["gardé" if here else "perdu" for here in values] for values in present.values()]
    rows = st.as_statuses(rows, "present")
    fig, ax = st.new_axes(1.7 + 0.62 * len(rows), title)
    st.draw_cells(ax, rows)
    st.column_numbers(ax, range(1, len(rows[0]) + 1), "tour de conversation")
    st.row_names(ax, [st.strategy_style(name).label for name in present])
    notes = []
    for name, row in zip(present, rows, strict=True):
        turn = next((i + 1 for i in range(1, len(row)) if row[i] == "perdu" and row[i - 1] == "gardé"), None)
        label = st.strategy_style(name).label
        notes.append(f"{label} : {fact} " + (f"disparaît au tour {turn}" if turn else "reste dans le contexte"))
        if turn:
            line = len(notes) - 1
            ax.plot([turn - 1, turn - 1], [line - 0.04, line + 1.04], color=st.INK, linewidth=2.6)
    ax.set_ylim(len(rows), -0.1)
    ax.set_title("\n".join(notes), loc="left", fontsize=st.SMALL, fontweight="normal", linespacing=1.4)
    names = {"gardé": "dans le contexte", "perdu": "absent du contexte"}
    st.status_legend(ax, [status for row in rows for status in row], names)
    return fig, ax


def priority_budget(
    contexts: Mapping[str, Mapping[str, float]], max_tokens: float | None = None, *, title: str | None = None
) -> tuple[Figure, Axes]:
    """Montre comment un budget se partage entre les classes de priorité.

    Args:
        contexts: nom de la ligne (« tour 8 ») -> classe -> tokens. Classes : système, derniers échanges,
            outils, résumé, intermédiaires, anciens, écartés (hors du contexte, à droite).
        max_tokens: budget, en tokens, marqué d'un trait.
        title: titre de la figure.

    Raises:
        ValueError: aucune ligne, classe inconnue ou nombre négatif.
    """
    st.require(bool(contexts), "« contexts » : au moins une ligne est attendue.")
    unknown = sorted({part for row in contexts.values() for part in row} - PRIORITY_PARTS.keys())
    st.require(not unknown, f"Classe inconnue {unknown!r} ; classes acceptées : {', '.join(PRIORITY_PARTS)}.")
    fig, ax = st.new_axes(1.55 + 0.5 * len(contexts), title, grid="x")
    limit = max_tokens or 0
    longest = max(
        max(limit, sum(row.values()) - row.get("écartés", 0)) + row.get("écartés", 0) for row in contexts.values()
    )
    for line, (name, row) in enumerate(contexts.items()):
        st.as_series(row.values(), name)
        left = 0.0
        for part, (color, hatch) in PRIORITY_PARTS.items():
            size = row.get(part, 0)
            dropped = part == "écartés"
            left = max(left, limit) if dropped else left
            fill = st.BACKGROUND if dropped else color if part == "système" else st.tint(color, 0.5)
            edge = st.VERMILION if dropped else color
            border = "--" if dropped else "-"
            if size:
                options = {"height": 0.66, "facecolor": fill, "edgecolor": edge, "linestyle": border}
                ax.barh(line, size, left=left, hatch=hatch, linewidth=1.1, **options)  # type: ignore[arg-type]
            if dropped and size > 0.07 * longest:
                text = f"✗ {st.french_number(round(size))}"
                st.write(ax, left + size / 2, line, text, ha="center", va="center", color=st.STATUSES["perdu"].ink)
            left += size
    if max_tokens is not None:
        st.positive(max_tokens, "max_tokens")
        ax.plot([max_tokens] * 2, [-0.42, len(contexts) - 0.5], color=st.INK, linestyle="--", linewidth=1.8)
        text = f"budget : {st.plural(max_tokens, 'token')}"
        st.write(ax, max_tokens, -0.45, text, ha="center", va="bottom")
    ax.set_xlim(0, 1.02 * longest)
    ax.set_ylim(len(contexts) - 0.5, -0.9 if max_tokens else -0.5)
    ax.set_yticks(range(len(contexts)), list(contexts))
    ax.set_xlabel("tokens")
    handles = [
        Patch(
            facecolor=st.BACKGROUND if part == "écartés" else color if part == "système" else st.tint(color, 0.5),
            edgecolor=st.VERMILION if part == "écartés" else color,
            linestyle="--" if part == "écartés" else "-",
            hatch=hatch,
            label=part,
        )
        for part, (color, hatch) in PRIORITY_PARTS.items()
        if any(row.get(part) for row in contexts.values())
    ]
    fig.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=st.SMALL, frameon=False, handleheight=1.1)
    return fig, ax


def voice_pipeline(*, title: str | None = None) -> tuple[Figure, Axes]:
    """Dessine la chaîne d'un assistant vocal : l'historique ne vit que dans la couche texte, côté serveur.

    Args:
        title: titre de la figure.
    """
    fig, ax = st.canvas(3.0, title)
    st.box(ax, 1.3, 0.12, 4.4, 2.76, fill=st.tint(st.BLUE, 0.07), edge=st.BLUE, back=True)
    st.write(
        ax, 3.5, 2.68, "Serveur : couche texte", ha="center", va="center", fontweight="bold", color=st.readable(st.BLUE)
    )
    boxes = [
        (0.12, "Micro\n(audio)", st.PALE),
        (1.48, "Audio\n→ texte", st.tint(st.BLUE, 0.25)),
        (2.95, "Modèle\n(LLM)", st.tint(st.ORANGE, 0.35)),
        (4.42, "Texte\n→ audio", st.tint(st.BLUE, 0.25)),
        (5.82, "Écouteur\n(audio)", st.PALE),
    ]
    width, y, height = 1.06, 1.6, 0.8
    for x, text, fill in boxes:
        st.box(ax, x, y, width, height, text, fill=fill)
    for (x, _, _), (following, _, _) in itertools.pairwise(boxes):
        st.arrow(ax, [(x + width + 0.02, y + height / 2), (following - 0.02, y + height / 2)])
    text = "Historique : invite système, messages,\nappels d’outils et leurs résultats"
    st.box(ax, 1.78, 0.3, 3.4, 0.72, text, fill=st.tint(st.GREEN, 0.25), edge=st.GREEN)
    st.arrow(ax, [(3.48, 1.04), (3.48, 1.58)], both=True)
    return fig, ax
