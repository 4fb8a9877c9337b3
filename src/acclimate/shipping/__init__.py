"""Shipping: a race's model, checked and described for others."""
