"""All campaigns: what they do, how many cases they try, and how these are divided among processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module

from campaigns.outcome import Outcome

FIGURES = {
    "files": 10_000,
    "models": 2_000,
    "attributes": 20_000,
    "problems": 10_000,
    "probabilities": 40,
    "kills": 50,
    "disks": 200,
    "checkpoints": 1000,
    "forks": 60,
    "pages": 100,
    "intervals": 500,
}
"""Number of cases per option of the command."""


@dataclass(frozen=True)
class Campaign:
    """A campaign.

    Attributes
    ----------
    name : str
    function : str
        Module and function of number and seed, which returns an `Outcome` or several.
    option : str
        The option that has the number of cases.
    quick : int
        Number of cases of ``--quick``; 0 leaves it out: tests do the same with all crafted files and with workers.
    per_process : int
        Most cases of one process, which has a seed of its own; 0 if the cases do not depend on numbers and seeds.
    seconds : float
        Time that one case may take on a slow machine.
    clean : str
        What a clean case is.
    share : float
        Share of the number of cases.
    """

    name: str
    function: str
    option: str
    quick: int
    per_process: int
    seconds: float
    clean: str
    share: float = 1.0

    def run(self, number: int, seed: int) -> list[Outcome]:
        """Return the outcomes of some cases."""
        module, function = self.function.split(":")
        found = getattr(import_module(f"campaigns.{module}"), function)(number, seed)
        return found if isinstance(found, list) else [found]


@dataclass(frozen=True)
class Shard:
    """The cases of one campaign and one seed, which a process of its own tries."""

    campaign: Campaign
    number: int
    seed: int

    def __str__(self) -> str:
        return f"{self.campaign.name} {self.number} {self.seed}"

    @property
    def seconds(self) -> float:
        """Time after which the process hangs: that of its cases, and a start."""
        return 120 + self.number * self.campaign.seconds


CAMPAIGNS = {
    campaign.name: campaign
    for campaign in (
        Campaign("crafted-files", "files:crafted_files", "files", 0, 0, 300,
                 "one short message with the name of the file"),
        Campaign("damaged-files", "files:damaged_files", "files", 105, 1050, 5,
                 "the right samples or one short message with the name of the file; other values only in formats "
                 "without a checksum"),
        Campaign("changed-models", "models:changed_models", "models", 20, 250, 10,
                 "refused with exit code 2 and the name of the file, no output", 0.5),
        Campaign("resealed-models", "models:resealed_models", "models", 20, 250, 10,
                 "refused as above, or accepted with finite predictions", 0.5),
        Campaign("model-attributes", "models:tampered_attributes", "attributes", 150, 1_000, 5,
                 "a model of any class, one attribute of which was changed and the digest renewed, is refused with the "
                 "name of the file, or gives results that are finite; no crash, no other error"),
        Campaign("comparisons", "models:tampered_comparisons", "models", 20, 250, 10,
                 "refused as above, or a page", 0.25),
        Campaign("problems", "problems:random_problems", "problems", 100, 500, 5,
                 "the objective never rises, is that of the weight and reaches the gap; the same optimum for permuted, "
                 "copied, weighted and scaled samples"),
        Campaign("modes", "problems:permuted_modes", "problems", 20, 500, 5,
                 "the same optimum for permuted modes, where the method promises it", 0.1),
        Campaign("starts", "optima:other_starts", "problems", 7, 42, 20,
                 "the best of 20 starts is no worse; the remarks say how far it is better, relative to the objective's "
                 "terms", 0.0042),
        Campaign("continued-fits", "optima:continued_fits", "problems", 14, 140, 20,
                 "a fit continued to tol=1e-7, and then by the paper's Algorithm 1, gets no worse; the remarks say how "
                 "far it was above", 0.014),
        Campaign("probabilities", "chances:true_probabilities", "probabilities", 2, 8, 60,
                 "in twenty problems of the kind, the mean probability of the rare class (for a search, of the most "
                 "probable class) is at most two points too high, beyond two standard errors; in earlier versions 19 "
                 "of 40 cases were not ([biases then and now](method.md#rare-classes-and-searches))"),
        Campaign("signals", "signals:killed_commands", "kills", 1, 10, 90,
                 "ends at once, with the signal's exit code; no process, memory or half-written file stays"),
        Campaign("workers", "workers:killed_workers", "kills", 0, 10, 180,
                 "the answer of this machine, after up to three of the Dask workers were killed during a search", 0.4),
        Campaign("lazy-workers", "workers:killed_lazy_workers", "kills", 0, 10, 180,
                 "the same during a fit of a Dask array", 0.4),
        Campaign("killed-runs", "checkpoints:killed_runs", "checkpoints", 1, 10, 90,
                 "after up to three kills, a run with the same checkpoint gives the result of an uninterrupted one; "
                 "nothing of it stays, and all that was there before", 0.03),
        Campaign("damaged-checkpoints", "checkpoints:damaged_units", "checkpoints", 20, 125, 10,
                 "the result of an uninterrupted run, without an error"),
        Campaign("forks", "forks:forked_children", "forks", 6, 20, 30,
                 "a process that is forked while four threads fit, search and read does the same, with the same result "
                 "and as many threads of BLAS as before, and ends"),
        Campaign("full-disks", "signals:full_disks", "disks", 3, 100, 10,
                 "all outputs, or none and one message with the name of a file"),
        Campaign("read-only-disks", "signals:read_only_disks", "disks", 4, 100, 10,
                 "none and one message with the name of a file"),
        Campaign("pages", "browser:hostile_labels", "pages", 1, 50, 60,
                 "the labels are shown as text; no dialog, no connection, no element or error from them"),
        Campaign("page", "app:hostile_page", "pages", 2, 25, 60,
                 "requests that neither the page of `tensormargin app` nor a person sends are refused and change "
                 "nothing, all others are answered, and no run stays running; runs of others are not found; the page "
                 "answers beside up to 1,149 idle connections; scripts in files of a run reach neither the page nor, "
                 "except by WebRTC, the network"),
        Campaign("intervals", "intervals:intervals_of_scores", "intervals", 30, 1_000_000, 5,
                 "95 % intervals hold the expected score in 90 to 99 % of simulated data sets, up to three times the "
                 "error of the simulation, at accuracies of 50, 75 and 95 %, with ten features and with as many as "
                 "samples; those of differences between equally good methods hold zero in at least 90 %"),
        Campaign("searched-intervals", "intervals:intervals_of_searches", "intervals", 0, 1_000_000, 20,
                 "the same of the accuracies of small searches on 40 samples", 0.2),
        Campaign("comparisons-of-methods", "comparisons:errors_and_power", "intervals", 20, 1_000_000, 1,
                 "of seven equally good methods, any differs significantly from the one that all are compared with in "
                 "at most 6 % of the data sets; one that is better by 15 points is found in at least half of those of "
                 "120 samples, each up to three times the error of the simulation"),
    )
}  # fmt: skip


def shards(numbers: Mapping[str, int], names: list[str], seed: int, quick: bool) -> Iterator[Shard]:
    """Yield the parts of the named campaigns; ``numbers`` are cases per option."""
    for name in names:
        campaign = CAMPAIGNS[name]
        rest = campaign.quick if quick else round(campaign.share * numbers[campaign.option])
        if not campaign.per_process:
            yield from [Shard(campaign, 1, 0)] if rest else []
            continue
        own = seed
        while rest > 0:
            number = min(rest, campaign.per_process)
            yield Shard(campaign, number, own)
            rest, own = rest - number, own + 1
