"""What a replay came to: figures, plots, pages."""
