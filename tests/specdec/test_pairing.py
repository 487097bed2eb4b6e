"""Tokens compared, drafts ranked with reasons, the first target chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specdec.errors import LoadError, SourceError
from specdec.pair import DraftOption
from specdec.pairing import compatible, model_rows, pick_target, rank_drafts
from specdec.registry import Entry, load_registry
from specdec.sources import Store
from tests.specdec.store_kit import MARKERS, WORDS, entry, model_folder, packaged

GB = 10**9
BIG = {"layers": 28, "hidden": 1536, "intermediate": 8960, "heads": 12, "kv_heads": 2,
       "head_dim": 128, "vocab": 1000}  # fmt: skip
SMALL = {**BIG, "layers": 4, "hidden": 512, "intermediate": 1024}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, offline=True)


def put(store: Store, model: Entry, **folder: Any) -> None:
    model_folder(store.folder(model), **folder)


def named(options: tuple[DraftOption, ...]) -> dict[str, DraftOption]:
    return {option.id: option for option in options}


# --- tokens ---------------------------------------------------------------------------------


def test_same_tokens(tmp_path: Path) -> None:
    a, b = model_folder(tmp_path / "a"), model_folder(tmp_path / "b")
    assert (compatible(a, b).value, compatible(a, b).reason) == ("yes", "same tokens")


def test_padded_rows_are_accepted(tmp_path: Path) -> None:
    """A19: 152064 rows against 151936 of one family."""
    a = model_folder(tmp_path / "a", vocab_size=64)
    b = model_folder(tmp_path / "b", vocab_size=8)
    assert compatible(a, b).value == "yes"
    assert compatible(b, a).value == "yes"


def test_a_word_that_differs_is_named(tmp_path: Path) -> None:
    """A23: another family."""
    a = model_folder(tmp_path / "a")
    b = model_folder(tmp_path / "b", words=["a", "b", "x", "d"])
    assert compatible(a, b).value == "no"
    assert compatible(a, b).reason == "token 2 differs: 'c' / 'x'"


def test_unused_marker_may_differ(tmp_path: Path) -> None:
    """A22: refusing a pair for a marker that is never said is too strict."""
    a = model_folder(tmp_path / "a", markers=[*MARKERS, "<fim>"])
    b = model_folder(tmp_path / "b", markers=[*MARKERS, "<tool>"])
    assert compatible(a, b).value == "yes"
    assert "1 marker" in compatible(a, b).reason


def test_end_marker_must_agree(tmp_path: Path) -> None:
    a = model_folder(tmp_path / "a")
    b = model_folder(tmp_path / "b", markers=["<stop>", "<start>"])
    assert compatible(a, b).reason == "token 4 differs: '<end>' / '<stop>'"


def test_marker_the_template_writes_must_agree(tmp_path: Path) -> None:
    a = model_folder(tmp_path / "a")
    b = model_folder(tmp_path / "b", markers=["<end>", "<begin>"])
    assert compatible(a, b).reason == "token 5 differs: '<start>' / '<begin>'"
    plain = model_folder(tmp_path / "c", template="{{ messages }}")
    assert compatible(plain, b).value == "yes"


def test_marker_against_word_is_refused(tmp_path: Path) -> None:
    a = model_folder(tmp_path / "a", markers=[*MARKERS, "<fim>"])
    b = model_folder(tmp_path / "b", words=[*WORDS, "<end>", "<start>", "word"], markers=[])
    assert compatible(a, b).reason == "token 6 differs: '<fim>' / 'word'"


def test_draft_must_have_a_row_for_every_id(tmp_path: Path) -> None:
    a = model_folder(tmp_path / "a", markers=[*MARKERS, "<x>", "<y>", "<z>"])
    b = model_folder(tmp_path / "b", vocab_size=6)
    assert compatible(a, b).value == "no"
    assert "6 token rows" in compatible(a, b).reason


def test_unreadable_tokenizer_is_named(tmp_path: Path) -> None:
    a, b = model_folder(tmp_path / "a"), model_folder(tmp_path / "b")
    (a / "tokenizer.json").write_text("{}")
    with pytest.raises(LoadError, match=r"tokenizer\.json"):
        compatible(a, b)


# --- drafts ---------------------------------------------------------------------------------


def test_smallest_step_is_chosen_and_the_rest_keep_their_reasons(store: Store) -> None:
    target = entry("target", shape=BIG)
    good, heavy = entry("good", shape=SMALL), entry("heavy", shape={**SMALL, "layers": 8})
    alien, near = entry("alien", shape=SMALL), entry("near", shape={**BIG, "layers": 27})
    huge = entry("huge", shape={**SMALL, "vocab": 9_000_000})
    for model in (target, good, heavy, near, huge):
        put(store, model)
    put(store, alien, words=["z", "b", "c", "d"])
    options = rank_drafts(
        target, [heavy, alien, near, good, huge], store, 10 * GB, draft_form="bf16"
    )
    by = named(options)
    assert by["good"].verdict == "chosen"
    assert by["heavy"].verdict == "possible"
    assert by["alien"].reason.startswith(
        "token 0 differs: 'a' / 'z', and they cannot be translated"
    )
    assert "reads 9" in by["near"].reason
    assert by["near"].verdict == "rejected"
    assert by["huge"].reason.startswith("needs ")
    assert [o.id for o in options][-2:] == ["ngram", "none"]
    assert [o.verdict for o in options].count("chosen") == 1
    assert by["good"].bytes_per_step == 2 * good.shape.step_parameters  # type: ignore[union-attr,operator]


def test_a_packed_draft_may_pay_where_a_dense_one_does_not(store: Store) -> None:
    target, draft = entry("t", shape=BIG), entry("d", shape={**BIG, "layers": 20})
    dense = named(rank_drafts(target, [draft], store, 90 * GB, draft_form="bf16"))
    packed = named(rank_drafts(target, [draft], store, 90 * GB, draft_form="int4"))
    assert dense["d"].verdict == "rejected"
    assert "more than 50%" in dense["d"].reason
    assert packed["d"].verdict == "possible"


def test_active_experts_decide_whether_a_draft_pays(store: Store) -> None:
    """A31: the active part of a mixture may be no bigger than the draft."""
    moe = {**BIG, "intermediate": 700, "experts": 128, "experts_per_token": 2}
    draft = entry("d", shape={**BIG, "layers": 20})
    assert (
        named(rank_drafts(entry("t", shape=moe), [draft], store, 900 * GB))["d"].verdict
        == "rejected"
    )


def test_not_on_disk_is_possible_but_never_chosen_offline(store: Store) -> None:
    options = named(rank_drafts(entry("t", shape=BIG), [entry("d", shape=SMALL)], store, 90 * GB))
    assert options["d"].verdict == "possible"
    assert "tokens not compared yet" in options["d"].reason
    assert options["ngram"].verdict == "chosen"


def test_choosing_an_opt_in_target_opts_into_its_draft(tmp_path: Path) -> None:
    store = Store(tmp_path)
    mirror = packaged(tmp_path / "wheels", [b"x"], opt_in=True).model_dump()
    target = entry("t", shape=BIG, packaged=mirror)
    draft = entry("d", shape=SMALL, packaged=mirror)
    assert named(rank_drafts(target, [draft], store, 90 * GB))["d"].verdict == "chosen"
    plain = entry("t", shape=BIG)
    assert named(rank_drafts(plain, [draft], store, 90 * GB))["d"].verdict == "possible"


def test_gated_draft_is_not_fetched_unasked(tmp_path: Path) -> None:
    draft = entry("d", shape=SMALL, repo="o/d", gated=True)
    options = rank_drafts(
        entry("t", shape=BIG), [draft], Store(tmp_path), 90 * GB, hub_reachable=True
    )
    assert named(options)["d"].verdict == "possible"


@pytest.mark.parametrize(
    ("lacks", "told"),
    [
        ({}, ""),
        ({"bytes": None}, "its size is not known"),
        ({"revision": None}, "no revision is pinned"),
        ({"bytes": None, "revision": None}, "its size is not known and no revision is pinned"),
    ],
)
def test_a_head_is_fetched_unasked_only_where_its_size_and_revision_are_known(
    tmp_path: Path, lacks: dict[str, None], told: str
) -> None:
    known = {"repo": "o/h", "revision": "a" * 40, "bytes": 10**7, "trained_for": "t", **lacks}
    head = entry("h", roles=["head"], **known)
    target = entry("t", shape=BIG)
    options = named(rank_drafts(target, [head], Store(tmp_path), 90 * GB, hub_reachable=True))
    assert options["h"].verdict == ("possible" if told else "chosen")
    assert options["h"].usable  # it may be asked for by name
    said = f"trained for this target; not fetched unless asked for: {told}"
    assert options["h"].reason.endswith(said if told else "trained for this target")
    assert options["ngram"].verdict == ("chosen" if told else "possible")


def test_target_counts_against_free_memory_unless_loaded(store: Store) -> None:
    target, draft = entry("t", shape=BIG), entry("d", shape=SMALL)
    free = 2_700_000_000  # the target needs that with its buffer
    assert named(rank_drafts(target, [draft], store, free))["d"].verdict == "rejected"
    loaded = rank_drafts(target, [draft], store, free, target_loaded=True)
    assert named(loaded)["d"].verdict == "possible"


def test_shorter_context_of_the_draft_is_said(store: Store) -> None:
    """A37."""
    target, draft = entry("t", shape=BIG, context=8192), entry("d", shape=SMALL, context=2048)
    reason = named(rank_drafts(target, [draft], store, 90 * GB))["d"].reason
    assert "2048" in reason


# --- first start ----------------------------------------------------------------------------


def test_bare_cpu_without_hub_gets_smollm2(tmp_path: Path) -> None:
    choice = pick_target(load_registry(), Store(tmp_path), "cpu", 20 * GB, hub_reachable=False)
    assert choice.value == "smollm2-135m-instruct"
    assert "packaged" in choice.reason


@pytest.mark.parametrize(
    ("kind", "free", "wanted"),
    [
        ("cuda", 24 * GB, "qwen3-8b"),
        ("mps", 24 * GB, "qwen3-4b"),
        ("cuda", 140 * GB, "qwen3-32b"),
        ("cpu", 64 * GB, "qwen3-0.6b"),
    ],
)
def test_with_the_hub_the_largest_comfortable_one(
    tmp_path: Path, kind: str, free: int, wanted: str
) -> None:
    choice = pick_target(load_registry(), Store(tmp_path), kind, free, hub_reachable=True)
    assert choice.value == wanted


def test_offline_with_nothing_says_what_to_do(store: Store) -> None:
    with pytest.raises(SourceError, match="no model on this machine"):
        pick_target(load_registry(), store, "cpu", 20 * GB, hub_reachable=False)


def test_rows_for_page_and_terminal(store: Store) -> None:
    registry = load_registry()
    put(store, registry.get("smollm2-135m-instruct"))
    rows = {row.id: row for row in model_rows(registry, store, 2 * GB)}
    assert rows["smollm2-135m-instruct"].on_disk
    assert rows["smollm2-135m-instruct"].parameters == 134_479_872
    assert rows["qwen3-32b"].fits.value == "no"
    assert "free" in rows["qwen3-32b"].fits.reason
    assert rows["smollm3-3b"].fits.value == "unknown"
    assert rows["qwen3-8b"].source == "not reachable"
    assert rows["qwen3-8b"].parameters is None  # whether it ties its matrices was not read
    assert not rows["qwen3-8b"].verified
