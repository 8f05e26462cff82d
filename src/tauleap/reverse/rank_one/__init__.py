"""The formula in O(S) per site for ``q = alpha I + (1 - alpha) 1 pi^T``.

``rates`` has the formula and its coefficients, ``loss`` the ELBO, ``destinations`` where and when sites jump.
"""
