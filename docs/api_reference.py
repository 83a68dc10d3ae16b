"""The pages of the API reference: one per public name, and one per package with a table of its names.

`docs/conf.py` writes them to docs/api before the site is built, so that a new public name has a page without further
work. ``python docs/api_reference.py`` lists public names without an example that runs.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGES = {  # in the order of the site: a name that several of them export has its page in the first one
    "tensormargin": "Classifiers, transformers and the functions that most work needs.",
    "tensormargin.datasets": "Public data sets and synthetic ones; see :doc:`/guide`.",
    "tensormargin.transformers": "Transformers of tensors, kernels, and what they are built from.",
    "tensormargin.selection": "Model selection.",
    "tensormargin.evaluation": "Held-out scores, comparisons and permutation tests.",
    "tensormargin.plots": "Figures; functions that draw return the axes they drew on.",
    "tensormargin.report": "HTML reports and the sentences in them.",
    "tensormargin.io": "Files of samples, models and results.",
    "tensormargin.runtime.cluster": "Fits on the workers of a Dask cluster.",
    "tensormargin.fitting.formats": "Decompositions of a weight, and what a new one has to provide.",
    "tensormargin.fitting.solvers": "Solvers of the convex problem of one block.",
    "tensormargin.estimators": "Constants of the scale-free strengths.",
    "tensormargin.paper": "Reproduction of the paper's tables.",
}

# Pages of constants, which have no docstrings of their own. Tests run the examples.
CONSTANTS = {
    "tensormargin.METHODS": """Settings of the paper's seven methods, by name; see `make_method`.

>>> from tensormargin import METHODS
>>> list(METHODS)
['SVM', 'LMDM', 'STM', 'STuM', 'SPMD-LRT', 'HSPMD-LRT', 'TuSPMD-LRT']
""",
    "tensormargin.KERNEL_METHODS": """Settings of the kernel methods that `make_method` knows, by name.

>>> from tensormargin import KERNEL_METHODS
>>> list(KERNEL_METHODS)
['RBF-SVM', 'RBF-LMDM', 'DuSK', 'TT-MMK']
""",
    "tensormargin.datasets.CATALOGUE": """Data sets by the name that commands take; each is an `Entry`.

>>> from tensormargin.datasets import CATALOGUE
>>> CATALOGUE["basic-motions"].what
'80 recordings, 6 channels x 100 times, 4 activities'
""",
    "tensormargin.transformers.KERNELS": """Kernels by the name that `TensorKernel` takes; each is a `Kernel`.

>>> from tensormargin.transformers import KERNELS
>>> list(KERNELS)
['rbf', 'exponential', 'linear', 'grassmann', 'dusk', 'tt-mmk', 'precomputed']
""",
    "tensormargin.selection.DEFAULT_RULE": """The rule by which a search chooses a candidate unless told otherwise.

>>> from tensormargin.selection import DEFAULT_RULE
>>> DEFAULT_RULE
'best'
""",
    "tensormargin.fitting.formats.FORMATS": """Decompositions by the name that classifiers take; each is a `Weight`.

>>> from tensormargin.fitting.formats import FORMATS
>>> list(FORMATS)
['full', 'cp', 'tucker', 'tt']
""",
    "tensormargin.fitting.solvers.SOLVERS": """Solvers of block problems by name; each is a `Solver`.

>>> from tensormargin.fitting.solvers import SOLVERS
>>> list(SOLVERS)
['dual_cd', 'interior_point']
""",
    "tensormargin.estimators.SCALE_LAM": """Lambda that ``lam=1`` stands for, for samples of mean squared norm one.

>>> from tensormargin.estimators import SCALE_LAM
>>> SCALE_LAM
300.0
""",
    "tensormargin.estimators.SCALE_MU": """mu that ``mu1=1`` stands for, for samples of mean squared norm one.

>>> from tensormargin.estimators import SCALE_MU
>>> SCALE_MU
100.0
""",
    "tensormargin.paper.PROTOCOLS": """Functions that return the evaluations of a table of the paper, by its name.

>>> from tensormargin.paper import PROTOCOLS
>>> list(PROTOCOLS)
['table2', 'table4', 'table5', 'table6', 'open']
""",
}


@dataclass(frozen=True)
class PublicName:
    """A public name, where it is imported from, and what it stands for."""

    package: str
    name: str
    value: Any

    @property
    def full(self) -> str:
        """The name with its package."""
        return f"{self.package}.{self.name}"

    @property
    def is_constant(self) -> bool:
        """Whether it is neither a class nor a function."""
        return not callable(self.value)

    @property
    def text(self) -> str:
        """The docstring, or the text of a constant."""
        return CONSTANTS.get(self.full, "") if self.is_constant else inspect.getdoc(self.value) or ""

    @property
    def summary(self) -> str:
        """The first paragraph of the text."""
        return " ".join(self.text.partition("\n\n")[0].split())

    @property
    def has_example(self) -> bool:
        """Whether the text has an example that tests run."""
        return ">>> " in self.text


def public_names() -> list[PublicName]:
    """Return every name that the public packages export, each once."""
    names: dict[int | str, PublicName] = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in sorted(set(module.__all__) - {"__version__"}, key=lambda name: (name.isupper(), name.lower())):
            value = getattr(module, name)
            key = id(value) if callable(value) else f"{package}.{name}"
            names.setdefault(key, PublicName(package, name, value))
    return list(names.values())


def write(folder: Path) -> None:
    """Write all pages into a folder; pages that have not changed keep their time, so that builds are quick."""
    names = public_names()
    pages = {f"{one.full}.rst": _page_of_name(one) for one in names}
    for package in PACKAGES:
        pages[f"{package}.rst"] = _page_of_package(package, [one for one in names if one.package == package])
    pages["index.rst"] = _first_page()
    folder.mkdir(exist_ok=True)
    for path in set(folder.iterdir()) - {folder / name for name in pages}:
        path.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def skip_foreign(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Skip members that other libraries define, such as ``set_fit_request``: their text links to other sites."""
    home = getattr(inspect.unwrap(obj), "__module__", None) if callable(obj) else None
    return True if name.endswith("_request") or (home and not home.startswith("tensormargin")) else None


def link_names(app: Any, doctree: Any, docname: str) -> None:
    """Make links of public names that stand as code in the text of a chapter."""
    from docutils import nodes

    pages = {one.name: f"api/{one.full}" for one in reversed(public_names())}
    for node in list(doctree.findall(nodes.literal)):
        name = node.astext().partition("(")[0].removeprefix("tensormargin.").removeprefix("plots.")
        inside = isinstance(node.parent, nodes.reference | nodes.title) or docname.startswith("api/")
        if name not in pages or inside:
            continue
        address = app.builder.get_relative_uri(docname, pages[name])
        node.replace_self(nodes.reference("", "", node.deepcopy(), internal=True, refuri=address))


def _page_of_name(one: PublicName) -> str:
    title = [one.name, "=" * len(one.name), "", f".. currentmodule:: {one.package}", ""]
    if one.is_constant:
        body = [f".. py:data:: {one.name}", "", *(f"   {line}".rstrip() for line in one.text.splitlines())]
    elif inspect.isclass(one.value):
        body = [f".. autoclass:: {one.name}", "   :members:", "   :inherited-members:"]
    else:
        body = [f".. autofunction:: {one.name}"]
    return "\n".join([*title, *body, "", f".. minigallery:: {one.full}", "   :add-heading: Examples", ""])


def _page_of_package(package: str, names: list[PublicName]) -> str:
    lines = [package, "=" * len(package), "", PACKAGES[package], "", f".. currentmodule:: {package}", ""]
    elsewhere = sorted(set(importlib.import_module(package).__all__) - {one.name for one in names} - {"__version__"})
    lines += [".. list-table::", "   :widths: 30 70", "   :class: names", ""] if names else []
    for one in names:
        lines += [f"   * - :py:obj:`{one.name}`", f"     - {one.summary}"]
    if elsewhere:
        links = ", ".join(f":py:obj:`~tensormargin.{name}`" for name in elsewhere)
        lines += ["", f"Also in this package, with pages elsewhere: {links}."]
    pages = [f"   {one.full}" for one in names]
    return "\n".join([*lines, "", ".. toctree::", "   :hidden:", "", *pages, ""])


def _first_page() -> str:
    lines = ["API reference", "=============", "", "Every public name has a page with an example that runs.", ""]
    for package, text in PACKAGES.items():
        lines += [f":doc:`{package}`", f"   {text}", ""]
    return "\n".join([*lines, ".. toctree::", "   :hidden:", "", *(f"   {package}" for package in PACKAGES), ""])


if __name__ == "__main__":
    lacking = [one.full for one in public_names() if not one.has_example]
    print("\n".join(lacking) or "every public name has an example")
    raise SystemExit(bool(lacking))
