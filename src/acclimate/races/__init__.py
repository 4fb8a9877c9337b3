"""Who wins, by how much, and at what cost."""
