"""Shipping: the model of a race, which is checked, described and ready for use."""
