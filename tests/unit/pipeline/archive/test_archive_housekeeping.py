"""Which directories are looked at, and when."""

from __future__ import annotations

import pytest

from bridgehead.pipeline.archive.compaction import Compactor
from bridgehead.pipeline.archive.files import CannotExchangeError
from bridgehead.pipeline.archive.housekeeping import Housekeeping
from bridgehead.pipeline.archive.spec import ArchiveSpec

YESTERDAY, TODAY, TOMORROW = "2026-11-15", "2026-11-16", "2026-11-17"


class Recorded(Compactor):
    """Notes what it is asked to do, and fails on demand."""

    def __init__(self) -> None:
        super().__init__(ArchiveSpec("/nowhere", "plant", "r", "b"))
        self.asked: list[str] = []
        self.error: Exception | None = None

    def compact(self, directory: str, today: str) -> int:
        self.asked.append(directory)
        if self.error is not None:
            raise self.error
        return 0

    def looked_at(self) -> list[str]:
        asked, self.asked = self.asked, []
        return asked


@pytest.fixture
def compactor() -> Recorded:
    return Recorded()


@pytest.fixture
def housekeeping(compactor: Recorded) -> Housekeeping:
    return Housekeeping(compactor)


def test_a_directory_is_looked_at_until_its_day_is_over_and_once_more(compactor: Recorded, housekeeping: Housekeeping) -> None:
    directory = f"date={TODAY}"
    housekeeping.published({directory})
    for day in (TODAY, TODAY, TOMORROW):
        housekeeping.look(day)
        assert compactor.looked_at() == [directory]
    housekeeping.look(TOMORROW)
    assert compactor.looked_at() == []


def test_a_closed_directory_that_gets_late_rows_is_looked_at_again(compactor: Recorded, housekeeping: Housekeeping) -> None:
    for _ in range(2):
        housekeeping.published({f"date={YESTERDAY}"})
        housekeeping.look(TODAY)
        assert compactor.looked_at() == [f"date={YESTERDAY}"]
    housekeeping.look(TODAY)
    assert compactor.looked_at() == []


def test_what_cannot_be_merged_now_is_tried_again(
    compactor: Recorded, housekeeping: Housekeeping, capsys: pytest.CaptureFixture[str]
) -> None:
    housekeeping.published({f"date={YESTERDAY}"})
    compactor.error = OSError(28, "No space left on device")
    housekeeping.look(TODAY)
    assert "No space left" in capsys.readouterr().err
    compactor.error = None
    housekeeping.look(TODAY)
    assert compactor.looked_at() == [f"date={YESTERDAY}"] * 2


def test_where_directories_cannot_be_exchanged_the_rounds_end(compactor: Recorded, housekeeping: Housekeeping) -> None:
    housekeeping.published({f"date={YESTERDAY}"})
    compactor.error = CannotExchangeError("not here")
    with pytest.raises(CannotExchangeError):
        housekeeping.look(TODAY)
