"""The formula in O(S) per site for ``q = alpha I + (1 - alpha) 1 pi^T``.

``coefficients`` derives the coefficients, ``rates`` has the formula, ``loss`` the ELBO, and ``draws`` the destinations
and times of jumps.
"""
