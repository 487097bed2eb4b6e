"""The page's words are gathered for translators, and a translation is what is shown."""

from __future__ import annotations

import gettext
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    tool = shutil.which("pybabel", path=str(Path(sys.executable).parent))
    assert tool, "pip install -e '.[dev]' brings Babel"
    now = tmp_path / "now.pot"
    subprocess.run(
        ["scripts/words", str(now)],
        cwd=ROOT,
        env={"BIN": str(Path(tool).parent), "PATH": "/usr/bin:/bin"},
        check=True,
    )
    kept = ROOT / "assets" / "locale" / "specdec.pot"
    assert kept.read_text("utf-8") == now.read_text("utf-8"), "run scripts/words"
