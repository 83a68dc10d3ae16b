"""What a campaign returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

EXAMPLES = 20  # of the bad, at most
LONGEST_EXAMPLE = 600  # characters


@dataclass
class Outcome:
    """How many cases a campaign tried, how many were clean, and examples of the bad ones.

    Attributes
    ----------
    name : str
    tried, clean, bad : int
    examples : list of str
        Each says how to make the case again, and what happened.
    counts : Counter
        How many cases were something that is neither clean nor bad, such as "refused".
    largest : dict
        The largest of figures that are neither clean nor bad, such as a deviation.
    notes : list of str
        What else there is to say, such as why cases were left out.
    """

    name: str
    tried: int = 0
    clean: int = 0
    bad: int = 0
    examples: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    largest: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, case: str, faults: Iterable[str]) -> None:
        """Count a case, which is clean if it has no faults."""
        found = list(faults)
        self.tried += 1
        self.clean += not found
        self.bad += bool(found)
        if found and len(self.examples) < EXAMPLES:
            self.examples.append(f"{case}: {'; '.join(found)}"[:LONGEST_EXAMPLE])

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def merge(self, other: Outcome) -> None:
        """Add the cases of another part of the same campaign."""
        self.tried += other.tried
        self.clean += other.clean
        self.bad += other.bad
        self.examples = [*self.examples, *other.examples][:EXAMPLES]
        self.counts.update(other.counts)
        for name, value in other.largest.items():
            self.largest[name] = max(value, self.largest.get(name, value))
        for text in other.notes:
            self.note(text)

    def remarks(self) -> list[str]:
        """Return counts, largest figures and notes in words."""
        counts = [f"{number:,} {words}" for words, number in sorted(self.counts.items()) if number]
        return [*counts, *(f"{name}: {value:.2g}" for name, value in self.largest.items()), *self.notes]

    def content(self) -> dict[str, Any]:
        """Return the outcome as JSON has it."""
        return {**vars(self), "counts": {words: int(number) for words, number in self.counts.items()}}

    @classmethod
    def of(cls, content: dict[str, Any]) -> Outcome:
        """Return the outcome that JSON describes."""
        return cls(**{**content, "counts": Counter(content["counts"])})

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.tried:,} tried, {self.clean:,} clean, {self.bad:,} bad"]
        return "\n".join(
            [*lines, *(f"  note: {one}" for one in self.remarks()), *(f"  bad: {one}" for one in self.examples)]
        )
