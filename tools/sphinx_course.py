"""Extension Sphinx du cours : numérotation des chapitres, pages sans référence extérieure, progression en français.

Les chapitres portent le numéro de leur fichier : 09_simulation est le chapitre 9, même si le 8 manque encore.
"""

from __future__ import annotations

import logging
import re
from copy import copy
from typing import Any

from myst_nb.core import render
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx_external_toc.collectors import TocTreeCollectorWithStyles

# Textes que les thèmes écrivent en anglais sans passer par leurs catalogues de traduction.
FRENCH = {
    ' - Home"': ' : accueil"',
    'aria-label="Main"': 'aria-label="Chapitres"',
    "Toggle primary sidebar": "Afficher ou masquer les chapitres",
    "Toggle secondary sidebar": "Afficher ou masquer le plan de la page",
    "Toggle hidden content": "Afficher ou masquer ce contenu",
    "Solution de<a": "Solution\u00a0: <a",
}

_CHAPTER = re.compile(r"(?:^|/)(\d\d)_[^/]*$")


def renumber(env: BuildEnvironment, docname: str, number: int) -> None:
    """Remplace le premier composant de tous les numéros de section d'un chapitre."""
    secnumbers = env.toc_secnumbers[docname]
    for anchor, secnumber in secnumbers.items():
        if secnumber:
            secnumbers[anchor] = (number, *secnumber[1:])
    entries = env.tocs[docname].findall(lambda node: bool(getattr(node, "attributes", {}).get("secnumber")))
    for entry in [env.titles[docname], *entries]:
        entry["secnumber"] = [number, *entry["secnumber"][1:]]


def number_by_file_name() -> None:
    """Fait suivre la numérotation de sphinx_external_toc par celle des noms de fichiers."""
    assign = TocTreeCollectorWithStyles.assign_section_numbers

    def assign_section_numbers(collector: TocTreeCollectorWithStyles, env: BuildEnvironment) -> list[str]:
        before = env.toc_secnumbers
        assign(collector, env)
        for docname, numbers in env.toc_secnumbers.items():
            chapter = _CHAPTER.search(docname)
            if chapter and numbers.get(""):
                renumber(env, docname, int(chapter[1]))
        return [docname for docname, numbers in env.toc_secnumbers.items() if numbers != before.get(docname)]

    TocTreeCollectorWithStyles.assign_section_numbers = assign_section_numbers


def remove_thebe(app: Sphinx) -> None:
    """Débranche sphinx_thebe, que Jupyter Book impose et qui inscrit un CDN dans chaque page."""
    for listeners in app.events.listeners.values():
        listeners[:] = [each for each in listeners if not each.handler.__module__.startswith("sphinx_thebe")]
    app.registry.css_files[:] = [each for each in app.registry.css_files if each[0] != "sphinx-thebe.css"]


def join_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Réunit les morceaux consécutifs d'un même flux, tels qu'ils ont été écrits."""
    joined: list[NotebookNode] = []
    for output in outputs:
        previous = joined[-1] if joined else {}
        if output["output_type"] == "stream" and previous.get("name") == output["name"]:
            previous["text"] += output["text"]
        else:
            joined.append(copy(output))
    return joined


def print_as_written() -> None:
    """Remplace la fusion des flux de myst_nb, qui ajoute une ligne vide là où le noyau a coupé la sortie."""
    render.coalesce_streams = join_streams


def translate_templates(app: Sphinx) -> None:
    """Traduit dans chaque page écrite les textes de FRENCH."""
    render = app.builder.templates.render

    def render_in_french(template: str, context: dict[str, Any]) -> str:
        page: str = render(template, context)
        for english, french in FRENCH.items():
            page = page.replace(english, french)
        return page

    app.builder.templates.render = render_in_french


def is_readable(record: logging.LogRecord) -> bool:
    """Ne garde, outre les avertissements, que la progression de Sphinx, qui est en français."""
    return record.levelno > logging.INFO or record.name.startswith("sphinx.sphinx.")


def setup(app: Sphinx) -> dict[str, Any]:
    """Branche l'extension ; Sphinx l'appelle à chaque construction."""
    for name in ("sphinx_thebe", "sphinx_external_toc"):
        app.setup_extension(name)
    remove_thebe(app)
    number_by_file_name()
    print_as_written()
    app.connect("builder-inited", translate_templates)
    for handler in logging.getLogger("sphinx").handlers:
        handler.addFilter(is_readable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
