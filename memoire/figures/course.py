"""Carte du cours, pour la page d'accueil : les dix chapitres, leurs parties et leurs prérequis."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memoire.figures import style as st


@dataclass(frozen=True, slots=True)
class Chapter:
    """Un chapitre du cours, sa place sur la carte (colonne, ligne) et les chapitres à lire avant."""

    number: int
    name: str
    column: int
    row: int
    requires: tuple[int, ...] = ()


CHAPTERS = (
    Chapter(1, "Le problème de la mémoire", 0, 0),
    Chapter(2, "Mémoire tampon", 0, 1, (1,)),
    Chapter(3, "Fenêtre glissante", 0, 2, (2,)),
    Chapter(4, "Résumé de conversation", 1, 0, (3,)),
    Chapter(5, "Compression de contexte", 1, 1, (4,)),
    Chapter(6, "Mémoire à long terme", 2, 0, (5,)),
    Chapter(7, "Mémoire hybride et RAG", 2, 1, (6,)),
    Chapter(8, "En production", 2, 2, (7,)),
    Chapter(9, "Simulation sur 30\u00a0tours", 3, 1, (5,)),
    Chapter(10, "Évaluer une mémoire", 3, 2, (9,)),
)
PARTS = (
    ("Garder les derniers mots", st.BLUE),
    ("Condenser", st.VERMILION),
    ("Faire durer", st.GREEN),
    ("Comparer, mesurer", st.PURPLE),
)


def course_map(available: Collection[int] | None = None, *, title: str | None = None) -> tuple[Figure, Axes]:
    """Dessine la carte du cours : une colonne par partie, une flèche de chaque prérequis à son chapitre.

    Args:
        available: numéros des chapitres parus ; les autres sont en pointillé. Par défaut, tous sont parus.
        title: titre de la figure.

    Raises:
        ValueError: un numéro n'est pas celui d'un chapitre.
    """
    numbers = {chapter.number for chapter in CHAPTERS}
    ready = numbers if available is None else set(available)
    st.require(ready <= numbers, f"« available » : chapitres inconnus {sorted(ready - numbers)}.")
    width, height, step_x, step_y = 1.44, 0.82, 1.772, 1.06
    fig, ax = st.canvas(4.15, title)

    def corner(chapter: Chapter) -> tuple[float, float]:
        return 0.12 + chapter.column * step_x, 2.6 - chapter.row * step_y

    for column, (name, color) in enumerate(PARTS):
        x = 0.12 + column * step_x + width / 2
        options = {"ha": "center", "va": "center", "fontweight": "bold", "color": st.readable(color)}
        st.write(ax, x, 3.8, st.wrap(name, width), **options)
    places = {chapter.number: chapter for chapter in CHAPTERS}
    for chapter in CHAPTERS:
        x, y = corner(chapter)
        color = PARTS[chapter.column][1]
        text = st.wrap(f"{chapter.number}. {chapter.name}", width)
        here = chapter.number in ready
        fill = st.tint(color, 0.22) if here else st.BACKGROUND
        st.box(ax, x, y, width, height, text, fill=fill, edge=color, dashed=not here)
        for number in chapter.requires:
            source = places[number]
            sx, sy = corner(source)
            if source.column == chapter.column:
                st.arrow(ax, [(sx + width / 2, sy), (x + width / 2, y + height)])
            elif source.column + 1 == chapter.column:
                gutter = x - (step_x - width) / 2
                st.arrow(
                    ax,
                    [
                        (sx + width, sy + height / 2),
                        (gutter, sy + height / 2),
                        (gutter, y + height / 2),
                        (x, y + height / 2),
                    ],
                )
            else:  # passe sous les colonnes intermédiaires
                gutter, below = x - (step_x - width) / 2, 0.3
                path = [(sx + width / 2, sy), (sx + width / 2, below), (gutter, below), (gutter, y + height / 2)]
                st.arrow(ax, [*path, (x, y + height / 2)])
    if ready != numbers:
        st.write(ax, 6.88, 0.12, "en pointillé : à paraître", ha="right", va="center", color=st.MUTED)
    return fig, ax
