"""Benchmark arithmetic: rates, ratios, turns, time left, the report. No models."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from specdec.bench import plan, plot, report
from specdec.bench.card import Card, Result
from specdec.bench.physics import Physics
from specdec.bench.race import Left, race
from specdec.bench.sample import Reply, Sample, fastest_plain, rows
from specdec.cli import main
from specdec.errors import EngineError, SettingError
from specdec.options import EngineOptions
from specdec.request import Sampling


def reply(rate: float, tokens: int = 5, first: float = 1.0, **more: object) -> Reply:
    """The first token after `first` seconds, then `rate` a second."""
    marks = tuple((n + 1, first + n / rate) for n in range(tokens))
    return replace(Reply(tuple(range(tokens)), marks, tokens, 0, 0), **more)  # type: ignore[arg-type]


def test_a_rate_leaves_out_the_first_tokens_and_the_time_before_them() -> None:
    made = Reply((7, 8, 9, 7), ((2, 10.0), (4, 11.0)))
    assert (made.tok_s, made.first_s, made.total_s) == (2.0, 10.0, 11.0)
    assert (made.until(1), made.until(3), made.until(10)) == (10.0, 11.0, 11.0)
    assert Reply((1, 2), ((2, 3.0),)).tok_s == 0.0


def test_what_is_outside_passes_is_a_share_of_the_time_after_the_first_token() -> None:
    made = Reply((1, 2), ((1, 8.0), (2, 10.0)), passes_s=1.5)
    assert made.outside == pytest.approx(0.25)
    assert replace(made, passes_s=None).outside is None


def samples() -> list[Sample]:
    """Two prompts; the fast plain runner is the faster one, and the draft's gain differs."""
    rates = {"plain": (2.0, 4.0), "plain-fast": (4.0, 5.0), "ngram": (8.0, 15.0)}
    found = [
        Sample("code", place, 0, "specdec", name, reply(rate, rounds=2 if name == "ngram" else 5))
        for name, both in rates.items()
        for place, rate in enumerate(both)
    ]
    other = reply(1.0, drafted=None, accepted=None, rounds=None, ids=(9, 9, 9, 9, 9))
    return [*found, Sample("code", 0, 0, "transformers", "plain", other)]


def test_ratios_are_taken_prompt_by_prompt_over_the_engine_s_fastest_plain() -> None:
    by_name = {(row.engine, row.drafter): row for row in rows(samples())}
    assert fastest_plain(samples(), "code", "specdec") == ("code", "specdec", "plain-fast")
    ngram = by_name["specdec", "ngram"]
    assert ngram.ratio_to_plain == pytest.approx((8 / 4 + 15 / 5) / 2)
    assert (ngram.tok_s, ngram.tok_s_min, ngram.tok_s_max) == pytest.approx((11.5, 8.0, 15.0))
    assert ngram.tokens_per_round == pytest.approx(10 / 4)
    assert (ngram.same, ngram.compared) == (2, 2)
    theirs = by_name["transformers", "plain"]
    assert (theirs.ratio_to_plain, theirs.tokens_per_round, theirs.drafted) == (1.0, None, None)
    assert (theirs.same, theirs.compared) == (1, 1)  # with its own plain reply, not ours


def result() -> Result:
    card = Card({"cpu": "x"}, {"torch": "2"}, "bf16", {"target": "t"}, 0)
    return Result(card, samples(), Physics(100.0, 10, "sum"), ("Runner static: measured.",))


def test_the_json_has_the_fields_of_the_issue_and_no_others() -> None:
    data = json.loads(report.to_json(result()))
    assert set(data) == {"card", "rows"}
    assert set(data["card"]) == {"machine", "versions", "dtype", "settings", "seed"}
    assert len(data["rows"]) == 4
    for row in data["rows"]:
        assert set(row) == {
            "kind", "engine", "drafter", "tok_s", "tok_s_min", "tok_s_max", "ratio_to_plain",
            "tokens_per_round", "drafted", "accepted",
        }  # fmt: skip
    assert data["rows"][3]["drafted"] is None


def test_the_text_has_the_table_the_limit_and_the_shares() -> None:
    text = report.text(result())
    assert (
        "| code | specdec | ngram | 11.50 (8.00 to 15.00) | 2.50 | 8.00 | - | 2.50 | 0/0 |" in text
    )
    assert "cannot pass 10.00 tok/s" in text
    assert "code: plain reaches 45%, ngram 115%." in text  # a plain row's median is 4.5
    assert "code, ngram: first token +0.0% and tenth" in text


class Scripted:
    """Makes replies at a given rate and notes when it was asked."""

    def __init__(self, drafter: str, log: list[str], short: bool = False) -> None:
        self.engine, self.drafter = "specdec", drafter
        self._log, self._short = log, short

    def reply(self, prompt: tuple[int, ...], tokens: int) -> Reply:
        self._log.append(f"{self.drafter}{prompt[0]}:{tokens}")
        return reply(2.0, tokens - self._short, first=0.5)


def ticking(step: float) -> Callable[[], float]:
    times = iter(range(1000))
    return lambda: next(times) * step


PROMPTS = {"code": [(1,), (2,)], "chat": [(3,), (4,)]}
"""All of one length: the first is the shortest."""


def test_the_order_turns_kinds_alternate_and_the_warm_up_is_not_counted() -> None:
    log: list[str] = []
    told: list[str] = []
    made = race([Scripted("a", log), Scripted("b", log)], PROMPTS, 9, 1, told.append)
    assert log[:2] == ["a1:6", "b1:6"]
    assert log[2:] == ["a1:9", "b1:9", "b3:9", "a3:9", "a2:9", "b2:9", "b4:9", "a4:9"]
    assert len(made) == 8
    assert [(s.kind, s.place, s.drafter) for s in made[2:4]] == [("chat", 0, "a"), ("chat", 0, "b")]
    assert "about 36 s to go" in told[0]  # 8 replies of 0.5 s and 8 tokens at 2 a second
    assert "about 0 s to go" in told[-1]


def test_minutes_leave_out_later_prompts_of_all_kinds_alike() -> None:
    told: list[str] = []
    args = ([Scripted("a", [])], PROMPTS, 9, 1, told.append)
    made = race(*args, minutes=1.0, clock=ticking(55.0))
    assert [(s.kind, s.place) for s in made] == [("code", 0), ("chat", 0)]
    assert "1 of 2 prompts" in told[-1]
    assert len(race(*args, minutes=2.0, clock=ticking(55.0))) == 4


def test_what_was_complete_when_it_was_stopped_is_kept() -> None:
    class Stopped(Scripted):
        def reply(self, prompt: tuple[int, ...], tokens: int) -> Reply:
            if prompt == (2,):
                raise KeyboardInterrupt
            return super().reply(prompt, tokens)

    told: list[str] = []
    made = race([Scripted("a", []), Stopped("b", [])], PROMPTS, 9, 1, told.append)
    assert [(s.kind, s.place) for s in made] == [("code", 0)] * 2 + [("chat", 0)] * 2
    assert told[-1].startswith("stopped")
    with pytest.raises(KeyboardInterrupt):
        race([Stopped("b", [])], {"code": [(2,)]}, 9, 1, told.append)


def test_a_reply_in_one_piece_has_no_rate_and_no_part_in_ratios() -> None:
    whole = Reply((1, 2), ((2, 3.0),))
    found = [
        Sample("code", 0, 0, "specdec", "plain", reply(2.0)),
        Sample("code", 0, 0, "specdec", "ngram", whole),
        Sample("code", 1, 0, "specdec", "plain", whole),
        Sample("code", 1, 0, "specdec", "ngram", reply(6.0)),
    ]
    plain, ngram = rows(found)
    assert [plain.tok_s, ngram.tok_s] == pytest.approx([2.0, 6.0])
    assert ngram.ratio_to_plain is None


def test_a_reply_that_is_too_short_is_no_measurement() -> None:
    with pytest.raises(EngineError, match="specdec a made 8 tokens of 9"):
        race([Scripted("a", [], short=True)], PROMPTS, 9, 1, lambda text: None)


def test_time_left_follows_what_replies_took() -> None:
    left = Left(1, 10)
    left.guess(0, reply(1.0, 2, first=1.0), 21.0, 100)
    assert left.text() == "20 min"  # 10 x (21 + 99)
    left.done(0, 3.0)
    assert left.text() == "27 s"


def test_a_plan_refuses_what_measures_nothing(tmp_path: Path) -> None:
    good = plan.Plan(EngineOptions(tmp_path), None, ("ngram",), {"code": ("x",)}, 8, 1)
    for change, named in (
        ({"tokens": 1}, "--tokens is 1"),
        ({"runs": 0}, "--runs is 0"),
        ({"minutes": 0.0}, "--minutes is 0"),
        ({"peers": ("vllm",)}, "'vllm'"),
        ({"peers": ("llama.cpp",)}, "needs its server"),
    ):
        with pytest.raises(SettingError, match=named):
            replace(good, **change)
    sampled = Sampling(temperature=0.8)
    with pytest.raises(SettingError, match="do not compare"):
        replace(good, sampling=sampled)
    assert replace(good, sampling=sampled, peers=()).sampling == sampled


@pytest.mark.parametrize("words", [("--weights", "packed"), ("--target", "smollm2-135m-instruct")])
def test_random_weights_take_no_option_about_files(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--synthetic", "qwen3-8b", *words, "--data-dir", str(tmp_path)]) == 2
    assert f"{words[0]} says nothing about random weights" in capsys.readouterr().err


def test_prompts_come_by_kind_from_the_program_or_a_file(tmp_path: Path) -> None:
    assert plan.names(["code, chat", "code", "maths"]) == ("code", "chat", "maths")
    own = plan.prompts_by_kind(("chat", "code"), None, 2)
    assert list(own) == ["chat", "code"]
    assert [len(texts) for texts in own.values()] == [2, 2]
    assert len(plan.prompts_by_kind((), None, None)["copying"]) == 8
    file = tmp_path / "p.json"
    file.write_text(json.dumps({"mine": ["a", "b"]}))
    assert plan.prompts_by_kind((), file, None) == {"mine": ("a", "b")}
    with pytest.raises(SettingError, match="'code'"):
        plan.prompts_by_kind(("code",), file, None)
    for bad in ("[]", "{}", '{"a": []}', '{"a": [""]}', "no"):
        file.write_text(bad)
        with pytest.raises(SettingError, match=r"p\.json"):
            plan.read_prompts(file)


def test_a_picture_without_matplotlib_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plot, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match="matplotlib") as caught:
        plot.check()
    assert "specdec-chat[bench]" in caught.value.hint


def test_a_picture_is_a_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot.draw(result(), tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes()[:4] == b"\x89PNG"
