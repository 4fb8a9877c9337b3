"""What a race will cost, and what fits into its budget."""
