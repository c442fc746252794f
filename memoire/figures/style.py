"""Style commun des figures : palette, nombres à la française, étiquettes directes, briques de dessin.

Tous les chapitres et toutes les diapositives s'en servent : une stratégie garde partout sa couleur,
son marqueur et son trait, et rien n'est jamais signalé par la couleur seule.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.text import Text
from matplotlib.ticker import Formatter, MaxNLocator

# Palette d'Okabe et Ito (2008), lisible avec toutes les formes de daltonisme.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
OLIVE, GREY, PLUM, DEEP = "#8F8500", "#8A8A8A", "#7A2E5D", "#00475C"  # nuances sombres ajoutées

BACKGROUND, INK, MUTED, GRID, PALE = "#FCFBF8", "#1F2328", "#56606B", "#E4E1D8", "#EFEDE6"
NARROW_SPACE = "\u202f"
FONT, SMALL, TITLE = 12.0, 11.0, 13.0
WIDTH, TITLE_WIDTH = 7.0, 56  # pouces, caractères

Box = tuple[float, float, float, float]  # gauche, bas, droite, haut, en pixels
LineStyle = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class StrategyStyle:
    """Apparence d'une stratégie : étiquette française, couleur, marqueur, trait."""

    label: str
    color: str
    marker: str
    linestyle: LineStyle


STRATEGIES: dict[str, StrategyStyle] = {
    "buffer": StrategyStyle("mémoire tampon", BLACK, "o", "-"),
    "window": StrategyStyle("fenêtre glissante", BLUE, "s", "--"),
    "priority": StrategyStyle("fenêtre à priorités", SKY, "D", "-."),
    "summary": StrategyStyle("résumé", VERMILION, "^", "-"),
    "extractive": StrategyStyle("résumé extractif", PLUM, "<", (0, (5, 1))),
    "rolling": StrategyStyle("résumé glissant", ORANGE, "v", "--"),
    "hybrid": StrategyStyle("hybride", GREEN, "P", "-"),
    "entities": StrategyStyle("entités", PURPLE, "X", ":"),
    "tree": StrategyStyle("résumé hiérarchique", OLIVE, "h", "-."),
    "selection": StrategyStyle("sélection", GREY, "*", (0, (3, 1, 1, 1, 1, 1))),
    "rag": StrategyStyle("RAG", YELLOW, ">", "--"),
    "hierarchical": StrategyStyle("mémoire hiérarchique", DEEP, "d", ":"),
}
STRATEGY_COLORS: dict[str, str] = {key: style.color for key, style in STRATEGIES.items()}

_ALIASES = {
    "tampon": "buffer",
    "conversationbuffermemory": "buffer",
    "fenetre": "window",
    "slidingwindowmemory": "window",
    "priorites": "priority",
    "priority window": "priority",
    "fenetre avec priorites": "priority",
    "prioritywindowmemory": "priority",
    "summarymemory": "summary",
    "resume borne": "extractive",
    "rolling summary": "rolling",
    "rollingsummary": "rolling",
    "memoire hybride": "hybrid",
    "hybridmemory": "hybrid",
    "memoire d'entites": "entities",
    "entity": "entities",
    "entitymemory": "entities",
    "hierarchical summary": "tree",
    "hierarchicalsummarymemory": "tree",
    "selection par plongements": "selection",
    "selectionmemory": "selection",
    "memoire avec rag": "rag",
    "ragmemory": "rag",
    "hierarchical memory": "hierarchical",
    "hierarchicalmemory": "hierarchical",
}


@dataclass(frozen=True, slots=True)
class StatusStyle:
    """Apparence d'un état de rétention : fond, signe et couleur du signe."""

    fill: str
    glyph: str
    ink: str


STATUSES: dict[str, StatusStyle] = {
    "gardé": StatusStyle("#00795A", "✓", "#FFFFFF"),
    "résumé": StatusStyle("#F2B84B", "≈", "#1F2328"),
    "perdu": StatusStyle("#F9E6DC", "✗", "#B34700"),
    "à venir": StatusStyle(BACKGROUND, "·", "#9AA0A6"),
}

_RC: Any = {
    "figure.figsize": (WIDTH, 4.2),
    "figure.dpi": 100,
    "figure.facecolor": BACKGROUND,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.09,
    "figure.constrained_layout.h_pad": 0.09,
    "savefig.dpi": 200,
    "savefig.facecolor": BACKGROUND,
    "font.family": "DejaVu Sans",
    "font.size": FONT,
    "text.color": INK,
    "axes.facecolor": BACKGROUND,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.labelsize": FONT,
    "axes.titlesize": TITLE,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.9,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 2.2,
    "lines.markersize": 6.5,
    "legend.frameon": False,
    "legend.fontsize": SMALL,
}


def use_style() -> None:
    """Applique le style du cours à toutes les figures de la session.

    Dans un notebook, règle aussi l'affichage en PNG à double résolution.
    """
    plt.rcParams.update(_RC)
    try:
        from IPython.core.getipython import get_ipython
        from matplotlib_inline import backend_inline
    except ImportError:  # hors de Jupyter, seul le style compte
        return
    if get_ipython() is not None:
        inline: Any = backend_inline
        inline.set_matplotlib_formats("retina", bbox_inches=None)


# --- Vérifications -------------------------------------------------------------------------------


def require(condition: bool, message: str) -> None:
    """Lève `ValueError` avec `message` si la condition n'est pas remplie."""
    if not condition:
        raise ValueError(message)


def as_series(values: Iterable[float], name: str) -> np.ndarray:
    """Convertit en tableau d'une dimension de nombres finis, positifs ou nuls.

    Lève `ValueError` si la série est vide ou contient autre chose que de tels nombres.
    """
    try:
        array = np.asarray(list(values), dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"« {name} » : une suite de nombres est attendue.") from error
    require(array.ndim == 1 and array.size > 0, f"« {name} » : une suite non vide de nombres est attendue.")
    require(bool(np.isfinite(array).all()), f"« {name} » : tous les nombres doivent être finis.")
    require(bool((array >= 0).all()), f"« {name} » : les nombres négatifs ne sont pas acceptés.")
    return array


def positive(value: float, name: str) -> None:
    """Lève `ValueError` si `value` n'est pas strictement positif."""
    require(value > 0, f"« {name} » : reçu {value!r}, un nombre strictement positif est attendu.")


def as_statuses(rows: Iterable[Iterable[str]], name: str) -> list[list[str]]:
    """Convertit en tableau d'états et vérifie que chacun est connu, les lignes de même longueur."""
    table = [[str(status) for status in row] for row in rows]
    require(bool(table) and bool(table[0]), f"« {name} » : au moins un état est attendu.")
    require(len({len(row) for row in table}) == 1, f"« {name} » : les lignes doivent avoir la même longueur.")
    unknown = sorted({status for row in table for status in row} - STATUSES.keys())
    require(not unknown, f"« {name} » : état inconnu {unknown!r} ; états acceptés : {', '.join(STATUSES)}.")
    return table


# --- Stratégies et couleurs ----------------------------------------------------------------------


def _fold(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text.replace("_", " ").replace("’", "'").lower())
    return "".join(char for char in decomposed if not unicodedata.combining(char)).strip()


def strategy_style(name: str) -> StrategyStyle:
    """Donne l'apparence d'une stratégie, désignée par sa clé, son étiquette française ou sa classe.

    Un nom qui prolonge une étiquette connue (« fenêtre glissante K = 3 ») en garde l'apparence ;
    un nom inconnu reçoit une apparence de réserve, toujours la même pour ce nom.
    """
    if name in STRATEGIES:
        return STRATEGIES[name]
    folded = _fold(name)
    known = {_fold(style.label): key for key, style in STRATEGIES.items()}
    known |= {key: key for key in STRATEGIES} | _ALIASES
    if folded in known:
        style = STRATEGIES[known[folded]]
        is_french = folded == _fold(style.label) or " " in name or folded in ("tampon", "fenetre")
        return replace(style, label=name) if is_french else style
    prefixes = [label for label in known if folded.startswith(label)]
    if prefixes:
        return replace(STRATEGIES[known[max(prefixes, key=len)]], label=name)
    rank = zlib.crc32(name.encode())
    return StrategyStyle(name, (OLIVE, PLUM, DEEP)[rank % 3], ("p", "8", "H")[rank % 3], (0, (1, 1)))


def luminance(color: str) -> float:
    """Luminance relative d'une couleur, de 0 (noir) à 1 (blanc), selon les WCAG."""
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return float(np.dot(channels, (0.2126, 0.7152, 0.0722)))


def contrast(first: str, second: str) -> float:
    """Rapport de contraste entre deux couleurs, de 1 à 21, selon les WCAG."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def readable(color: str, background: str = BACKGROUND) -> str:
    """Assombrit une couleur jusqu'à ce qu'un texte de cette couleur se lise sur le fond (contraste 4,5)."""
    red, green, blue = to_rgb(color)
    while contrast(to_hex((red, green, blue)), background) < 4.5:
        red, green, blue = 0.94 * red, 0.94 * green, 0.94 * blue
    return str(to_hex((red, green, blue)))


def tint(color: str, strength: float = 0.2) -> str:
    """Éclaircit une couleur vers le fond : 0 donne le fond, 1 la couleur."""
    mixed = [strength * c + (1 - strength) * b for c, b in zip(to_rgb(color), to_rgb(BACKGROUND), strict=True)]
    return str(to_hex((mixed[0], mixed[1], mixed[2])))


# --- Nombres à la française ----------------------------------------------------------------------


def french_number(value: float, decimals: int | None = None) -> str:
    """Écrit un nombre à la française : `1234.5` donne « 1 234,5 » (espace fine insécable).

    `decimals` fixe le nombre de décimales ; sans lui, on garde jusqu'à quatre décimales utiles.
    """
    text = f"{value:,.4f}".rstrip("0").rstrip(".") if decimals is None else f"{value:,.{decimals}f}"
    text = "0" if text == "-0" else text
    return text.replace(",", NARROW_SPACE).replace(".", ",").replace("-", "\u2212")


def plural(count: float, word: str) -> str:
    """Accorde : `plural(3, "token")` donne « 3 tokens » ; le pluriel français commence à 2."""
    return f"{french_number(count)}\u00a0{word}{'s' if abs(count) >= 2 else ''}"


class FrenchFormatter(Formatter):
    """Écrit les graduations d'un axe en nombres français, toutes avec autant de décimales."""

    def __init__(self, unit: str = "") -> None:
        self.suffix = f"\u00a0{unit}" if unit else ""

    def format_ticks(self, values: Iterable[float]) -> list[str]:
        """Donne le texte de toutes les graduations."""
        ticks = [float(value) for value in values]
        decimals = max((len(french_number(tick).partition(",")[2]) for tick in ticks), default=0)
        return [french_number(tick, decimals) + self.suffix for tick in ticks]

    def __call__(self, value: float, position: int | None = None) -> str:
        """Donne le texte d'une graduation isolée."""
        return french_number(value) + self.suffix


def french_axis(axis: Axis, unit: str = "", integer: bool = False) -> None:
    """Met les graduations d'un axe en nombres français, suivis d'une unité éventuelle."""
    axis.set_major_formatter(FrenchFormatter(unit))
    if integer:
        axis.set_major_locator(MaxNLocator(10, integer=True, steps=[1, 2, 5, 10]))


# --- Axes et étiquettes --------------------------------------------------------------------------


def new_axes(height: float = 4.2, title: str | None = None, grid: str = "y") -> tuple[Figure, Axes]:
    """Crée une figure du cours, large de 7 pouces, avec une grille discrète et des nombres français."""
    with plt.rc_context(_RC):
        fig, ax = plt.subplots(figsize=(WIDTH, height))
    french_axis(ax.xaxis)
    french_axis(ax.yaxis)
    ax.tick_params(length=3)
    if grid:
        ax.grid(axis=grid)  # type: ignore[arg-type]
    set_title(ax, title)
    return fig, ax


def new_panels(mosaic: Sequence[Sequence[str]], height: float, title: str | None = None) -> tuple[Figure, list[Axes]]:
    """Crée une figure du cours à plusieurs cadres, placés selon `mosaic` et rendus dans l'ordre de leurs noms."""
    with plt.rc_context(_RC):
        fig, panels = plt.subplot_mosaic([list(row) for row in mosaic], figsize=(WIDTH, height))
    axes = [panels[name] for name in sorted(panels)]
    for ax in axes:
        french_axis(ax.xaxis)
        french_axis(ax.yaxis)
        ax.tick_params(length=3)
        ax.grid(axis="y")
    set_title(axes[0], title)
    return fig, axes


def set_title(ax: Axes, title: str | None) -> None:
    """Pose un titre aligné au bord gauche de la figure, replié s'il est long."""
    if title:
        figure: Any = ax.figure
        text = "\n".join(textwrap.wrap(title, TITLE_WIDTH))
        figure.suptitle(text, x=0.015, ha="left", fontsize=TITLE, fontweight="bold")


def turn_axis(ax: Axes, turns: int, label: str = "tour de conversation") -> None:
    """Gradue l'axe horizontal en numéros entiers, de 1 à `turns`."""
    ax.set_xlim(0.5 if turns < 15 else 0, turns + 0.5)
    french_axis(ax.xaxis, integer=True)
    ax.set_xlabel(label)


def write(ax: Axes, x: float, y: float, text: str, **options: Any) -> Any:
    """Écrit un texte en données, à la taille du cours, sans être coupé par les bords des axes."""
    defaults: dict[str, Any] = {"fontsize": SMALL, "color": INK, "clip_on": False, "zorder": 6}
    return ax.text(x, y, text, **defaults | options)


def point_out(ax: Axes, xy: tuple[float, float], text: str, offset: tuple[float, float], **options: Any) -> Any:
    """Annote un point, le texte étant décalé de `offset` points typographiques."""
    defaults: dict[str, Any] = {"fontsize": SMALL, "color": INK, "va": "center", "ha": "center", "zorder": 6}
    arrow = {"arrowstyle": "-", "color": MUTED, "linewidth": 1.0, "shrinkA": 2, "shrinkB": 4}
    return ax.annotate(text, xy, offset, textcoords="offset points", arrowprops=arrow, **defaults | options)


def spread(positions: Sequence[float], step: float, low: float, high: float) -> list[float]:
    """Écarte des positions d'au moins `step` en les déplaçant le moins possible, entre `low` et `high`.

    C'est une régression isotone sur les positions triées ; l'ordre d'entrée est conservé.
    """
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    pools: list[list[float]] = []  # groupes [somme, effectif] de positions ramenées à un pas nul
    for rank, index in enumerate(order):
        pools.append([positions[index] - rank * step, 1])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            total, size = pools.pop()
            pools[-1][0] += total
            pools[-1][1] += size
    flat = [total / size for total, size in pools for _ in range(int(size))]
    top = high - (len(flat) - 1) * step
    placed = [0.0] * len(flat)
    for rank, index in enumerate(order):
        placed[index] = max(low, min(flat[rank], top)) + rank * step
    return placed


def label_ends(ax: Axes, labels: Sequence[tuple[float, float, str, str]]) -> None:
    """Étiquette l'extrémité des courbes, à droite des axes, sans que deux étiquettes se touchent.

    `labels` contient des quadruplets (x, y, texte, couleur) ; appeler quand les limites sont fixées.
    """
    figure = ax.figure
    figure.canvas.draw()
    height = ax.get_window_extent().height
    lines = max(text.count("\n") + 1 for _, _, text, _ in labels)
    step = lines * 1.42 * SMALL * figure.dpi / 72 / height
    heights = [ax.transAxes.inverted().transform(ax.transData.transform((x, y)))[1] for x, y, _, _ in labels]
    for (x, y, text, color), place in zip(labels, spread(heights, step, 0.0, 1.0), strict=True):
        ax.annotate(
            text,
            (x, y),
            (1.06, place),
            textcoords="axes fraction",
            fontsize=SMALL,
            color=readable(color),
            va="center",
            ha="left",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": color,
                "linewidth": 0.9,
                "shrinkA": 1,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
        )


def label_points(
    ax: Axes, points: Sequence[tuple[float, float, str, str]], path: Sequence[tuple[float, float]] = ()
) -> None:
    """Étiquette des points isolés en cherchant, pour chacun, une place libre autour de lui.

    `points` contient des quadruplets (x, y, texte, couleur) ; les étiquettes évitent la ligne brisée `path`.
    """
    canvas: Any = ax.figure.canvas
    canvas.draw()
    renderer = canvas.get_renderer()
    frame = ax.get_window_extent(renderer)
    pixels = [ax.transData.transform((x, y)) for x, y, _, _ in points]
    spots: list[Box] = [(px - 8, py - 8, px + 8, py + 8) for px, py in pixels]
    taken = list(spots)
    corners = [ax.transData.transform(corner) for corner in path]
    for begin, end in pairwise(corners):
        taken += _dots(begin, end)
    labelled: list[Box] = []
    directions = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)]
    for (x, y, text, color), here in zip(points, pixels, strict=True):
        barred = [spot for spot, other in zip(spots, pixels, strict=True) if np.hypot(*(other - here)) > 1] + labelled
        best: tuple[float, Any, Box] | None = None
        for distance, (dx, dy) in product((11, 20, 32, 46, 62, 80), directions):
            if best is not None and best[0] == 0:
                break
            place = (dx * distance, dy * distance)
            aligned = {"ha": ("center", "left", "right")[dx], "va": ("center", "bottom", "top")[dy]}
            note = point_out(ax, (x, y), text, place, color=readable(color), **aligned)
            note.arrow_patch.set_visible(distance > 11)
            extent = _text_extent(note, renderer)
            penalty = sum(_overlap(extent, other) for other in taken) + 4 * _outside(extent, frame)
            penalty += sum(_overlap(dot, other) for dot in _leader(here, extent) for other in barred)
            if best is None or penalty < best[0]:
                if best is not None:
                    best[1].remove()
                best = (penalty, note, extent)
            else:
                note.remove()
        if best is not None:
            taken += [best[2], *_leader(here, best[2])]
            labelled.append(best[2])


def _text_extent(note: Any, renderer: Any) -> Box:
    note.update_positions(renderer)
    bounds = Text.get_window_extent(note, renderer)  # le texte seul, sans son trait de rappel
    return (bounds.x0 - 2, bounds.y0 - 2, bounds.x1 + 2, bounds.y1 + 2)


def _dots(begin: np.ndarray, end: np.ndarray) -> list[Box]:
    """Couvre un segment de petits carrés, en pixels."""
    shares = np.linspace(0, 1, max(2, int(np.hypot(*(end - begin)) / 4)))
    return [(x - 2, y - 2, x + 2, y + 2) for x, y in (begin + share * (end - begin) for share in shares)]


def _leader(point: np.ndarray, extent: Box) -> list[Box]:
    """Couvre de petits carrés le trait de rappel, du point au bord du texte."""
    nearest = np.array([np.clip(point[0], extent[0], extent[2]), np.clip(point[1], extent[1], extent[3])])
    return _dots(point, nearest)


def _overlap(first: Box, second: Box) -> float:
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    return width * height if width > 0 and height > 0 else 0.0


def _outside(extent: Box, frame: Any) -> float:
    excess = [frame.x0 - extent[0], extent[2] - frame.x1, frame.y0 - extent[1], extent[3] - frame.y1]
    return 100.0 * sum(max(0.0, float(value)) for value in excess)


def plot_series(ax: Axes, values: Sequence[float] | np.ndarray, style: StrategyStyle, start: int = 1) -> None:
    """Trace une série par tour, avec la couleur, le trait et le marqueur de la stratégie."""
    turns = np.arange(start, start + len(values))
    ax.plot(
        turns,
        values,
        color=style.color,
        linestyle=style.linestyle,
        marker=style.marker,
        markevery=max(1, len(values) // 8),
        markeredgecolor=readable(style.color) if luminance(style.color) > 0.5 else BACKGROUND,
        markeredgewidth=0.8,
    )


# --- Cellules et schémas -------------------------------------------------------------------------


def draw_cells(ax: Axes, rows: Sequence[Sequence[str]], fontsize: float = SMALL) -> None:
    """Dessine un tableau d'états : une cellule colorée et marquée d'un signe par état, première ligne en haut."""
    cells: dict[str, list[Rectangle]] = {}
    for line, row in enumerate(rows):
        for column, status in enumerate(row):
            cells.setdefault(status, []).append(Rectangle((column + 0.04, line + 0.05), 0.92, 0.9))
            style = STATUSES[status]
            options = {"ha": "center", "va": "center", "color": style.ink, "fontsize": fontsize}
            write(ax, column + 0.5, line + 0.5, style.glyph, **options).set_in_layout(False)
    for status, patches in cells.items():
        ax.add_collection(PatchCollection(patches, facecolor=STATUSES[status].fill, edgecolor="none"))
    ax.set_xlim(0, len(rows[0]))
    ax.set_ylim(len(rows), 0)
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def column_numbers(ax: Axes, numbers: Sequence[int], label: str) -> None:
    """Numérote les colonnes d'un tableau d'états, toutes les cinq s'il y en a plus de seize."""
    every = 1 if len(numbers) <= 16 else 5
    shown = [i for i, number in enumerate(numbers) if every == 1 or i == 0 or number % every == 0]
    ax.set_xticks([i + 0.5 for i in shown], [french_number(numbers[i]) for i in shown])
    ax.set_xlabel(label)


def row_names(ax: Axes, names: Sequence[str]) -> None:
    """Nomme les lignes d'un tableau d'états."""
    ax.set_yticks([i + 0.5 for i in range(len(names))], list(names))


def status_legend(
    ax: Axes,
    statuses: Iterable[str],
    names: Mapping[str, str] | None = None,
    extra: Sequence[tuple[Any, str]] = (),
) -> None:
    """Place sous les axes la légende des états présents, avec leurs signes, puis les entrées `extra`."""
    given = set(statuses)
    present = [status for status in STATUSES if status in given]
    handles: list[Any] = [
        Rectangle((0, 0), 1, 1, facecolor=STATUSES[s].fill, edgecolor=MUTED, linewidth=0.6) for s in present
    ]
    texts = [f"{STATUSES[s].glyph} {(names or {}).get(s, s)}" for s in present]
    figure: Any = ax.figure
    options: dict[str, Any] = {"fontsize": SMALL, "frameon": False, "handlelength": 1.1, "handleheight": 1.1}
    handles += [handle for handle, _ in extra]
    texts += [text for _, text in extra]
    figure.legend(handles, texts, loc="outside lower center", ncols=len(handles), **options)


def canvas(height: float, title: str | None = None, width: float = WIDTH) -> tuple[Figure, Axes]:
    """Crée une feuille de schéma dont l'unité est le pouce : les textes gardent leur taille dans les boîtes."""
    lines = textwrap.wrap(title, TITLE_WIDTH) if title else []
    total = height + (0.16 + 0.26 * len(lines) if lines else 0.0)
    with plt.rc_context(_RC | {"figure.constrained_layout.use": False}):
        fig = plt.figure(figsize=(width, total))
        ax = fig.add_axes((0.0, 0.0, 1.0, 1.0))
    ax.set_xlim(0, width)
    ax.set_ylim(0, total)
    ax.axis("off")
    if lines:
        options = {"fontsize": TITLE, "fontweight": "bold", "va": "top"}
        write(ax, 0.12, total - 0.12, "\n".join(lines), **options)
    return fig, ax


def box(ax: Axes, x: float, y: float, width: float, height: float, text: str = "", **options: Any) -> None:
    """Dessine une boîte arrondie (coin bas gauche en x, y, dimensions en pouces) et son texte centré.

    Options : `fill`, `edge`, `dashed`, `color` (du texte), `bold`, `fontsize`, `align` (« center » ou « left »),
    `back` (derrière les flèches).
    """
    ax.add_patch(
        FancyBboxPatch(
            (x, y),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.07",
            facecolor=options.get("fill", BACKGROUND),
            edgecolor=options.get("edge", MUTED),
            linewidth=1.3,
            linestyle="--" if options.get("dashed") else "-",
            zorder=1 if options.get("back") else 3,
        )
    )
    left = options.get("align") == "left"
    if text:
        write(
            ax,
            x + (0.1 if left else width / 2),
            y + height / 2,
            text,
            ha="left" if left else "center",
            va="center",
            color=options.get("color", INK),
            fontweight="bold" if options.get("bold") else "normal",
            fontsize=options.get("fontsize", SMALL),
            linespacing=1.25,
        )


def arrow(ax: Axes, points: Sequence[tuple[float, float]], color: str = MUTED, both: bool = False) -> None:
    """Trace une flèche le long d'une ligne brisée ; `both` met une pointe à chaque bout."""
    xs, ys = zip(*points[:-1], strict=True)
    if len(points) > 2:
        ax.plot(xs, ys, color=color, linewidth=1.5, solid_joinstyle="round", zorder=2)
    style = "<|-|>" if both else "-|>"
    props = {"arrowstyle": style, "color": color, "linewidth": 1.5, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 13}
    ax.annotate("", points[-1], points[-2], arrowprops=props, zorder=2)


def wrap(text: str, width: float, fontsize: float = SMALL, lines: int | None = None) -> str:
    """Replie un texte pour qu'il tienne dans `width` pouces, en `lines` lignes au plus (« … » au-delà)."""
    characters = max(4, int(width / (0.58 * fontsize / 72)))
    pieces = textwrap.wrap(text, characters) or [""]
    if lines is not None and len(pieces) > lines:
        pieces = pieces[:lines]
        pieces[-1] = pieces[-1][: characters - 1].rstrip(" ,;.") + "…"
    return "\n".join(pieces)


def shorten(text: str, length: int) -> str:
    """Coupe un texte à `length` caractères au plus, points de suspension compris."""
    flat = re.sub(r"[ \t\r\n]+", " ", text).strip()  # les espaces insécables restent
    return flat if len(flat) <= length else flat[: length - 1].rstrip(" ,;:.") + "…"
