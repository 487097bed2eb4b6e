"""Memory of real loads, each in a fresh process: as estimated, and no peak far above what stays."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from specdec import memory, quantised
from specdec.folder import PACKED
from specdec.registry import local_entry

pytestmark = [pytest.mark.real, pytest.mark.slow]

SMALL, DENSE, BIG = (
    "smollm2-135m-instruct",
    "qwen2.5-coder-0.5b-instruct",
    "qwen2.5-coder-1.5b-instruct",
)

PAIR = """
import json, psutil, sys
from pathlib import Path
from specdec.torch_env import prepare
prepare()
from specdec import forms, memory
from specdec.assemble import assemble
from specdec.contract import ChatRequest, Message, NeverCancel, Sampling
from specdec.depot import Depot
from specdec.device import choose
from specdec.draft_form import draft_form
from specdec.engine import LocalEngine
from specdec.options import EngineOptions
data, target, draft, weights, context = sys.argv[1:]
options = EngineOptions(Path(data), device="cpu", offline=True, context=int(context),
                        weights=None if weights == "-" else weights)
start = psutil.Process().memory_info().rss
engine = LocalEngine(options)
last = [event for event in engine.load(target, draft)][-1]
full = int(context) // 6 if weights == "int8" else 1  # transformers' KV cache grows as it fills
ask = ChatRequest((Message("user", "Count to five. " * full),),
                  Sampling(temperature=0, max_tokens=8))
list(engine.stream(ask, NeverCancel()))
grown = psutil.Process().memory_info().rss - start
where = choose("cpu")
depot = Depot(options, lambda phase: None, lambda: False)
files = depot.ready(depot.registry.get(target), weights == "packed")
need = forms.need_bytes(files, where, int(context), options.weights)
if draft not in ("none", "ngram"):
    need += memory.need_bytes(depot.ready(depot.registry.get(draft)).entry,
                              draft_form(None, where), int(context), draft=True)
print(json.dumps({"grown": grown, "need": need, "last": type(last).__name__}))
"""

PEAK = """
import json, psutil, sys, threading
from pathlib import Path
from specdec.torch_env import prepare
prepare()
from specdec.device import choose
from specdec.loading import load_model
import torch
torch.ops.aten._convert_weight_to_int4pack_for_cpu(torch.zeros(64, 32, dtype=torch.int32), 1)
me, over, peak = psutil.Process(), threading.Event(), [0]
start = me.memory_info().rss
def watch():
    while not over.wait(0.005):
        peak[0] = max(peak[0], me.memory_info().rss - start)
thread = threading.Thread(target=watch)
thread.start()
where = choose("cpu")
folder, packed, weights = sys.argv[1:]
model = load_model(Path(folder), where.device, where.dtype, where.form,
                   packed=Path(packed) if packed else None, weights=weights or None)
over.set()
thread.join()
print(json.dumps({"peak": peak[0], "grown": me.memory_info().rss - start, "form": where.form,
                  "kept": model.weight_bytes}))
"""


def measured(script: str, *words: str) -> dict[str, object]:
    run = subprocess.run(
        [sys.executable, "-c", script, *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
        cwd=Path(__file__).resolve().parents[2],
    )
    found: dict[str, object] = json.loads(run.stdout.splitlines()[-1])
    return found


def model(data: Path, name: str) -> Path:
    folder = data / "models" / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not here (SPECDEC_TEST_DATA)")
    return folder


def needs_quanto() -> None:
    if not quantised.installed("optimum-quanto"):
        pytest.skip("no optimum-quanto (extra int8)")


def packed(data: Path, name: str) -> Path:
    file = model(data, name) / PACKED
    if not file.is_file():
        pytest.skip(f"{file} is not here")
    return file


@pytest.mark.parametrize(
    ("draft", "weights", "context"),
    [
        ("none", "-", 8192),
        ("none", "-", 2048),
        (SMALL, "-", 2048),
        ("none", "packed", 8192),
        ("none", "int8", 1024),
    ],
)
def test_the_estimate_is_within_a_tenth(data: Path, draft: str, weights: str, context: int) -> None:
    (packed if weights == "packed" else model)(data, SMALL)
    if weights == "int8":
        needs_quanto()
    found = measured(PAIR, str(data), SMALL, draft, weights, str(context))
    assert found["last"] == "Loaded"
    assert found["need"] == pytest.approx(found["grown"], rel=0.1)


def test_the_peak_while_loading_is_near_what_stays(data: Path) -> None:
    folder = model(data, DENSE)
    found = measured(PEAK, str(folder), "", "")
    kept = memory.weight_bytes(local_entry(folder), "fbgemm" if found["form"] == "fp16" else "bf16")
    assert kept is not None
    assert int(str(found["peak"])) <= 1.15 * kept


def test_a_packed_load_peaks_near_its_file(data: Path) -> None:
    file = packed(data, BIG)
    found = measured(PEAK, str(file.parent), str(file), "")
    assert int(str(found["peak"])) <= 1.6 * file.stat().st_size


def test_an_8_bit_load_peaks_near_what_stays(data: Path) -> None:
    """optimum-quanto's code counted in: the files must not stay mapped until the last layer."""
    needs_quanto()
    found = measured(PEAK, str(model(data, BIG)), "", "int8")
    kept, peak = int(str(found["kept"])), int(str(found["peak"]))
    assert peak <= 1.15 * kept
    assert int(str(found["grown"])) <= 1.1 * kept
