"""`specdec check` on real weights, as a user runs it ("done when" 4 of the second issue)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(7200)]

SMOL = "smollm2-135m-instruct"
QWEN, QWEN_DRAFT = "qwen2.5-coder-1.5b-instruct", "qwen2.5-coder-0.5b-instruct"


@pytest.mark.parametrize(
    ("target", "draft"),
    [(SMOL, "ngram"), (SMOL, SMOL), (QWEN, QWEN_DRAFT)],
    ids=["smollm2-ngram", "smollm2-itself", "qwen-pair"],
)
def test_the_check_passes_in_bf16_on_a_cpu(data: Path, target: str, draft: str) -> None:
    words = ["check", "--target", target, "--draft", draft, "--data-dir", str(data)]
    done = subprocess.run(
        [sys.executable, "-m", "specdec", *words, "--device", "cpu", "--dtype", "bfloat16"],
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("check passed")
