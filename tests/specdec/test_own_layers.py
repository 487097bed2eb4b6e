"""Prediction layers inside a checkpoint are listed, and never chosen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig

from specdec.engine import LocalEngine
from specdec.options import EngineOptions
from specdec.own_layers import own_layers_option, prediction_layers
from tests.specdec.engines import load, make_folders


@pytest.mark.parametrize(
    ("config", "count"),
    [
        ({"num_nextn_predict_layers": 1}, 1),
        ({"text_config": {"mtp_num_hidden_layers": 2}}, 2),
        ({"num_mtp_layers": 3, "text_config": None}, 3),
        ({"num_nextn_predict_layers": 0}, 0),
        ({"num_nextn_predict_layers": None, "num_mtp_layers": True}, 0),
        ({}, 0),
    ],
)
def test_counts_are_read_under_every_name(config: dict[str, Any], count: int) -> None:
    assert prediction_layers(config) == count
    assert (own_layers_option(config) is None) == (count == 0)


@pytest.mark.parametrize("kind", ["deepseek_v3", "glm4_moe"])
def test_what_transformers_writes_is_understood(kind: str, tmp_path: Path) -> None:
    AutoConfig.for_model(kind, num_mtp_layers=1).save_pretrained(tmp_path)
    assert prediction_layers(json.loads((tmp_path / "config.json").read_text())) == 1


def test_a_load_lists_them_and_drafts_with_something_else(tmp_path: Path) -> None:
    folders = make_folders(tmp_path)
    file = folders.target / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "num_nextn_predict_layers": 1}))
    engine = LocalEngine(EngineOptions(folders.data, "cpu", "float32", offline=True))
    try:
        loaded = load(engine, folders.target, folders.draft)
    finally:
        engine.close()
    (row,) = [option for option in loaded.pair.drafts if option.id == "mtp"]
    assert (row.verdict, row.usable) == ("rejected", False)
    assert "name 1 (MTP)" in row.reason
    assert loaded.pair.draft.value == str(folders.draft)
