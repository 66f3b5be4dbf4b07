"""The IR of fx2hlo: one dialect a file. Nothing here imports torch, jax or the compiler package."""
