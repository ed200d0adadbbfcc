"""The fewest moves that open room for a gang: the plan, and how it is carried out step by step."""
