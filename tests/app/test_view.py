"""Words, figures and HTML of the page, from view models."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app import bubbles, pair_sheet, view
from app.chats import Thread
from app.effective import effective
from app.live import Facts, Live, facts_from, facts_of, fold
from app.markup import Growing
from app.records import StoredMessage
from app.replies import stored_request
from specdec.contract import (
    ChatRequest,
    Choice,
    DraftOption,
    ErrorInfo,
    Failed,
    Finished,
    Message,
    Notice,
    Phase,
    Prefill,
    Queued,
    Round,
    Sampling,
    Span,
    Started,
    Status,
)
from specdec.metrics import Metrics
from tests.app.fake_models import MODELS, make_pair

DONE = Metrics(10, 0, 41, 11, 40, 30, 0.25, 2.0, 0.1, 1)
READY = Status("ready", make_pair("smollm2-135m-instruct", "ngram"))


def values(metrics: Metrics, mode: str = "speculative", writing: bool = False) -> list[str]:
    figures = view.figures(metrics, mode, writing)  # type: ignore[arg-type]
    return [f"{f.value} {f.unit}" for f in figures]


def test_figures_come_from_the_engines_counters() -> None:
    assert values(DONE) == [
        "20.0 tok/s",
        "250 ms to first token",
        "3.73 tokens a round",
        "75% of drafts kept",
    ]


def test_nothing_drafted_is_said() -> None:
    none = replace(DONE, drafted=0, accepted=0)
    assert values(none)[-1] == "0 tokens drafted"
    assert len(values(none, "standard")) == 3
    first_round = replace(none, rounds=1)  # the first round never drafts: too early to say
    assert len(values(first_round, writing=True)) == 3
    assert values(Metrics()) == []


def test_events_fold_into_a_snapshot_with_the_engines_clock() -> None:
    live = fold(Live(), Queued(2))
    assert (live.stage, live.position) == ("waiting", 2)
    live = fold(live, Started(12, 4, 1, 99, "speculative", "static", True, "note"))
    live = fold(live, Prefill(8, 12))
    assert view.waiting(live) == ("Reading the prompt · 8 of 12 tokens", 8 / 12)
    live = fold(live, Round((5,), "a", (Span(0, 1, "bonus"),), 0, 0, 0.1, 1, 0.0))
    live = fold(
        live, Round((6, 7), "bc", (Span(0, 1, "kept"), Span(1, 2, "corrected")), 4, 1, 0.1, 3, 0.5)
    )
    assert (live.text, live.ids) == ("abc", (5, 6, 7))
    assert live.metrics.tok_s == 4.0  # 2 tokens after the first round in half a second
    assert (live.metrics.rounds, live.metrics.drafted, live.metrics.accepted) == (2, 4, 1)
    live = fold(live, Round((), "!", (Span(0, 1, "bonus"),), 0, 0, 0.0, 3, 0.5))
    assert (live.metrics.rounds, live.text) == (2, "abc!")  # held-back text is no round
    live = fold(live, Notice("off now"))
    done = fold(live, Finished("end", DONE, (5, 6, 7), "abc!"))
    assert (done.stage, done.state, done.metrics) == ("done", "complete", DONE)
    assert done.notices == ("note", "off now")
    assert fold(live, Failed(ErrorInfo("E", "m"))).state == "interrupted"
    assert fold(Live(), Failed(ErrorInfo("E", "m"))).state == "failed"


def test_the_claim_follows_the_runner_and_never_more() -> None:
    exact = Facts(DONE, "speculative", "static", True)
    assert view.claim(exact).text == "same words as plain decoding"  # type: ignore[union-attr]
    near = view.claim(replace(exact, exact=False, runner="fast"))
    assert near is not None
    assert near.text == "same law; words may differ at near-ties"
    plain = view.claim(replace(exact, mode="standard"))
    assert plain is not None
    assert "same words" not in plain.text
    assert view.claim(Facts()) is None


@pytest.mark.parametrize("exact", [True, False])
def test_the_rule_reject_never_claims_the_same_words(exact: bool) -> None:
    """It follows the same law, but draws its own noise: another text than plain decoding's."""
    text = "same law; other words than plain decoding"
    asked = ChatRequest((Message("user", "x"),), rule="reject")
    started = Started(1, 0, 0, 7, "speculative", "static", exact, "")
    live = fold(fold(Live(rule="reject"), started), Finished("end", DONE, (1,), "x"))
    for facts in (facts_of(live), facts_from({}, stored_request(asked, live, None))):
        claim = view.claim(facts)
        assert claim is not None
        assert (claim.text, claim.tone) == (text, "plain")
        assert "own noise" in claim.why
    assert view.claim(replace(facts_of(live), mode="standard")).text == "plain decoding"  # type: ignore[union-attr]


def test_a_longest_draft_of_0_is_said_in_the_pill() -> None:
    none = Facts(replace(DONE, drafted=0, accepted=0), "speculative", k=0)
    label = view.pill(READY, None, "speculative", none)
    assert (label.text, label.tone) == ("nothing drafted: longest draft is 0", "warn")
    assert view.pill(READY, None, "speculative", replace(none, k=4)).text == "speculative"
    stored = facts_from(DONE.to_json(), {"k": 0, "mode": "speculative"})
    assert view.pill(READY, None, "speculative", stored).text.startswith("nothing drafted")


@pytest.mark.parametrize("dropped", [1, 3])
def test_turns_left_out_are_said_once_and_say_nothing_of_speculation(dropped: int) -> None:
    said = "No system prompt."
    live = fold(Live(), Started(1, 0, dropped, 7, "speculative", "static", True, said))
    live = fold(live, Finished("end", replace(DONE, drafted=0, accepted=0), (1,), "x"))
    assert sum("left out" in text for text in view.remarks(facts_of(live))) == 1
    assert live.notices == (said,)
    quiet = facts_from(DONE.to_json() | {"drafted": 0}, {"dropped_turns": dropped})
    assert view.pill(READY, None, "speculative", quiet).text == "speculative"


@pytest.mark.parametrize(
    ("status", "phase", "mode", "last", "text", "tone"),
    [
        (READY, None, "speculative", None, "speculative", "on"),
        (READY, None, "standard", None, "standard", "plain"),
        (READY, Phase("loading", "x"), "standard", None, "loading", "busy"),
        (Status("starting"), None, "speculative", None, "starting", "busy"),
        (
            Status("failed", error=ErrorInfo("FitError", "Too big.", "Choose another.")),
            None, "speculative", None, "no model", "bad",
        ),
        (
            Status("ready", make_pair("x", "none")),
            None, "speculative", None, "speculation off", "warn",
        ),
        (
            READY, None, "speculative",
            Facts(mode="standard", notices=("the cache cannot be rewound",)), "fell back", "warn",
        ),
        (
            READY, None, "speculative",
            Facts(DONE, "speculative", notices=("it does not pay here",)),
            "speculative, with a note", "warn",
        ),
        (
            READY, None, "speculative",
            Facts(replace(DONE, drafted=0), "speculative", notices=("it does not pay here",)),
            "speculation off", "warn",
        ),
    ],
)  # fmt: skip
def test_the_pill_says_what_is_on_and_why_not(
    status: Status, phase: Phase | None, mode: str, last: Facts | None, text: str, tone: str
) -> None:
    label = view.pill(status, phase, mode, last)  # type: ignore[arg-type]
    assert (label.text, label.tone) == (text, tone)
    assert label.why
    if last is not None and last.notices:
        assert label.why == last.notices[-1]


def test_phases_show_bytes_and_rate_only_while_fetching() -> None:
    text, share = view.phase(Phase("fetching", "smollm2", "", 135_000_000, 270_000_000, 24e6))
    assert text == "Fetching smollm2 · 135 MB of 270 MB · 24 MB/s"
    assert share == 0.5
    assert view.phase(Phase("measuring", "smollm2", "widths 1 and 8")) == (
        "Measuring smollm2 · widths 1 and 8",
        None,
    )


def test_off_means_off_in_the_effective_settings() -> None:
    text = effective(Sampling())
    assert text.startswith("temperature 0.7 · off: top-k, top-p, min-p, repetition penalty")
    assert "fresh seed" in text
    text = effective(Sampling(temperature=0, top_k=40, seed=3, max_tokens=9, stop=("END",)))
    assert "always the likeliest" in text
    assert "top-k 40" in text
    assert "seed 3" in text
    assert "up to 9 tokens" in text
    assert "'END'" in text


def row(role: str, content: str, state: str = "complete", **request: object) -> StoredMessage:
    return StoredMessage(7, "c", role, content, (), state, DONE.to_json(), request)  # type: ignore[arg-type]


def test_a_stored_reply_shows_its_figures_and_how_it_ended() -> None:
    html = bubbles.reply(row("assistant", "Hi", runner="static", exact=True, reason="length"))
    assert "20.0" in html
    assert "cut at the token limit" in html
    assert "same words as plain decoding" in html


@pytest.mark.parametrize(
    ("state", "extra", "mark"),
    [
        ("interrupted", {"error": {"kind": "E", "message": "Gone.", "hint": ""}}, "interrupted"),
        ("partial", {}, "interrupted"),  # the program ended while it was written
        ("interrupted", {"reason": "cancelled"}, "stopped"),
        ("failed", {"error": {"kind": "E", "message": "Too long.", "hint": ""}}, "failed"),
    ],
)  # fmt: skip
def test_an_unfinished_reply_is_marked(state: str, extra: dict[str, object], mark: str) -> None:
    html = bubbles.reply(row("assistant", "Half a", state, **extra))
    assert f'<span class="mark">{mark}</span>' in html
    assert "Half a" in html
    if "error" in extra:
        assert 'role="alert"' in html


def test_what_the_user_wrote_is_shown_as_written() -> None:
    html = bubbles.user(row("user", "<b>x</b> **y** $1"))
    assert html.count("&lt;b&gt;x&lt;/b&gt; **y** $1") == 2  # shown, and kept for Copy
    assert "<b>" not in html


def test_the_reply_being_written_is_left_out_of_the_thread() -> None:
    rows = (row("user", "q"), replace(row("assistant", "half", "partial"), id=8))
    assert "half" not in bubbles.thread(Thread("c", rows=rows, writing=8))
    assert "half" in bubbles.thread(Thread("c", rows=rows))
    assert "welcome" in bubbles.thread(Thread())


def test_dropped_turns_are_said() -> None:
    facts = facts_from({}, {"dropped_turns": 2, "notices": ["n"]})
    assert view.remarks(facts) == (
        "The first 2 questions and their replies did not fit and were left out.",
        "n",
    )


def test_live_html_shows_what_is_waited_for_then_the_text() -> None:
    wait = bubbles.live(Live(stage="loading", phase=Phase("converting", "x")), Growing())
    assert "Converting x" in wait
    assert "<progress" in wait
    text = bubbles.live(Live(stage="writing", text="Hello <i>", metrics=DONE), Growing())
    assert "Hello &lt;i&gt;" in text


def test_the_sheet_gives_every_choice_its_reason_and_every_draft_its_verdict() -> None:
    pair = make_pair("smollm2-135m-instruct", "ngram")
    html = pair_sheet.sheet(Status("ready", pair), None, None)
    for choice in (pair.target, pair.draft, pair.device, pair.dtype, pair.draft_dtype, pair.runner):
        assert choice.value in html
        assert choice.reason in html
    for option in pair.drafts:
        assert option.name in html
        assert f"verdict-{option.verdict}" in html
    assert pair.notices[0] in html


def test_a_failed_load_says_why_and_what_is_still_loaded() -> None:
    html = pair_sheet.sheet(READY, None, ErrorInfo("FitError", "Needs 61 GB.", "Choose smaller."))
    assert "Needs 61 GB." in html
    assert "Choose smaller." in html
    assert "Still loaded: smollm2-135m-instruct with ngram" in html


def test_menus_name_what_stands_against_a_model() -> None:
    entries = {id: text for text, id in pair_sheet.targets(MODELS)}
    assert "needs a licence" in entries["llama-3.2-1b-instruct"]
    assert "needs 61.0 GB" in entries["qwen3-32b"]
    assert list(entries)[:2] == ["", "smollm2-135m-instruct"]
    pair = replace(READY.pair, draft=Choice("none", ""))  # type: ignore[type-var]
    drafts = {id: text for text, id in pair_sheet.drafts(MODELS, pair)}
    assert "token 17 differs" in drafts["smollm2-135m-instruct"]
    assert {"", "auto", "ngram", "none"} <= set(drafts)


def test_a_head_is_listed_for_its_own_target_alone() -> None:
    head = replace(MODELS[0], id="h", name="H", roles=("head",))
    pair = READY.pair
    assert pair is not None
    own = replace(pair, drafts=(*pair.drafts, DraftOption("h", "H", "possible", "trained for it")))
    assert "h" not in [id for _, id in pair_sheet.drafts([*MODELS, head], pair)]
    assert "h" in [id for _, id in pair_sheet.drafts([*MODELS, head], own)]
    assert "h" not in [id for _, id in pair_sheet.targets([*MODELS, head])]
