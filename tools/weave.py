"""Tisse les notebooks : book/chapters/NN_slug.md -> notebooks/NN_slug.ipynb.

Une cellule de code qui porte l'option ``source: memoire.module.Objet`` est remplie avec le texte de
cet objet, lu dans le paquet ; toutes les autres cellules sont recopiées telles quelles. Le résultat
ne dépend que des sources : deux passages donnent les mêmes octets.

Usage : python -m tools.weave [--check] [--root DOSSIER]
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import yaml
from jupytext.myst import (
    CODE_DIRECTIVE,
    MystMetadataParsingError,
    get_parser,
    myst_to_notebook,
    read_cell_metadata,
    read_fenced_cell,
)

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = "book/chapters"
NOTEBOOKS = "notebooks"
GENERATOR = "tools/weave.py"
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE_INFO = {"file_extension": ".py", "mimetype": "text/x-python", "name": "python", "pygments_lexer": "ipython3"}
MARKERS = ("SOLUTION", "HIDDEN TESTS")

_HEADER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_MARKER = re.compile(r"^\s*###\s*(BEGIN|END)\s+(.*?)\s*$")
_FENCE = re.compile(r"^\s*(?P<fence>`{3,}|~{3,})\s*(?P<info>.*?)\s*$")
_LABEL = re.compile(
    r"^\s*\(([^\s()]+)\)=\s*$"  # (cible)=
    r"|^\s*:(?:label|name):\s*(\S+)\s*$"  # :label: def-memoire
    r"|\$\$\s*\(([^\s()]+)\)\s*$"  # $$ (eq-taux)
)


@dataclass(frozen=True, order=True)
class Problem:
    """Une erreur à corriger par l'auteur, située dans un fichier source."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


class WeaveError(Exception):
    """Une ou plusieurs sources ne peuvent pas être tissées."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = sorted(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def weave(root: Path) -> dict[Path, bytes]:
    """Rend le contenu de chaque notebook à produire, par chemin ; lève WeaveError si une source est fautive."""
    problems: list[Problem] = []
    woven: dict[Path, bytes] = {}
    for source in sorted((root / CHAPTERS).glob("*.md")):
        name = source.relative_to(root).as_posix()
        try:
            woven[root / NOTEBOOKS / f"{source.stem}.ipynb"] = weave_chapter(source.read_text("utf-8"), name)
        except WeaveError as error:
            problems += error.problems
        except UnicodeDecodeError as error:
            problems.append(Problem(name, 1, f"le fichier n'est pas en UTF-8 ({error.reason}, octet {error.start})."))
    if not problems:
        problems = duplicate_labels(root)
    if problems:
        raise WeaveError(problems)
    return woven


def weave_chapter(text: str, name: str) -> bytes:
    """Transforme le texte d'un chapitre en notebook ; ``name`` est le chemin cité dans les erreurs."""
    check_front_matter(text, name)
    check_cell_options(text, name)
    problems: list[Problem] = []
    cells = []
    slug = Path(name).stem
    for index, (cell, line) in enumerate(parse(text)):
        metadata, body = cell.metadata, cell.source
        if cell.cell_type == "code":
            problems += unbalanced_markers(body, name, line)
            if "source" in metadata:
                body, problem = source_text(metadata["source"], body)
                if problem:
                    problems.append(Problem(name, line, problem))
        make = getattr(nbformat.v4, f"new_{cell.cell_type}_cell")
        cells.append(make(body, id=f"{slug}-{index:03d}", metadata=metadata))
    if problems:
        raise WeaveError(problems)

    notebook = nbformat.v4.new_notebook(
        cells=cells,
        metadata={
            "kernelspec": KERNELSPEC,
            "language_info": LANGUAGE_INFO,
            "weave": {"generated_by": GENERATOR, "source": name},
        },
    )
    nbformat.validate(notebook)
    text = str(nbformat.writes(notebook))
    return (text.rstrip("\n") + "\n").encode("utf-8")


def parse(text: str) -> list[tuple[Any, int]]:
    """Rend les cellules d'un texte MyST, chacune avec la ligne où elle commence ; l'en-tête est laissé de côté."""
    header = _HEADER.match(text)
    if header:
        text = "\n" * header[0].count("\n") + text[header.end() :]
    lines = text.splitlines()
    parsed = myst_to_notebook(text, add_source_map=True)
    cells = []
    for cell, start in zip(parsed.cells, parsed.metadata["source_map"], strict=True):
        if cell.cell_type == "markdown":
            while not lines[start].strip():
                start += 1
            start += 1
        cells.append((cell, start))
    return cells


def check_front_matter(text: str, name: str) -> None:
    """Exige un en-tête YAML qui déclare le format jupytext et le noyau python3."""
    example = "un chapitre commence par un en-tête « --- » qui contient « jupytext: » et « kernelspec: »"
    found = _HEADER.match(text)
    if not found:
        raise WeaveError([Problem(name, 1, f"en-tête absent : {example}.")])
    try:
        header = yaml.safe_load(found[1])
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 2 if mark else 1
        raise WeaveError([Problem(name, line, "en-tête illisible (YAML invalide).")]) from error
    if not isinstance(header, dict) or "jupytext" not in header:
        raise WeaveError([Problem(name, 1, f"en-tête incomplet : {example}.")])
    kernel = header.get("kernelspec")
    if not isinstance(kernel, dict) or kernel.get("name") != "python3":
        raise WeaveError([Problem(name, 1, "en-tête incomplet : « kernelspec: » doit avoir « name: python3 ».")])


def check_cell_options(text: str, name: str) -> None:
    """Exige des options de cellule lisibles et conformes au format des notebooks."""
    problems = []
    for token in get_parser().parse(text):
        try:
            if token.type == "fence" and token.info.startswith(CODE_DIRECTIVE):
                nbformat.v4.new_code_cell("", metadata=read_fenced_cell(token, 0, "Code")[0])
            elif token.type == "myst_block_break":
                read_cell_metadata(token, 0)
        except (MystMetadataParsingError, nbformat.ValidationError) as error:
            detail = str(error).splitlines()[0]
            problems.append(Problem(name, token.map[0] + 1, f"options de cellule illisibles ({detail})."))
    if problems:
        raise WeaveError(problems)


def source_text(target: object, body: str) -> tuple[str, str | None]:
    """Rend le texte de l'objet demandé, ou le corps inchangé et ce qui ne va pas."""
    if body.strip():
        return body, f"la cellule « source: {target} » doit être vide : son texte vient du paquet."
    if not isinstance(target, str) or "." not in target:
        return (
            body,
            f"source « {target} » invalide : on attend un chemin comme memoire.buffer.ConversationBufferMemory.",
        )
    try:
        found = find_object(target)
    except (ImportError, AttributeError) as error:
        return body, f"objet inconnu « {target} » ({error})."
    if not (inspect.isclass(found) or inspect.isfunction(found)):
        return body, f"« {target} » n'est ni une classe ni une fonction (c'est un objet {type(found).__name__})."
    return textwrap.dedent(inspect.getsource(found)).rstrip("\n"), None


def find_object(target: str) -> Any:
    """Importe l'objet désigné par un chemin pointé (module, puis attributs)."""
    parts = target.split(".")
    for size in range(len(parts) - 1, 0, -1):
        module_name = ".".join(parts[:size])
        try:
            found: Any = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if size > 1 and error.name and module_name.startswith(error.name):
                continue
            raise
        for part in parts[size:]:
            found = getattr(found, part)
        return found
    raise ImportError(target)


def unbalanced_markers(body: str, name: str, cell_line: int) -> list[Problem]:
    """Liste les marqueurs ### BEGIN / ### END inconnus ou mal appariés d'une cellule."""
    problems = []
    opened: tuple[str, int] | None = None
    for line, text in enumerate(body.splitlines(), start=cell_line + 1):
        found = _MARKER.match(text)
        if not found:
            continue
        verb, kind = found.groups()
        if kind not in MARKERS:
            problems.append(Problem(name, line, f"marqueur inconnu « ### {verb} {kind} »."))
        elif verb == "BEGIN":
            if opened:
                problems.append(
                    Problem(name, line, f"« ### BEGIN {kind} » alors que « ### BEGIN {opened[0]} » n'est pas fermé.")
                )
            opened = (kind, line)
        elif opened is None or opened[0] != kind:
            problems.append(Problem(name, line, f"« ### END {kind} » sans « ### BEGIN {kind} » avant lui."))
        else:
            opened = None
    if opened:
        problems.append(Problem(name, opened[1], f"« ### BEGIN {opened[0]} » sans « ### END {opened[0]} »."))
    return problems


def duplicate_labels(root: Path) -> list[Problem]:
    """Liste les étiquettes MyST définies deux fois dans les textes de book/."""
    problems = []
    first: dict[str, str] = {}
    for path in sorted((root / "book").rglob("*.md")):
        name = path.relative_to(root).as_posix()
        for label, line in labels(path.read_text("utf-8")):
            here = f"{name}:{line}"
            if label in first:
                problems.append(Problem(name, line, f"étiquette « {label} » déjà définie en {first[label]}."))
            else:
                first[label] = here
    return problems


def labels(text: str) -> Iterator[tuple[str, int]]:
    """Parcourt les étiquettes d'un texte MyST avec leur ligne, hors des blocs de code littéraux."""
    for cell, line in parse(text):
        if cell.cell_type == "markdown":
            yield from markdown_labels(cell.source, line)
        else:
            name = cell.metadata.get("mystnb", {}).get("figure", {}).get("name")
            if name:
                yield name, line


def markdown_labels(text: str, start: int) -> Iterator[tuple[str, int]]:
    """Parcourt les étiquettes d'une cellule de texte qui commence à la ligne ``start``."""
    fences: list[tuple[str, bool]] = []  # (clôture, contenu littéral ?)
    for line, content in enumerate(text.splitlines(), start=start):
        found = _FENCE.match(content)
        if found and fences and not found["info"] and found["fence"].startswith(fences[-1][0]):
            fences.pop()
        elif found and not (fences and fences[-1][1]):
            fences.append((found["fence"], not found["info"].startswith("{")))
        elif not (fences and fences[-1][1]):
            label = _LABEL.search(content)
            if label:
                yield next(value for value in label.groups() if value), line


def is_generated(path: Path) -> bool:
    """Dit si un notebook porte la marque de cet outil."""
    try:
        metadata = json.loads(path.read_text("utf-8")).get("metadata", {})
        return bool(metadata.get("weave", {}).get("generated_by") == GENERATOR)
    except (ValueError, AttributeError):
        return False


def orphans(root: Path, woven: dict[Path, bytes]) -> list[Path]:
    """Liste les notebooks générés dont la source n'existe plus."""
    return [path for path in sorted((root / NOTEBOOKS).glob("*.ipynb")) if path not in woven and is_generated(path)]


def write_atomically(path: Path, content: bytes) -> None:
    """Écrit un fichier entier ou rien : fichier temporaire à côté, puis remplacement."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def update(root: Path) -> list[str]:
    """Écrit les notebooks qui ont changé, retire les orphelins et rend la liste de ce qui a été fait."""
    woven = weave(root)
    done = []
    for path, content in woven.items():
        if not path.exists() or path.read_bytes() != content:
            write_atomically(path, content)
            done.append(f"écrit   {path.relative_to(root).as_posix()}")
    for path in orphans(root, woven):
        path.unlink()
        done.append(f"retiré  {path.relative_to(root).as_posix()} (source disparue)")
    return done


def drift(root: Path) -> list[str]:
    """Liste les notebooks qui ne correspondent plus à leur source."""
    woven = weave(root)
    messages = []
    for path, content in woven.items():
        name, source = path.relative_to(root).as_posix(), f"{CHAPTERS}/{path.stem}.md"
        if not path.exists():
            messages.append(f"{name} manque : il se génère depuis {source}.")
        elif path.read_bytes() != content:
            messages.append(
                f"{name} diffère de sa source : modifiez {source} (ou la classe dans memoire/), jamais le notebook."
            )
    for path in orphans(root, woven):
        messages.append(f"{path.relative_to(root).as_posix()} n'a plus de source.")
    return messages


def main(arguments: list[str] | None = None) -> int:
    """Point d'entrée : tisse, ou vérifie avec --check ; rend le code de sortie."""
    parser = argparse.ArgumentParser(prog="python -m tools.weave", description="Tisse les notebooks des chapitres.")
    parser.add_argument("--check", action="store_true", help="ne rien écrire : signaler les notebooks en retard")
    parser.add_argument("--root", type=Path, default=ROOT, help="racine du dépôt")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    sys.path.insert(0, str(root))
    try:
        messages = drift(root) if options.check else update(root)
    except WeaveError as error:
        print(error, file=sys.stderr)
        print("Tissage impossible : corrigez ces lignes, puis relancez « make notebooks ».", file=sys.stderr)
        return 1
    for message in messages:
        print(message, file=sys.stderr if options.check else sys.stdout)
    if options.check and messages:
        print("Notebooks en retard : lancez « make notebooks », puis validez le résultat.", file=sys.stderr)
        return 1
    if not messages:
        print("Notebooks à jour.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
