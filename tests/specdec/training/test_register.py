"""A head's own row: a name of its own, and none lost where two are made at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from specdec.registry import load_registry
from specdec.training.register import register


def test_heads_that_are_done_at_once_are_all_registered(tmp_path: Path) -> None:
    target = load_registry().get("qwen3-8b")
    outs = [tmp_path / str(number) for number in range(8)]
    for out in outs:
        out.mkdir()
        (out / "model.safetensors").write_bytes(b"x")
    with ThreadPoolExecutor() as pool:
        names = list(pool.map(lambda out: register(tmp_path, out, target), outs))
    assert sorted(names) == sorted({"qwen3-8b-head", *(f"qwen3-8b-head-{n}" for n in range(2, 9))})
    found = load_registry(tmp_path)
    assert {found.get(name).folder for name in names} == set(outs)


def test_a_head_of_ones_own_stands_beside_the_one_that_ships(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x")
    target = load_registry().get("smollm2-135m-instruct")
    assert register(tmp_path, tmp_path, target) == "smollm2-135m-instruct-head-2"
    assert register(tmp_path, tmp_path, target) == "smollm2-135m-instruct-head-2"
