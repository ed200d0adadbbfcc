"""Grove's PodGangs in the words of the model."""
