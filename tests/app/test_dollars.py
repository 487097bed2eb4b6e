"""Dollars: formulas are drawn, prices, shell variables and patterns are left as they are."""

from __future__ import annotations

import pytest

from app.markup import Growing, to_html
from app.maths import math_html
from tests.app.test_markup import read

MONEY_AND_SHELL = (
    "It costs $5, not $10.", "between $5-$10 or $5–$10", "$5, or 10$ there", "paid $5 (or 5$)",
    "costs $5. In Canada it is 7$.", "A$5 or US$6", "$5/month ($60/year)", "$100K, $2M", "$5\n$6",
    "**$5** or **$6**", "| $5 | $6 |\n|---|---|\n| $7 | $8 |", "$5 (five) or 6$.", "$5 `x$`",
    "$HOME and $PATH", "$HOME/$USER", "PATH=$PATH:$HOME/bin", "${a}/${b}", "$(date)$(id)",
    "echo $? $! $# $@", "$1, $2 and $3", "Run echo $HOME && kill $$ then $$ again",
    "$$ is the pid and $$ again", "$$ is the pid.\n\nkill -9 $$", "$$ is the shell, kill it: $$",
    "$a and $b, $c", "$foo,$bar", "$foo->bar($x)", "$_GET['a'] . $_POST['b']", "$('#a'), $('.b')",
    "^foo$|^bar$", r"\\d+$|^\\w+$", "a $ b $ c", r"\$5 and \$6$", "`$x$`", "$x_1$b", "$", "$$$$",
)  # fmt: skip
FORMULAS = (
    "$x$", "so $a_1 * b^2$ is", "let $x$, $y$ and $z$ be", "设$x$为整数", "($x$)", "$x$-axis",
    "$f(x) = x if x > 0$", r"$\text{speed of light} = c$", "**$E=mc^2$**", "# The $x$ axis",
    "| $x$ | $y$ |\n|---|---|\n| $1$ | $2$ |", "- $x^2$", "so $$x^2$$ holds", "> $x$", "$x$'s",
    r"$\{1, 2\}$", r"$5\$ + 3$", r"where $x \in \mathbb{R}$, $0 \leq y < 1$.", "$x = 1, y = 2$",
    "$$\nE = mc^2\n$$", "$$ E = mc^2 $$", "$3.14$", "$ab + cd$",
)  # fmt: skip


@pytest.mark.parametrize("text", MONEY_AND_SHELL)
def test_money_shell_and_patterns_stay_text(text: str) -> None:
    assert "<math" not in to_html(text)
    dollars = text.count("$")
    assert read(to_html(text)).text.count("$") == dollars


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_are_drawn_and_their_marks_gone(text: str) -> None:
    html = to_html(text)
    assert "<math" in html
    assert read(html).text.count("$") == text.count(r"\$")


def test_a_formula_keeps_what_markdown_would_eat() -> None:
    assert "<em>" not in to_html("$a_1 b_2$ and $c*d*e$")
    assert to_html("$a<b$").count("&lt;") == 1


def test_a_formula_that_is_still_being_written_is_text_until_it_ends() -> None:
    growing, text = Growing(), "So $x^2$ is it.\n\nIt costs $5 and $10."
    for end in range(1, len(text) + 1):
        html = growing.to_html(text[:end])
        assert html.replace("\n", "") == to_html(text[:end]).replace("\n", "")
    assert html.count("<math") == 1


@pytest.mark.parametrize("name", ["aligned", "align*", "gather", "gathered", "split", "multline"])
def test_formulas_of_several_lines_have_several_lines(name: str) -> None:
    tex = rf"\begin{{{name}}} a &= b \\ c &= d \end{{{name}}}"
    assert math_html(tex, True).count("<mtr>") == 2
    assert math_html(r"a = b \\ c = d", True).count("<mtr>") == 2
