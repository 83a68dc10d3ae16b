"""The convex problem of one block: the objective (Eq. 7) with all other blocks fixed (Eq. 12-14).

With margins ``m = Y v`` (``Y`` holds the signed design) and sample weights ``p`` that sum to one, a block solves

    min_v  1/2 |v|^2 + mu1 Var(m) - mu2 Mean(m) + lam Mean(max(0, 1 - m))                                  (Eq. 12)

The quadratic part is ``1/2 v'Qv`` with ``Q = I + 2 mu1 Y'(diag(p) - pp')Y = LL'``. In the coordinates ``u = L'v``,
``A = Y L^-T``, the remaining loss of each sample is ``lam max(0, 1 - m) - mu2 m``, with a slope between ``-(mu2 +
lam)`` and ``-mu2``. So the dual (Eq. 13) is the dual of a plain support vector machine with a shifted box:

    min_beta  1/2 |A'beta|^2 - sum(beta),    mu2 p_i <= beta_i <= (mu2 + lam) p_i,    u = A'beta            (Eq. 14)

where ``beta = alpha + mu2 p`` in the paper's notation. ``A`` has as many columns as the smaller of N and d: if d is
larger, the rows of a Cholesky factor of the N x N Gram matrix replace those of ``Y``.
"""

from .base import BlockProblem, Recovered
from .build import block_problem

__all__ = ["BlockProblem", "Recovered", "block_problem"]
