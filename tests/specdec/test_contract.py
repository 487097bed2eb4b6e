"""The contract's own data: ranges are refused by name, everything crosses a pipe unchanged."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from specdec import errors
from specdec.contract import (
    ChatRequest,
    ErrorInfo,
    Failed,
    Finished,
    Message,
    Round,
    Sampling,
    Span,
)
from specdec.errors import EngineError, SettingError, SpecdecError
from specdec.metrics import Metrics


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("temperature", -0.1, "temperature"),
        ("temperature", float("nan"), "temperature"),
        ("top_k", -1, "top-k"),
        ("top_p", 0.0, "top-p"),
        ("top_p", 1.1, "top-p"),
        ("min_p", 1.5, "min-p"),
        ("repetition_penalty", 0.0, "repetition penalty"),
        ("frequency_penalty", 3.0, "frequency penalty"),
        ("presence_penalty", -2.5, "presence penalty"),
        ("seed", -1, "seed"),
        ("max_tokens", 0, "max tokens"),
    ],
)
def test_a_setting_out_of_range_is_named_with_its_range(
    field: str, value: float, name: str
) -> None:
    with pytest.raises(SettingError) as caught:
        replace(Sampling(), **{field: value})
    assert caught.value.message.startswith(name)
    assert "must be" in caught.value.hint


def test_edges_that_mean_off_or_greedy_are_allowed() -> None:
    Sampling(temperature=0, top_k=0, top_p=1, min_p=0, seed=0, max_tokens=1)


@pytest.mark.parametrize("field", ["mode", "rule", "runner"])
def test_an_unknown_word_in_a_request_is_refused(field: str) -> None:
    with pytest.raises(SettingError, match=field):
        ChatRequest((), **{field: "nonsense"})


@pytest.mark.parametrize("k", [-1, 17])
def test_k_has_a_range(k: int) -> None:
    with pytest.raises(SettingError, match="k is"):
        ChatRequest((), k=k)


def test_empty_stop_string_is_refused() -> None:
    with pytest.raises(SettingError, match="stop string"):
        Sampling(stop=("a", ""))


def test_events_and_errors_cross_a_pipe_unchanged() -> None:
    event = Round((1, 2), "ab", (Span(0, 2, "kept"),), 3, 2, 0.1, k=4, source="ngram", reason="r")
    request = ChatRequest((Message("user", "hi", (1,)),), Sampling(stop=("x",)))
    failed = Failed(ErrorInfo.of(SettingError("what", "do")))
    for value in (event, request, failed, Finished("end", Metrics(new_tokens=3))):
        assert pickle.loads(pickle.dumps(value)) == value
    error = pickle.loads(pickle.dumps(EngineError("what", "do")))
    assert (type(error), error.message, error.hint) == (EngineError, "what", "do")


def test_a_round_without_a_choice_names_none() -> None:
    plain = Round((1,), "a", (), 0, 0, 0.1)
    assert (plain.k, plain.source, plain.reason) == (0, "", "")


def test_an_error_as_data_comes_back_as_its_kind() -> None:
    kinds = [
        k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, SpecdecError)
    ]
    assert len(kinds) > 8
    for kind in kinds:
        back = ErrorInfo.of(kind("what", "do")).revive()
        assert (type(back), str(back)) == (kind, "what do")
    other = ErrorInfo.of(ZeroDivisionError("oops")).revive()
    assert isinstance(other, EngineError)
    assert "ZeroDivisionError: oops" in other.message


def test_ratios_are_of_kept_tokens_and_of_the_decode_clock() -> None:
    m = Metrics(
        new_tokens=21, rounds=7, drafted=20, accepted=14, decode_s=2.0, first_round_tokens=1
    )
    assert (m.tok_s, m.tokens_per_round, m.acceptance) == (10.0, 3.0, 0.7)
    assert Metrics().tok_s == Metrics().tokens_per_round == Metrics().acceptance == 0.0
    assert {"new_tokens", "rounds", "drafted", "accepted", "tok_s"} <= set(m.to_json())
