"""Construit le livre HTML : tisse les notebooks, exécute ceux qui ont changé, dit clairement ce qui échoue.

Usage : python -m tools.build [--strict] [--output DOSSIER] [--root DOSSIER]

Jupyter Book rend un code de succès quand un notebook échoue, et son cache d'exécution ne voit pas
les changements d'un module importé : cet outil corrige les deux.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import nbformat

from tools import weave

ROOT = weave.ROOT
SHOWN_LINES = 40
CODE = ("memoire", "constraints.txt")  # ce dont l'exécution dépend, en dehors des notebooks
DRESS = ("book/_static", "tools")  # ce dont les pages dépendent, sans que Sphinx le voie

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_REPORT = re.compile(r"executing the following cell:\n-{10,}\n(?P<cell>.*?)\n-{10,}\n(?P<error>.*)", re.DOTALL)
_TIMEOUT = re.compile(r"Here is a preview of the cell contents:\n-{10,}\n(?P<cell>.*?)\n-{10,}", re.DOTALL)


@dataclass(frozen=True)
class Failure:
    """Une page dont une cellule a échoué pendant la construction."""

    page: str
    docname: str
    source: str
    number: int | None
    cell: str
    error: str

    def __str__(self) -> str:
        where = f", cellule de code n° {self.number}" if self.number else ""
        lines = self.cell.splitlines()
        shown = lines[:SHOWN_LINES] + (["…"] if len(lines) > SHOWN_LINES else [])
        return "\n".join(
            [
                f"Échec : {self.page}{where}",
                *(f"  │ {line}" for line in shown),
                *(f"  {line}" for line in self.error.splitlines()[-SHOWN_LINES:]),
                f"  À corriger dans {self.source} (ou dans la classe qu'elle montre, sous memoire/).",
            ]
        )


def fingerprint(root: Path, names: tuple[str, ...]) -> str:
    """Résume le contenu de fichiers et de dossiers du dépôt."""
    digest = hashlib.sha256()
    for name in names:
        top = root / name
        files = [path for path in top.rglob("*") if path.is_file()] if top.is_dir() else [top]
        for path in sorted(files):
            if "__pycache__" not in path.parts:
                digest.update(path.relative_to(root).as_posix().encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def has_changed(root: Path, names: tuple[str, ...], stamp: Path) -> bool:
    """Dit si ces fichiers ont changé depuis le dernier appel, dont ``stamp`` garde le résumé."""
    current = fingerprint(root, names)
    if stamp.exists() and stamp.read_text() == current:
        return False
    stamp.write_text(current)
    return True


def forget_stale_results(root: Path, output: Path) -> None:
    """Écarte ce que les caches gardent à tort : sorties d'un ancien paquet, pages d'un ancien habillage."""
    output.mkdir(parents=True, exist_ok=True)
    code_changed = has_changed(root, CODE, output / ".code.sha256")
    dress_changed = has_changed(root, DRESS, output / ".dress.sha256")
    if code_changed:
        if (output / ".jupyter_cache").exists():
            print("Le paquet memoire a changé : tous les notebooks seront réexécutés.", flush=True)
        shutil.rmtree(output / ".jupyter_cache", ignore_errors=True)
    if code_changed or dress_changed:
        shutil.rmtree(output / ".doctrees", ignore_errors=True)


def isolate_kernels(output: Path) -> None:
    """Donne aux noyaux une configuration IPython à eux : ni réglages personnels, ni avertissements inutiles."""
    profile = output / ".ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 40\n")
    os.environ["IPYTHONDIR"] = str(output / ".ipython")


def run_sphinx(root: Path, output: Path, strict: bool) -> bool:
    """Lance Jupyter Book avec des messages en français ; dit si la construction a réussi."""
    import sphinx.locale
    from jupyter_book.sphinx import build_sphinx

    sphinx.locale.init([Path(sphinx.locale.__file__).parent], "fr", "sphinx", "console")
    result = build_sphinx(
        root,
        output / "html",
        noconfig=True,
        path_config=root / "_config.yml",
        confoverrides={
            "external_toc_path": (root / "_toc.yml").as_posix(),
            "latex_individualpages": False,
            "nitpicky": strict,
        },
        builder="html",
        warningiserror=strict,
        keep_going=strict,
        freshenv=strict,
    )
    return bool(result == 0)


def failures(root: Path, output: Path) -> list[Failure]:
    """Relit les rapports d'exécution que la construction vient d'écrire."""
    found = []
    reports = output / "html" / "reports"
    for report in sorted(reports.rglob("*.err.log")):
        docname = report.relative_to(reports).as_posix().removesuffix(".err.log")
        found.append(read_failure(root, docname, _ANSI.sub("", report.read_text("utf-8"))))
    return found


def read_failure(root: Path, docname: str, report: str) -> Failure:
    """Retrouve dans un rapport d'exécution la cellule fautive et son erreur."""
    page, source, codes = read_page(root, docname)
    if match := _REPORT.search(report):
        cell, error = match["cell"], match["error"].strip()
    elif match := _TIMEOUT.search(report):
        cell, error = match["cell"], "La cellule dépasse la durée permise (« execute: timeout: » dans _config.yml)."
    else:
        cell, error = "", report.strip()
    number = codes.index(cell.strip()) + 1 if cell.strip() in codes else None
    return Failure(page, docname, source, number, cell, error)


def read_page(root: Path, docname: str) -> tuple[str, str, list[str]]:
    """Rend le nom d'une page exécutée (notebook ou texte MyST), sa source, et ses cellules de code."""
    page = f"{docname}.ipynb"
    if (root / page).exists():
        notebook = nbformat.read(root / page, as_version=4)
        source, cells = notebook.metadata.get("weave", {}).get("source", page), notebook.cells
    else:
        page = source = f"{docname}.md"
        cells = [cell for cell, _ in weave.parse((root / page).read_text("utf-8"))]
    return page, source, [cell.source.strip() for cell in cells if cell.cell_type == "code"]


def build(root: Path, output: Path, strict: bool) -> bool:
    """Tisse, exécute et écrit le livre dans ``output``/html ; dit si tout a réussi."""
    started = time.monotonic()
    for message in weave.update(root):
        print(message, flush=True)
    if strict:
        shutil.rmtree(output, ignore_errors=True)
    forget_stale_results(root, output)
    isolate_kernels(output)
    shutil.rmtree(output / "html" / "reports", ignore_errors=True)
    succeeded = run_sphinx(root, output, strict)

    failed = failures(root, output)
    for failure in failed:
        # Sans doctree, la page sera relue, donc réexécutée, à la prochaine construction.
        (output / ".doctrees" / f"{failure.docname}.doctree").unlink(missing_ok=True)
        print(f"\n{failure}", file=sys.stderr)
    if failed:
        print(
            "\nPour chercher la cause, exécutez le notebook dans JupyterLab (« make lab »). "
            "Une fois la source corrigée, relancez « make book » : seuls les notebooks modifiés s'exécutent.",
            file=sys.stderr,
        )
    elif not succeeded:
        print("\nLe livre n'est pas construit : corrigez les avertissements ci-dessus, puis relancez.", file=sys.stderr)
    else:
        page = output / "html" / "index.html"
        shown = page.relative_to(root) if page.is_relative_to(root) else page
        print(f"\nLivre construit en {time.monotonic() - started:.0f} s. Ouvrez {shown} dans un navigateur.")
    return succeeded and not failed


def main(arguments: list[str] | None = None) -> int:
    """Point d'entrée ; rend le code de sortie."""
    parser = argparse.ArgumentParser(prog="python -m tools.build", description="Construit le livre HTML.")
    parser.add_argument("--strict", action="store_true", help="tout refaire, et échouer au moindre avertissement")
    parser.add_argument("--root", type=Path, default=ROOT, help="racine du dépôt")
    parser.add_argument("--output", type=Path, help="dossier de construction (par défaut : _build)")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    output = (options.output or root / "_build").resolve()
    sys.path.insert(0, str(root))
    try:
        return 0 if build(root, output, options.strict) else 1
    except weave.WeaveError as error:
        print(f"{error}\nTissage impossible : corrigez ces lignes, puis relancez « make book ».", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
