"""The one place that states the version; it imports nothing, so that ``tauleap --version`` is quick."""

__version__ = "0.1.0"
