"""A head from a folder: both layouts, the same logits as speculators' own module, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from specdec.decoder import Weights
from specdec.errors import LoadError
from specdec.heads.module import Head
from specdec.heads.reader import load_head
from specdec.heads.runner import HeadRunner
from specdec.heads.shape import head_shape, is_head
from specdec.linear import Int4
from specdec.loading import load_model
from tests.specdec.head_kit import (
    KINDS,
    LAYER,
    RECORDED,
    STEPS,
    config_of,
    inputs,
    tensors_of,
    theirs,
    write_head,
)
from tests.tiny import tiny_model

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    """A target of the heads' width, whose embedding a head without one shares."""
    folder = tiny_model(tmp_path_factory.mktemp("target"), hidden_size=32)
    weights = load_model(folder, CPU, torch.float32).weights
    assert weights is not None
    return weights


def ours(head: Head, states: Tensor, ids: Tensor) -> Tensor:
    """As the recorded logits: [STEPS, rows, drafts]; rows whose tokens run out are 0."""
    rows, drafts = len(states), head.shape.drafts
    made = torch.zeros(STEPS, rows, drafts)
    mine = torch.arange(drafts) if head.ids is None else head.ids
    for row in range(rows):
        runner = HeadRunner(head, rows + STEPS, head.shape.block.rows)
        runner.absorb(states[: row + 1])
        if row:
            runner.fill(ids[:row].tolist())
        made[0, row] = runner.read([int(ids[row])])[mine]
        for step in range(1, min(STEPS, rows - row)):
            made[step, row] = runner.follow(int(ids[row + step]))[mine]
    return made


def same(mine: Tensor, other: Tensor) -> None:
    for step in range(STEPS):
        stop = len(other[step]) - step
        assert (mine[step, :stop] - other[step, :stop]).abs().max() < 1e-5
    assert other.std() > 0.3  # logits with opinions: agreeing is not easy


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_that_speculators_recorded(kind: str, target: Weights) -> None:
    kept = load_file(RECORDED / kind / "speculators.safetensors")
    head = load_head(RECORDED / kind, target, torch.float32, "dense")
    same(ours(head, kept["states"], kept["ids"]), kept["logits"])


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_speculators_itself(kind: str, target: Weights, tmp_path: Path) -> None:
    pytest.importorskip("speculators.models.eagle3", reason="speculators is not installed")
    config = config_of(kind)
    tensors, (states, ids) = tensors_of(config, 7), inputs(config, 8)
    head = load_head(write_head(tmp_path, config, tensors), target, torch.float32, "dense")
    same(ours(head, states, ids), theirs(config, tensors, states, ids))


@pytest.mark.parametrize("layout", ["speculators", "eagle"])
def test_both_layouts_give_one_head(layout: str, target: Weights, tmp_path: Path) -> None:
    config = config_of("plain")
    tensors, (states, ids) = tensors_of(config, 3, own_embed=False), inputs(config, 4)
    folder = write_head(tmp_path / layout, config, tensors, layout)
    head = load_head(folder, target, torch.float32, "dense")
    assert head.embed is target.embed
    other = write_head(tmp_path / "other", config, tensors)
    assert torch.equal(
        ours(head, states, ids),
        ours(load_head(other, target, torch.float32, "dense"), states, ids),
    )


def test_logits_stand_at_the_targets_ids(target: Weights, tmp_path: Path) -> None:
    config = config_of("plain")
    tensors, (states, ids) = tensors_of(config, 3), inputs(config, 4)
    head = load_head(write_head(tmp_path, config, tensors), target, torch.float32, "dense")
    runner = HeadRunner(head, 32, 90)  # the target knows fewer ids than its matrices have rows
    runner.absorb(states)
    row = runner.read(ids[: len(states)].tolist())
    known = torch.nonzero(tensors["t2d"])[:, 0]
    assert row.shape == (90,)
    assert row.isfinite().nonzero()[:, 0].tolist() == [i for i in known.tolist() if i < 90]


def test_a_chunk_at_a_time_is_the_same_as_all_at_once(target: Weights, tmp_path: Path) -> None:
    config = config_of("llama")
    tensors, (states, ids) = tensors_of(config, 3), inputs(config, 4)
    head = load_head(write_head(tmp_path, config, tensors), target, torch.float32, "dense")
    whole, parts = HeadRunner(head, 32, 96), HeadRunner(head, 32, 96)
    whole.absorb(states)
    for piece in (states[:5], states[5:6], states[6:]):
        parts.absorb(piece)
    parts.fill(ids[:3].tolist())
    parts.fill(ids[3:7].tolist())
    torch.testing.assert_close(
        parts.read(ids[7:12].tolist()), whole.read(ids[:12].tolist()), atol=1e-5, rtol=0
    )


def test_what_it_reads_of_a_target() -> None:
    config = config_of("plain")
    assert head_shape(config).states_of(3) == (0, 1, 2)
    config["eagle_aux_hidden_state_layer_ids"] = None
    assert head_shape(config).states_of(36) == (2, 18, 33)
    flat = {**LAYER, "draft_vocab_size": 40}
    assert is_head(flat)
    assert not is_head(LAYER)
    nested = {**flat, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 46, 90]}}
    assert head_shape(nested).states_of(94) == (2, 47, 91)
    with pytest.raises(LoadError, match="3 layers"):
        head_shape(nested).states_of(3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"speculators_model_type": "dflash"}, "of kind dflash"),
        ({"transformer_layer_config": {**LAYER, "num_hidden_layers": 2}}, "2 layers"),
        ({"transformer_layer_config": {**LAYER, "model_type": "gemma3"}}, "family gemma3"),
        ({"target_hidden_size": 64}, "width 64"),
        ({"draft_vocab_size": 41}, "not a table of 41"),
    ],
)
def test_a_head_that_is_another_kind_is_refused(
    change: dict[str, Any], said: str, target: Weights, tmp_path: Path
) -> None:
    config = config_of("plain")
    folder = write_head(tmp_path, {**config, **change}, tensors_of(config, 1))
    with pytest.raises(LoadError, match=said):
        load_head(folder, target, torch.float32, "dense")


@pytest.mark.parametrize("name", ["fc.bias", "layers.0.self_attn.q_norm.weight", "mask_token"])
def test_a_tensor_that_nobody_would_read_is_refused(
    name: str, target: Weights, tmp_path: Path
) -> None:
    config = config_of("plain")
    tensors = {**tensors_of(config, 1), name: torch.zeros(8)}
    with pytest.raises(LoadError, match=name):
        load_head(write_head(tmp_path, config, tensors), target, torch.float32, "dense")


def test_a_map_that_names_an_id_twice_is_refused(target: Weights, tmp_path: Path) -> None:
    config = config_of("plain")
    tensors = tensors_of(config, 1)
    tensors["d2t"][5] = tensors["d2t"][4] - 1
    with pytest.raises(LoadError, match="twice"):
        load_head(write_head(tmp_path, config, tensors), target, torch.float32, "dense")
    del tensors["d2t"]
    with pytest.raises(LoadError, match="no d2t"):
        load_head(write_head(tmp_path, config, tensors), target, torch.float32, "dense")


def test_an_id_that_the_target_has_no_row_for_is_refused(target: Weights, tmp_path: Path) -> None:
    config = config_of("plain")
    tensors = tensors_of(config, 1)
    tensors["d2t"][-1] = 96 - 39  # the head itself knows 96 ids, the last of its 40 would be 96
    with pytest.raises(LoadError, match="one that is none"):
        load_head(write_head(tmp_path / "a", config, tensors), target, torch.float32, "dense")
    config = config_of("plain", vocab_size=1000)
    tensors = tensors_of(config, 1, own_embed=False)
    del tensors["lm_head.weight"]  # so that the target's rows are taken
    tied = replace(target, shape=replace(target.shape, tied=True))
    with pytest.raises(LoadError, match="output matrix has 320 rows"):
        load_head(write_head(tmp_path / "b", config, tensors), tied, torch.float32, "dense")


def test_a_head_without_an_output_matrix_takes_the_targets_rows(
    target: Weights, tmp_path: Path
) -> None:
    config = config_of("plain")
    tensors, (states, ids) = tensors_of(config, 3), inputs(config, 4)
    del tensors["lm_head.weight"]
    folder = write_head(tmp_path / "a", config, tensors)
    with pytest.raises(LoadError, match="no lm_head"):
        load_head(folder, opaque(target), torch.float32, "dense")
    tied = replace(target, shape=replace(target.shape, tied=True))
    head = load_head(write_head(tmp_path / "b", config, tensors), tied, torch.float32, "dense")
    assert isinstance(tied.embed, Tensor)
    assert head.ids is not None
    tensors["lm_head.weight"] = tied.embed[head.ids]
    own = load_head(write_head(tmp_path / "c", config, tensors), target, torch.float32, "dense")
    assert torch.equal(ours(head, states, ids), ours(own, states, ids))


def opaque(target: Weights) -> Weights:
    """The same with an output matrix whose rows cannot be read."""
    return replace(target, head=Int4.pack(torch.zeros(64, 32), None))
