"""What the fake engine has to show: models, a pair with reasons, the phases of a load."""

from __future__ import annotations

from specdec.contract import Choice, DraftOption, Memory, ModelInfo, Pace, Pair, Phase

MIB = 2**20


def make_pair(target: str, draft: str, runner: str = "static", exact: bool = True) -> Pair:
    """A pair with a reason for every choice."""
    drafts = (
        ("ngram", "n-gram over prompt and reply", "its step costs nothing", 0, True),
        ("smollm2-135m-instruct", "SmolLM2 135M", "token 17 differs", 70 * MIB, True),
        ("qwen2.5-coder-0.5b-instruct", "Qwen 0.5B", "tokens not compared yet", 250 * MIB, False),
        ("none", "No draft", "plain decoding", None, True),
    )
    return Pair(
        target=Choice(target, "the largest that fits in the memory that is free"),
        draft=Choice(draft, "needs no second model; its step costs nothing"),
        device=Choice("cpu", "no CUDA device and no Apple GPU were found"),
        dtype=Choice("bfloat16", "as published; this CPU multiplies bf16 faster than fp32"),
        draft_dtype=Choice("int4", "reads a quarter of the bytes; it cannot change the words"),
        runner=Choice(runner, "its step costs 7 % over width 1, at most 10 % is allowed"),
        exact=exact,
        context=4096,
        k=8,
        drafts=tuple(
            DraftOption(
                id,
                name,
                "chosen" if id == draft else "rejected" if "differs" in why else "possible",
                why,
                size,
                on_disk,
            )
            for id, name, why, size, on_disk in drafts
        ),
        memory=Memory(12_400 * 10**6, 269 * 10**6, 0, 94 * 10**6),
        pace=Pace(0.030, tuple(0.030 + 0.001 * k for k in range(9)), ((draft, 0.004),)),
        notices=("Third-party mirror of HuggingFaceTB/SmolLM2-135M-Instruct, sha256 checked.",),
    )


def _model(
    id: str, name: str, parameters: int, on_disk: bool, fits: str = "yes", gated: bool = False
) -> ModelInfo:
    reason = "needs 61.0 GB, 12.4 GB free" if fits == "no" else "needs 0.4 GB, 12.4 GB free"
    return ModelInfo(
        id=id,
        name=name,
        family=id.split("-")[0],
        roles=("target", "draft"),
        parameters=parameters,
        bytes=parameters * 2,
        licence="apache-2.0",
        context=8192,
        on_disk=on_disk,
        source="local folder" if on_disk else "hub",
        fits=Choice(fits, reason),
        verified=True,
        gated=gated,
    )


MODELS = (
    _model("smollm2-135m-instruct", "SmolLM2 135M Instruct", 134_515_008, True),
    _model("qwen2.5-coder-1.5b-instruct", "Qwen2.5 Coder 1.5B Instruct", 1_543_714_304, False),
    _model("qwen2.5-coder-0.5b-instruct", "Qwen2.5 Coder 0.5B Instruct", 494_032_768, True),
    _model("llama-3.2-1b-instruct", "Llama 3.2 1B Instruct", 1_235_814_400, False, gated=True),
    _model("qwen3-32b", "Qwen3 32B", 32_762_123_264, False, "no"),
)


def phases(name: str) -> tuple[Phase, ...]:
    """A load from a packaged mirror, in order."""
    total = 270 * MIB
    return (
        Phase("starting"),
        Phase("fetching", name, "packaged weights", total // 4, total, 21e6),
        Phase("fetching", name, "packaged weights", total // 2, total, 24e6),
        Phase("fetching", name, "packaged weights", total, total, 23e6),
        Phase("converting", name, "GGUF to safetensors", 1, 2),
        Phase("loading", name, "", 1, 3),
        Phase("loading", name, "", 3, 3),
        Phase("measuring", name, "one step at widths 1 and 8", 1, 2),
        Phase("ready", name),
    )
