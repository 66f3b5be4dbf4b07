"""fx2hlo: PyTorch programs that mutate memory, as pure HLO with a true input/output alias table."""
