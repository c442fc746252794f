"""Explorateurs du cours : un curseur sur les tours, des vues calculées d'avance (chapitres 3 et 9).

Le curseur et les vues sont reliés dans le navigateur (`jslink`) : l'explorateur marche aussi dans la page
HTML du livre, sans noyau Python. Les textes de la conversation sont échappés avant d'être affichés.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any

import ipywidgets as widgets

from memoire.figures.style import STATUSES, french_number, plural, shorten
from memoire.french import fold
from memoire.messages import Message
from memoire.simulation import KEPT, LOST, SUMMARISED, TO_COME, TRACE_WORDS, Result

TEXT_LENGTH, NOTE_LENGTH = 44, 120  # caractères montrés d'un message, d'une note
SHOWN = 3  # messages gardés dont un onglet montre le texte : neuf onglets doivent rester légers
ROLE_NAMES = {"user": "utilisateur", "assistant": "assistant", "tool": "outil", "system": "système"}
_HEADINGS = {KEPT: "gardé mot pour mot", SUMMARISED: "dans une note seulement", LOST: "perdu"}
_CLASSES = {KEPT: "k", SUMMARISED: "s", LOST: "p", TO_COME: "f"}

_CSS = """
.mx-explorer{background:#FCFBF8;color:#1F2328;border:1px solid #D5D1C6;border-radius:8px;padding:10px 14px;
max-width:100%;box-sizing:border-box;--jp-widgets-color:#1F2328;--jp-widgets-label-color:#1F2328;
--jp-widgets-readout-color:#1F2328;--jp-ui-font-color1:#1F2328;--jp-layout-color2:#E4E1D8;--jp-brand-color1:#0072B2}
.mx-explorer .widget-toggle-buttons,.mx-explorer .widget-toggle-buttons>div{height:auto;flex-wrap:wrap}
.mx-explorer button{background:#EFEDE6;color:#1F2328;border:1px solid #B9B4A6;height:auto;padding:2px 10px}
.mx-explorer button.mod-active{background:#00475C;color:#FFF;border-color:#00475C;font-weight:bold}
.mx-explorer :focus-visible{outline:3px solid #0072B2;outline-offset:1px}
.mx-explorer .widget-html,.mx-explorer .widget-html-content{height:auto;white-space:normal;overflow-wrap:anywhere;
line-height:1.45;font-size:15px;color:#1F2328}
.mx-explorer .widget-html-content{flex:1 1 auto;min-width:0}
.mx-explorer p{margin:.35em 0}.mx-explorer ul{margin:.2em 0 .5em;padding-left:1.2em}
.mx-explorer .t{display:flex;gap:2px}
.mx-explorer .t i{font-style:normal;text-align:center;border-radius:3px;min-width:1.1em;overflow:hidden}
.mx-explorer .f{color:#6B7078}
.mx-explorer b.k,.mx-explorer b.s,.mx-explorer b.p{padding:0 .4em;border-radius:3px}
.mx-explorer q{background:#EFEDE6;padding:1px 4px;quotes:none}
.mx-explorer li>i,.mx-explorer .r{color:#56606B;font-style:normal}
"""
_STATUS_CSS = "".join(
    f".mx-explorer .{_CLASSES[status]}{{background:{STATUSES[status].fill};color:{STATUSES[status].ink}}}"
    for status in (KEPT, SUMMARISED, LOST)
)


@dataclass(frozen=True, slots=True)
class Frame:
    """Ce qu'une mémoire donne au modèle à un moment : l'état de chaque message dit, les notes, la taille.

    Attributes:
        title: le moment, par exemple « Tour 12 sur 30 ».
        messages: les messages dits jusque-là.
        statuses: l'état de chaque message (« gardé », « résumé », « perdu » ou « à venir »).
        tokens: taille du contexte, en tokens, si elle est connue.
        ratio: taux de compression rho_t, s'il est connu.
        notes: textes ajoutés par la mémoire (résumé, entités…).
    """

    title: str
    messages: tuple[Message, ...]
    statuses: tuple[str, ...]
    tokens: float | None = None
    ratio: float | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.messages) != len(self.statuses):
            raise ValueError(f"{len(self.statuses)} états pour {len(self.messages)} messages : il en faut autant.")
        if unknown := set(self.statuses) - STATUSES.keys():
            raise ValueError(f"États inconnus : {sorted(unknown)}. États acceptés : {', '.join(STATUSES)}.")


def render_frame(frame: Frame, shown: int = 10) -> str:
    """Donne le HTML d'une vue ; les textes y sont échappés et abrégés, les balises fermantes facultatives omises.

    Args:
        frame: la vue.
        shown: nombre de messages gardés dont le texte est montré : le premier et les derniers.
    """
    facts = [f"<b>{_safe(frame.title, TEXT_LENGTH)}</b>"]
    if frame.tokens is not None:
        facts.append(plural(frame.tokens, "token"))
    if frame.ratio is not None:
        facts.append(f"ρ<sub>t</sub>\u00a0=\u00a0{french_number(frame.ratio, 2)}")
    parts = [f"<p>{' · '.join(facts)}"]
    runs = [(status, len(list(group))) for status, group in groupby(frame.statuses)]
    strip = "".join(f"<i class={_CLASSES[s]} style=flex:{n}>{STATUSES[s].glyph}</i>" for s, n in runs)
    parts.append(f"<p class=t aria-hidden=true>{strip}")
    for status in (KEPT, SUMMARISED, LOST):
        numbers = [i + 1 for i, found in enumerate(frame.statuses) if found == status]
        if numbers:
            ranges = "" if status == KEPT else f" : {_ranges(numbers)}"
            head = f"{plural(len(numbers), 'message')} {_agree(_HEADINGS[status], len(numbers))}{ranges}"
            parts.append(f"<p><b class={_CLASSES[status]}>{STATUSES[status].glyph}</b> {head}")
        if status == KEPT and numbers:
            parts.append(f"<ul>{''.join(_kept_lines(frame.messages, numbers, shown))}</ul>")
        if status == KEPT:
            parts += [f"<p>Note ajoutée : <q>{_safe(note, NOTE_LENGTH)}</q>" for note in frame.notes]
    return "".join(parts)


def frames_explorer(frames: Sequence[Frame], label: str = "Tour", *, start: int | None = None) -> widgets.VBox:
    """Place des vues derrière un curseur.

    Args:
        frames: les vues, une par position du curseur.
        label: nom du curseur.
        start: position de départ, à partir de 1 ; par défaut la dernière.

    Returns:
        L'explorateur, à afficher tel quel.

    Raises:
        ValueError: aucune vue, ou position de départ hors des vues.
    """
    slider = _slider(len(frames), label, start)
    return _assemble([slider, _stack(slider, frames, 10, _shared())])


def window_frames(
    messages: Sequence[Message | tuple[str, str]],
    contexts: Sequence[Collection[int]],
    *,
    messages_per_turn: int = 2,
) -> list[Frame]:
    """Prépare les vues d'une fenêtre qui glisse : ce qui n'est plus dans le contexte est perdu.

    Args:
        messages: les messages de la conversation, ou des couples (rôle, texte).
        contexts: pour chaque tour, indices (à partir de 0) des messages présents dans le contexte.
        messages_per_turn: nombre de messages par tour.

    Raises:
        ValueError: aucun contexte, ou pas assez de messages pour le dernier.
    """
    if not contexts or len(contexts) * messages_per_turn > len(messages):
        raise ValueError(
            f"{len(contexts)} contextes pour {len(messages)} messages : il en faut au moins un, et assez de messages."
        )
    spoken = tuple(m if isinstance(m, Message) else Message(*m) for m in messages)
    frames = []
    for rank, context in enumerate(contexts, start=1):
        said = spoken[: rank * messages_per_turn]
        statuses = tuple(KEPT if i in context else LOST for i in range(len(said)))
        frames.append(Frame(f"Tour {rank} sur {len(contexts)}", said, statuses))
    return frames


def result_frames(result: Result, name: str) -> list[Frame]:
    """Prépare les vues d'une stratégie, une par mesure d'une simulation.

    Un message sorti du contexte est « résumé » si un de ses faits l'est, ou si `TRACE_WORDS` de ses mots
    consécutifs se retrouvent dans une note ; sinon il est « perdu ».

    Args:
        result: le résultat de `simulation.run`.
        name: la stratégie.

    Raises:
        ValueError: stratégie inconnue.
    """
    if name not in result.tokens:
        raise ValueError(f"Stratégie inconnue : {name!r}. Stratégies mesurées : {', '.join(result.tokens)}.")
    conversation = result.conversation
    traces = [_runs(message.text) for message in conversation.messages]
    sources = {fact.id: conversation.sources(fact) for fact in conversation.facts}
    frames = []
    for rank, turn in enumerate(result.turns):
        count = sum(number <= turn for number in conversation.turns)
        notes, kept = result.notes[name][rank], set(result.kept[name][rank])
        noted = set().union(*map(_runs, notes))
        retention = result.retention[name]
        summarised = {i for fact, rows in retention.items() if rows[rank] == SUMMARISED for i in sources[fact]}
        statuses = tuple(
            KEPT if i in kept else SUMMARISED if i in summarised or traces[i] & noted else LOST for i in range(count)
        )
        title = f"Tour {turn} sur {conversation.turn_count}"
        size, ratio = result.tokens[name][rank], result.ratios[name][rank]
        frames.append(Frame(title, conversation.messages[:count], statuses, size, ratio, notes))
    return frames


def explore(result: Result, names: Iterable[str] | None = None, *, start: int | None = None) -> widgets.VBox:
    """Compare les stratégies d'une simulation : un curseur sur les tours, un onglet par stratégie.

    Args:
        result: le résultat de `simulation.run`.
        names: les stratégies à montrer ; par défaut toutes.
        start: tour de départ ; par défaut le dernier.

    Returns:
        L'explorateur, à afficher tel quel.

    Raises:
        ValueError: aucune stratégie, stratégie inconnue, ou aucune mesure.
    """
    chosen = list(result.tokens if names is None else names)
    if not chosen:
        raise ValueError("Aucune stratégie à explorer.")
    frames = {name: result_frames(result, name) for name in chosen}
    slider, shared = _slider(len(frames[chosen[0]]), "Tour", start), _shared()
    style = {"button_width": "auto"}
    tabs = widgets.ToggleButtons(options=chosen, description="Stratégie", style=style, layout={"width": "100%"})
    views = widgets.Stack([_stack(slider, frames[name], SHOWN, shared) for name in chosen], selected_index=0)
    widgets.jslink((tabs, "index"), (views, "selected_index"))
    return _assemble([tabs, slider, views])


def _slider(count: int, label: str, start: int | None) -> Any:
    if count == 0:
        raise ValueError("Aucune vue à explorer : au moins une est attendue.")
    value = count if start is None else start
    if not 1 <= value <= count:
        raise ValueError(f"start doit aller de 1 à {count}, reçu {start!r}.")
    return widgets.IntSlider(value=value, min=1, max=count, description=label, readout=False, layout={"width": "100%"})


def _shared() -> dict[str, Any]:
    """Crée ce que toutes les vues partagent : répété, cela alourdirait beaucoup la page."""
    return {"layout": widgets.Layout(width="100%"), "style": widgets.HTML().style}


def _stack(slider: Any, frames: Sequence[Frame], shown: int, shared: dict[str, Any]) -> Any:
    """Empile les vues ; la position 0, que le curseur n'atteint pas, est vide."""
    views = [widgets.HTML("", **shared), *(widgets.HTML(render_frame(frame, shown), **shared) for frame in frames)]
    stack = widgets.Stack(views, selected_index=slider.value, layout=shared["layout"])
    widgets.jslink((slider, "value"), (stack, "selected_index"))
    return stack


def _assemble(children: Sequence[Any]) -> widgets.VBox:
    box = widgets.VBox([widgets.HTML(f"<style>{_CSS}{_STATUS_CSS}</style>"), *children])
    box.add_class("mx-explorer")
    return box


def _safe(text: str, length: int) -> str:
    """Abrège un texte, puis l'échappe ; il n'est jamais placé dans un attribut HTML."""
    return escape(shorten(text, length), quote=False)


def _kept_lines(messages: Sequence[Message], numbers: Sequence[int], shown: int) -> Iterable[str]:
    hidden = len(numbers) - shown
    for rank, number in enumerate(numbers):
        if hidden > 1 and rank == 1:
            yield f"<li class=r>… et {hidden} autres"
        if hidden <= 1 or rank == 0 or rank > hidden:
            message = messages[number - 1]
            yield f"<li><i>{number} {ROLE_NAMES[message.role]}</i> {_safe(message.text, TEXT_LENGTH)}"


def _agree(heading: str, count: int) -> str:
    first, _, rest = heading.partition(" ")
    plural_first = f"{first}s" if count > 1 and first != "dans" else first
    return f"{plural_first} {rest}".strip()


def _ranges(numbers: Sequence[int]) -> str:
    """Écrit des numéros croissants en plages : « 1 à 4, 7 »."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(a) if a == b else f"{a} à {b}" for a, b in ranges)


def _runs(text: str) -> set[tuple[str, ...]]:
    """Donne les suites de `TRACE_WORDS` mots consécutifs d'un texte."""
    words = "".join(char if char.isalnum() else " " for char in fold(text)).split()
    return {tuple(words[i : i + TRACE_WORDS]) for i in range(len(words) - TRACE_WORDS + 1)}
