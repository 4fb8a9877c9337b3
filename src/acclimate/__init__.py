"""Adapt encoder language models to a domain, and know whether it helped."""

__version__ = "0.1.0"
