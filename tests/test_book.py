"""Le livre construit, de zéro et sans tolérance : complet, en français, accessible, et sans réseau."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Page, sync_playwright

from tools import build

pytestmark = pytest.mark.book

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
TOC = yaml.safe_load((build.ROOT / "_toc.yml").read_text("utf-8"))
DOCNAMES = [TOC["root"], *(chapter["file"] for part in TOC["parts"] for chapter in part["chapters"])]
EXTRA_PAGES = ["search", "genindex"]

# Mots que les thèmes affichent en anglais quand une traduction manque.
ENGLISH_INTERFACE = re.compile(
    r"\b(toggle|search|home|previous|next|contents|skip|copy|copied|download|click|show|hide|back to|theme|light|dark"
    r"|print|fullscreen|edit|main|navigation bar|permalink|link to|launch|close|open|menu|sidebar|version warning"
    r"|the|and|with|this|your)\b",
    re.IGNORECASE,
)
ENGLISH_LABELS = re.compile(
    r"^(definition|theorem|proof|remark|example|exercise|solution to|figure \d|table \d|listing|warning|hint|tip"
    r"|caution|see also|danger|attention|error|reference|references|glossary|footnotes)\b",
    re.IGNORECASE,
)
CITATION = re.compile(r"\b(19|20)\d\d\b.*\.")  # les titres des références restent dans leur langue
READ_ATTRIBUTES = ("title", "aria-label", "placeholder", "alt", "data-bs-title", "data-tooltip")


class Book(NamedTuple):
    """Le livre construit : son dossier HTML et ses pages, relues."""

    html: Path
    pages: dict[str, BeautifulSoup]


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Book:
    output = tmp_path_factory.mktemp("livre")
    command = [sys.executable, "-m", "tools.build", "--strict", "--output", str(output)]
    built = subprocess.run(command, cwd=build.ROOT, capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.fail(f"La construction stricte échoue :\n{built.stdout[-3000:]}\n{built.stderr[-6000:]}", pytrace=False)
    html = output / "html"
    assert not list((html / "reports").rglob("*.err.log"))
    pages = {path.relative_to(html).with_suffix("").as_posix(): path for path in html.rglob("*.html")}
    pages = {name: path for name, path in pages.items() if not name.startswith("_")}
    return Book(html, {name: BeautifulSoup(path.read_text("utf-8"), "html.parser") for name, path in pages.items()})


def faults(book: Book, check: Callable[[BeautifulSoup], Iterable[object]]) -> list[str]:
    return [f"{name} : {fault}" for name, page in sorted(book.pages.items()) for fault in check(page)]


def test_every_entry_of_the_table_of_contents_is_a_page(book: Book) -> None:
    for docname in DOCNAMES:
        heading = book.pages[docname].select_one("article h1")
        assert heading is not None, docname
        assert heading.get_text(strip=True)


def test_every_notebook_is_in_the_table_of_contents() -> None:
    notebooks = {f"notebooks/{path.stem}" for path in (build.ROOT / "notebooks").glob("*.ipynb")}
    assert notebooks
    assert notebooks <= set(DOCNAMES)


def test_a_chapter_has_the_number_of_its_file(book: Book) -> None:
    for docname in DOCNAMES:
        if chapter := re.match(r"notebooks/(\d\d)_", docname):
            number = book.pages[docname].select_one("article h1 .section-number")
            assert number is not None, docname
            assert number.get_text(strip=True) == f"{int(chapter[1])}."


def test_every_notebook_is_executed(book: Book) -> None:
    for docname in DOCNAMES:
        if docname.startswith("notebooks/"):
            assert book.pages[docname].select(".cell_output"), f"{docname} n'a aucune sortie"


def test_no_cell_shows_an_error(book: Book) -> None:
    assert faults(book, lambda page: page.select(".output.traceback, .cell_output .traceback")) == []


def test_every_page_declares_french(book: Book) -> None:
    for name, page in book.pages.items():
        if name != "index":  # simple redirection vers la page d'accueil
            assert page.html is not None
            assert page.html.get("lang") == "fr", name


def test_every_image_has_a_text_alternative(book: Book) -> None:
    def check(page: BeautifulSoup) -> list[str]:
        images = [image for image in page.find_all("img") if not str(image.get("alt", "")).strip()]
        generated = [image for image in page.select("article img") if re.search(r"^_?images?/|\.png$", image["alt"])]
        return [str(image)[:200] for image in [*images, *generated]]

    assert faults(book, check) == []


def test_every_reference_is_resolved(book: Book) -> None:
    anchors = {
        name: {str(tag.get("id") or tag.get("name")) for tag in page.select("[id], a[name]")}
        for name, page in book.pages.items()
    }
    broken = []
    for name, page in book.pages.items():
        broken += [f"{name} : {node.get_text()}" for node in page.select(".problematic, .system-message, span.xref")]
        for link in page.select("a[href]"):
            url = urlsplit(str(link["href"]))
            if url.scheme or url.netloc:
                continue
            here = book.html / f"{name}.html"
            target = (here.parent / unquote(url.path)).resolve() if url.path else here
            if not target.exists():
                broken.append(f"{name} : {link['href']}")
            elif url.fragment and target.suffix == ".html":
                docname = target.relative_to(book.html.resolve()).with_suffix("").as_posix()
                if unquote(url.fragment) not in anchors.get(docname, set()):
                    broken.append(f"{name} : {link['href']}")
    assert broken == []


def test_no_page_names_an_external_resource(book: Book) -> None:
    def check(page: BeautifulSoup) -> list[str]:
        loaded = page.select("script[src], img[src], iframe[src], source[src], video[src], audio[src], embed[src]")
        urls = [str(tag["src"]) for tag in loaded] + [str(tag["href"]) for tag in page.select("link[href]")]
        inline = " ".join(script.get_text() for script in page.select("script:not([type*=json])"))
        return [url for url in urls if re.match(r"(https?:)?//", url)] + re.findall(r"https?://[^\s\"']+", inline)

    assert faults(book, check) == []


def test_no_style_sheet_names_an_external_resource(book: Book) -> None:
    external = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)]+")
    assert {str(path): external.findall(path.read_text("utf-8")) for path in book.html.rglob("*.css")} == {
        str(path): [] for path in book.html.rglob("*.css")
    }


def test_the_interface_is_in_french(book: Book) -> None:
    def check(page: BeautifulSoup) -> Iterator[str]:
        for noise in page.select("script, style, kbd, noscript, .navbar-brand, nav.bd-links, .prev-next-area, .bd-toc"):
            noise.extract()
        article = page.select_one("article")
        labels = article.select(".admonition-title, .caption-number, summary, .rubric") if article else []
        for label in labels:
            if ENGLISH_LABELS.search(label.get_text(" ", strip=True)):
                yield label.get_text(" ", strip=True)
        if article:
            article.extract()
        texts = list(page.body.stripped_strings) if page.body else []
        for tag in [*page.find_all(True), *(article.select("a.headerlink, summary, button") if article else [])]:
            texts += [str(tag[attribute]) for attribute in READ_ATTRIBUTES if tag.get(attribute)]
        yield from (text for text in texts if ENGLISH_INTERFACE.search(text))

    fresh = {name: BeautifulSoup(str(page), "html.parser") for name, page in book.pages.items() if name != "index"}
    assert faults(Book(book.html, fresh), check) == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip(f"Chromium est absent ({CHROMIUM}) : installez-le, ou indiquez-le par la variable CHROMIUM")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-background-networking"]
        )
        yield launched
        launched.close()


def visit(page: Page, url: str) -> list[str]:
    """Ouvre une page et rend tout ce qu'elle a fait d'anormal : requêtes hors du disque, erreurs."""
    seen: list[str] = []
    local = ("file:", "data:", "blob:")
    page.on("request", lambda each: None if each.url.startswith(local) else seen.append(f"requête {each.url}"))
    page.on("requestfailed", lambda each: seen.append(f"introuvable {each.url}"))
    page.on("console", lambda each: seen.append(f"console {each.text}") if each.type == "error" else None)
    page.on("pageerror", lambda each: seen.append(f"erreur {each}"))
    page.goto(url, wait_until="load")
    page.wait_for_function("!window.MathJax || !MathJax.startup || MathJax.startup.promise.then(() => true)")
    page.wait_for_timeout(300)
    return seen


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("docname", [*DOCNAMES, *EXTRA_PAGES])
def test_a_page_opens_without_network_error_or_overflow(book: Book, browser: Browser, docname: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    try:
        assert visit(page, (book.html / f"{docname}.html").as_uri()) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        names = page.evaluate(
            "([attributes]) => [...document.querySelectorAll('button, a, summary, input, nav')]"
            ".filter(each => !each.closest('.cell_output'))"
            ".flatMap(each => attributes.map(name => each.getAttribute(name)).filter(Boolean))",
            [READ_ATTRIBUTES],
        )
        names = [name for name in names if ENGLISH_INTERFACE.search(name) and not CITATION.search(name)]
        assert names == [], "des noms de boutons sont en anglais"
        if page.locator(".math").count():
            assert page.locator("mjx-container").count() > 0, "les formules ne sont pas composées"
        widgets = page.locator('script[type="application/vnd.jupyter.widget-view+json"]').count()
        if widgets:
            page.wait_for_function(f"document.querySelectorAll('.cell_output .widget-subarea').length >= {widgets}")
    finally:
        page.close()


@pytest.mark.browser
def test_the_front_door_leads_to_the_welcome_page(book: Book, browser: Browser) -> None:
    page = browser.new_page()
    try:
        page.goto((book.html / "index.html").as_uri())
        page.wait_for_url(f"**/{TOC['root']}.html")
    finally:
        page.close()


@pytest.mark.browser
def test_search_finds_a_word_of_the_course(book: Book, browser: Browser) -> None:
    page = browser.new_page()
    try:
        assert visit(page, (book.html / "search.html").as_uri() + "?q=mémoire") == []
        page.wait_for_selector("#search-results li a", timeout=10_000)
    finally:
        page.close()


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stays_readable_in_both_themes(book: Book, browser: Browser, theme: str) -> None:
    context = browser.new_context(color_scheme=theme)  # type: ignore[arg-type]
    try:
        page = context.new_page()
        page.goto((book.html / f"{DOCNAMES[-1]}.html").as_uri())
        page.wait_for_function(f"document.documentElement.dataset.theme === '{theme}'")
        ink = page.evaluate("getComputedStyle(document.querySelector('article p')).color")
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert contrast(ink, paper) >= 7
    finally:
        context.close()


def contrast(first: str, second: str) -> float:
    """Rapport de contraste entre deux couleurs « rgb(r, g, b) », au sens des WCAG 2.1."""

    def luminance(color: str) -> float:
        channels = [int(value) / 255 for value in re.findall(r"\d+", color)[:3]]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)
