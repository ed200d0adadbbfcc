"""What a family of API objects means in the words of the model: one file each."""
