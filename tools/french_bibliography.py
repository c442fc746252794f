"""Extension Sphinx du cours : bibliographie et citations en français (« et », « Dans », et non « and », « In »)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pybtex.plugin
from pybtex.style.formatting.plain import Style as PlainStyle
from pybtex.style.template import Node, names, sentence
from sphinx.application import Sphinx
from sphinxcontrib.bibtex import plugin as bibtex_plugin
from sphinxcontrib.bibtex.style.referencing import PersonStyle
from sphinxcontrib.bibtex.style.referencing.author_year import AuthorYearReferenceStyle

FRENCH = {"In": "Dans"}


def translate(template: Node) -> Node:
    """Remplace les mots anglais d'un modèle de référence, où qu'ils soient."""
    template.children = [
        translate(child) if isinstance(child, Node) else FRENCH.get(child, child) for child in template.children
    ]
    return template


class FrenchStyle(PlainStyle):  # type: ignore[misc]
    """Le style « plain », auteurs liés par « et » et actes introduits par « Dans »."""

    def format_names(self, role: str, as_sentence: bool = True) -> Node:
        """Compose la liste des auteurs ou des éditeurs."""
        formatted = names(role, sep=", ", sep2=" et ", last_sep=" et ")
        return sentence[formatted] if as_sentence else formatted

    def get_inproceedings_template(self, e: Any) -> Node:
        """Modèle d'une communication à une conférence."""
        return translate(super().get_inproceedings_template(e))

    def get_incollection_template(self, e: Any) -> Node:
        """Modèle d'un chapitre d'ouvrage collectif."""
        return translate(super().get_incollection_template(e))


@dataclass
class FrenchReferenceStyle(AuthorYearReferenceStyle):  # type: ignore[misc]
    """Citations « Auteur et Auteur, année »."""

    person: PersonStyle = field(default_factory=lambda: PersonStyle(sep2=" et ", last_sep=" et "))


def setup(app: Sphinx) -> dict[str, Any]:
    """Enregistre les deux styles sous le nom « french »."""
    pybtex.plugin.register_plugin("pybtex.style.formatting", "french", FrenchStyle)
    bibtex_plugin.register_plugin("sphinxcontrib.bibtex.style.referencing", "french", FrenchReferenceStyle)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
