"""Trees along directions of class space: which directions, what their leaves add, and the round that they make."""
