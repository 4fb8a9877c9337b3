"""Shipping: the winner of a race as a checkpoint that is checked, described and ready for use."""
