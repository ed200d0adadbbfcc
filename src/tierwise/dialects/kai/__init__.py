"""KAI's objects in the words of the model."""
