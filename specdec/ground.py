"""What a draft must suit, and what making one gives. Knows no kind of draft and no ranking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specdec.depot import Depot, Files
from specdec.device import DeviceChoice
from specdec.drafters.base import Drafter
from specdec.drafters.costs import DraftCost
from specdec.drafters.store import ReplyStore
from specdec.drafters.store_file import folder_of
from specdec.folder import fingerprint
from specdec.loading import Model
from specdec.measure import RunnerChoice
from specdec.pair import Choice, DraftOption

NO_FORM = Choice("-", "no weights")


@dataclass(frozen=True, slots=True)
class Drafting:
    """The drafter, why it was chosen, and all candidates.

    `seconds` is what a drafted token takes, `reading` what one of a chunk takes to be read. `store`
    is what its copies may come from beside the conversation, once it is lent. Where several
    compete, `members` has the costs of each, instead of `seconds` and `reading`. `net` is as in
    `DraftCost`.
    """

    drafter: Drafter
    choice: Choice
    dtype: Choice = NO_FORM
    seconds: float = 0.0
    reading: float = 0.0
    options: tuple[DraftOption, ...] = ()
    notices: tuple[str, ...] = ()
    store: ReplyStore | None = None
    members: Mapping[str, DraftCost] = field(default_factory=dict)
    net: bool = False

    @property
    def costs(self) -> Mapping[str, DraftCost]:
        """Of each source that is not free."""
        return self.members or {self.drafter.name: DraftCost(self.seconds, self.reading, self.net)}


@dataclass(frozen=True, slots=True)
class Ground:
    """What a draft must suit: the loaded target, its files and tokenizer, the place, its runner."""

    files: Files
    model: Model
    tokenizer: Any
    where: DeviceChoice
    context: int
    width: int
    runner: RunnerChoice
    free: int = 0  # bytes free on the device before the target was read

    @property
    def vocab(self) -> int:
        """Ids below this may be read, drawn and drafted."""
        return known_ids(self.tokenizer, self.model)


def known_ids(tokenizer: Any, model: Model) -> int:
    """How many ids, from 0, the tokenizer knows and the target has a row for.

    Some tokenizers know words that have no row; on CUDA, reading one ends the process.
    """
    return min(len(tokenizer), model.vocab)


def open_store(depot: Depot, ground: Ground) -> ReplyStore | None:
    """Earlier replies in the target's own tokens; None where none may be kept."""
    if not depot.options.ngram_store:
        return None
    folder = folder_of(depot.options.data_dir)
    return ReplyStore(folder, fingerprint(ground.files.folder), ground.vocab)
