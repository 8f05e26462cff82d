"""The reverse process: the one home of the reverse-rate formula (Propositions 1, 3 and 4).

With p(x0 | x) what the denoiser says of a site, q the kernel and R_t the forward rates,

    s_v(x)   = sum_x0 p(x0 | x) q_t|0(v | x0) / q_t|0(x | x0)          how much likelier v is than x at time t
    Rhat(v)  = R_t(v, x) s_v(x)                         v != x         the rate of the reverse jump from x to v
    R_c(v)   = R_t(x, v) + Rhat(v)                      v != x         the corrector's rate: it keeps q_t as it is

Note the transpose: the reverse rate to v has the forward rate from v *into* x. Data states that cannot have led to x
(``q(x | x0) = 0``) are taken out of p before it is normalised; no epsilon hides a zero. The ratio is the one of the
marginals wherever v can jump into x; elsewhere no rate needs it.

``process`` has the public class, and ``at`` the same bound to states and a time. ``base`` says what every structure of
kernels provides: ``dense`` does it with matrices, for any kernel, ``rank_one`` in O(S), and ``absorbing`` from the
logits of masked sites alone. ``bound`` has upper bounds of the exit rates.
"""

from tauleap.reverse.at import ReverseAt
from tauleap.reverse.process import ReverseProcess

__all__ = ["ReverseAt", "ReverseProcess"]
