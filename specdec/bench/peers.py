"""transformers' generate as a contender: plain, with an assistant model, with prompt lookup.

The same files, the same ids, greedy, no end id. Knows folders; nothing of this engine.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from specdec import threads
from specdec.bench.plan import TRANSFORMERS
from specdec.bench.sample import PLAIN, Reply
from specdec.pairing import NGRAM

LOOKUP = 10
"""Tokens that prompt lookup proposes: the number in transformers' own documentation."""


class Generate:
    """`generate` of one loaded model. `extra` makes it assisted; the streamer gives the times."""

    engine = TRANSFORMERS

    def __init__(self, model: Any, drafter: str, extra: dict[str, Any], count: int) -> None:
        self.drafter = drafter
        self._model = model
        self._extra = extra
        self._threads = count

    @torch.inference_mode()
    def reply(self, prompt: tuple[int, ...], tokens: int) -> Reply:
        """Rows that the target scores beyond one a round were drafted: a hook counts them."""
        marks, rows = _Marks(), _Rows()
        ids = torch.tensor([prompt], device=self._model.device)
        hook = self._model.register_forward_pre_hook(rows, with_kwargs=True)
        try:
            with threads.using(self._threads):
                marks.began = perf_counter()
                self._model.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=False,
                    max_new_tokens=tokens,
                    streamer=marks,
                    **self._extra,
                )
        finally:
            hook.remove()
        rounds = len(marks.found)
        drafted = rows.seen - len(prompt) - (rounds - 1)
        accepted = len(marks.ids) - rounds
        return Reply(tuple(marks.ids), tuple(marks.found), rounds, drafted, accepted)


class _Marks:
    """A streamer: generate puts the prompt first, then what each round brought."""

    def __init__(self) -> None:
        self.began = 0.0
        self.ids: list[int] = []
        self.found: list[tuple[int, float]] = []
        self._prompt_seen = False

    def put(self, value: torch.Tensor) -> None:
        if not self._prompt_seen:
            self._prompt_seen = True
            return
        self.ids += [int(token) for token in value.flatten()]
        self.found.append((len(self.ids), perf_counter() - self.began))

    def end(self) -> None:
        """Nothing is held back."""


class _Rows:
    """Counts the rows the target's forward is given."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, module: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        ids = named.get("input_ids", args[0] if args else None)
        self.seen += 0 if ids is None else int(ids.shape[1])


def transformers_peers(
    target: Path, draft: Path | None, draft_id: str, device: torch.device, dtype: torch.dtype
) -> list[Generate]:
    """Load the same files in the same dtype; the draft too, where there is one.

    They too compute with as many threads as make their plain tokens soonest.
    """
    model = _load(target, device, dtype)
    count = _threads(model) if device.type == "cpu" else threads.most()
    found = [Generate(model, PLAIN, {}, count)]
    if draft is not None:
        extra = {"assistant_model": _load(draft, device, dtype)}
        found.append(Generate(model, draft_id, extra, count))
    return [*found, Generate(model, NGRAM, {"prompt_lookup_num_tokens": LOOKUP}, count)]


@torch.inference_mode()
def _threads(model: Any) -> int:
    ids = torch.zeros(1, 8, dtype=torch.int64)
    words = {"attention_mask": torch.ones_like(ids), "do_sample": False, "max_new_tokens": 4}
    return threads.choose(lambda: model.generate(input_ids=ids, **words)).count


def _load(folder: Path, device: torch.device, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM, GenerationConfig

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True)
    model.generation_config = GenerationConfig()  # the files' own samples, and ends at end ids
    return model.to(device).eval()
