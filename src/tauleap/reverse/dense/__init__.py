"""The formula with matrices, for any kernel.

``rates`` has the formula, ``loss`` the ELBO, ``destinations`` where sites jump.
"""
