"""PyTorch's own operator samples (`op_db`), compiled, run and compared with eager: tests that nobody here wrote."""
