# The only entry points: `make demo` shows it, `make test` checks everything.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
N      ?= 200
JOBS   ?= 2
MODE   ?= compile
SEED   ?= 0
export OMP_NUM_THREADS = 1
export PYTHONPATH = .

.PHONY: venv demo test lint types unit lit lit-shell bench fuzz fuzz-malformed clones opinfo layouts figures clean

venv: $(VENV)/.stamp

$(VENV)/.stamp: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (torch and friends: some minutes the first time)"
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check -e '.[dev,demo]'
	@touch $@

demo: venv
	@$(BIN)/python examples/llama_decode.py

# Each part prints its time; pytest comes last, so that its closing line is the last line.
test: venv
	@tools/run-parts lint types lit lit-shell unit

lint: venv
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .

types: venv
	@$(BIN)/pyright --pythonpath $(BIN)/python

unit: venv
	@$(BIN)/python -m pytest -q -n $(JOBS) tests

lit: venv
	@$(BIN)/lit -q -j $(JOBS) lit_tests

lit-shell: venv
	@$(BIN)/lit -q -j $(JOBS) --param shell lit_tests

bench: venv
	@$(BIN)/python -m benchmarks

fuzz: venv
	@$(BIN)/python -m tools.fuzz $(N) --mode $(MODE) --seed $(SEED) --children $(JOBS)

fuzz-malformed: venv
	@$(BIN)/python -m tools.fuzz.malformed $(N) --seed $(SEED)

# Clone elimination on random graphs, against the best choice that running every choice finds: `make clones N=1000`.
clones: venv
	@$(BIN)/python -m tools.clones $(N) --seed $(SEED)

# All of PyTorch's operator samples (resumable), and the figures of the last run that was recorded.
opinfo: venv
	@$(BIN)/python -m tools.opinfo run --children $(JOBS); $(BIN)/python -m tools.opinfo report

# Their strides where the operands are not contiguous; nothing is compiled.
layouts: venv
	@$(BIN)/python -m tools.opinfo layouts

figures: venv
	@$(BIN)/python -m tools.opinfo figures

clean:
	rm -rf $(VENV) build *.egg-info .ruff_cache .hypothesis lit_tests/.lit_test_times.txt
	find . -name __pycache__ -o -name Output -path './lit_tests/*' | xargs rm -rf
