"""fx2hlo: PyTorch programs that mutate memory, as pure HLO with a true input/output alias table."""

import os

# XLA writes notices to stderr; the level is read once, when its library is loaded by whichever module comes first.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
