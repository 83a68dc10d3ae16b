"""What a campaign returns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

EXAMPLES = 20  # of the bad, at most


@dataclass
class Outcome:
    """How many cases a campaign tried, how many were clean, and examples of the bad ones.

    Attributes
    ----------
    name : str
    tried, clean, bad : int
    examples : list of str
        Each says how to make the case again, and what happened.
    notes : list of str
        Figures that are neither clean nor bad, such as the largest deviation found.
    """

    name: str
    tried: int = 0
    clean: int = 0
    bad: int = 0
    examples: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, case: str, faults: Iterable[str]) -> None:
        """Count a case, which is clean if it has no faults."""
        found = list(faults)
        self.tried += 1
        self.clean += not found
        self.bad += bool(found)
        if found and len(self.examples) < EXAMPLES:
            self.examples.append(f"{case}: {'; '.join(found)}")

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.tried} tried, {self.clean} clean, {self.bad} bad"]
        return "\n".join(
            [*lines, *(f"  note: {one}" for one in self.notes), *(f"  bad: {one}" for one in self.examples)]
        )
