"""Random PyTorch programs over views and in-place operations, and what they are run through."""
