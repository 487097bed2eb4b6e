"""The page's words are gathered for translators, and a translation is what is shown."""

from __future__ import annotations

import ast
import gettext
import re
import subprocess
import sys
from pathlib import Path
from string import Formatter

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo

from app import script_words, words

ROOT = Path(__file__).resolve().parents[2]


class Other(gettext.NullTranslations):
    """A language in which everything is said in capitals."""

    def gettext(self, message: str) -> str:
        return message.upper().replace("{N}", "{n}")

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)


def test_without_a_catalogue_the_english_text_is_shown() -> None:
    assert words.tr("Send") == "Send"
    assert words.tr("{a} of {b}", a=1, b="two") == "1 of two"
    assert words.tr("100 % {braces} stay") == "100 % {braces} stay"
    assert words.tr_n("{n} token", "{n} tokens", 1) == "1 token"
    assert words.tr_n("{n} token", "{n} tokens", 2000) == "2,000 tokens"


def test_another_language_is_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "catalogue", Other)
    assert words.tr("Send") == "SEND"
    assert words.tr_n("{n} token", "{n} tokens", 3) == "3 TOKENS"


def test_a_catalogue_is_found_by_the_language_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog(locale="de")
    catalog.add("Send", "Senden")
    catalog.add(("{n} token", "{n} tokens"), ("{n} Zeichen", "{n} Zeichen alle"))
    folder = tmp_path / "de" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    with (folder / "specdec.mo").open("wb") as file:
        write_mo(file, catalog)
    monkeypatch.setattr(words, "LOCALE", tmp_path)
    monkeypatch.setenv("LANGUAGE", "de")
    words.catalogue.cache_clear()
    try:
        assert words.tr("Send") == "Senden"
        assert words.tr_n("{n} token", "{n} tokens", 2) == "2 Zeichen alle"
        assert words.tr("Stop") == "Stop"
        assert "Senden" in script_words.element()
    finally:
        words.catalogue.cache_clear()


def test_each_text_names_the_fields_that_are_given() -> None:
    """A field without a value would be an error on the page, and only in the case it is for."""
    wrong, seen = [], 0
    for path in ROOT.glob("app/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            name = node.func.id
            if name not in ("tr", "tr_n"):
                continue
            texts = [
                a.value for a in node.args[: 1 + (name == "tr_n")] if isinstance(a, ast.Constant)
            ]
            given = {str(word.arg) for word in node.keywords} | ({"n"} if name == "tr_n" else set())
            for text in texts if given else ():
                seen += 1
                fields = {field for _, field, _, _ in Formatter().parse(str(text)) if field}
                if fields != given and not (name == "tr_n" and fields == given - {"n"}):
                    wrong.append(f"{path.name}:{node.lineno}: {text!r}")
    assert seen > 100
    assert wrong == []


def test_the_scripts_ask_for_words_that_the_page_gives_them() -> None:
    files = (*ROOT.glob("assets/*.js"), *ROOT.glob("app/ui/*.py"))
    scripts = "\n".join(path.read_text("utf-8") for path in files)
    asked = set(re.findall(r"""(?:specdec\.tr|[^.\w]sure)\((['"])(.+?)\1""", scripts))
    own = "\n".join(path.read_text("utf-8") for path in ROOT.glob("assets/*.js"))
    asked |= set(re.findall(r"""[^.\w]tr\((['"])(.+?)\1""", own))
    listed = re.search(r"const KEYS = \[(.*?)\];", own, re.DOTALL)
    assert listed
    keys = re.findall(r'\["[^"]+", "([^"]+)"\]', listed[1])
    assert len(keys) > 3
    assert {text for _, text in asked} | set(keys) == set(script_words.words())


def test_the_gathered_words_are_those_of_the_code(tmp_path: Path) -> None:
    now = tmp_path / "now.pot"
    subprocess.run([sys.executable, "scripts/words", str(now)], cwd=ROOT, check=True)
    kept = ROOT / "assets" / "locale" / "specdec.pot"
    assert kept.read_text("utf-8") == now.read_text("utf-8"), "run .venv/bin/python scripts/words"
