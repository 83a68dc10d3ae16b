"""Solvers for the block problem. To add one, add a file here and a line in `SOLVERS`."""

from __future__ import annotations

from ..small_problems import solve_small_block
from .base import Solution, Solver
from .dual_cd import solve_dual_cd
from .interior_point import solve_interior_point

SOLVERS: dict[str, Solver] = {"dual_cd": solve_dual_cd, "interior_point": solve_interior_point}

__all__ = ["SOLVERS", "Solution", "Solver", "solve_dual_cd", "solve_small_block"]
