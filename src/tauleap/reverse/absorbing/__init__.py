"""Absorbing noise: only masked sites move, at a rate that no prediction changes."""

from tauleap.reverse.absorbing.formula import AbsorbingStructure

__all__ = ["AbsorbingStructure"]
