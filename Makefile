# `make demo` runs a kernel, `make test` runs all suites. Both install their requirements.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
VENV   := .venv
PYTHON := $(VENV)/bin/python
JOBS   ?= $(shell nproc)
BUILD  := build/dev
# The environment of `make bench-setup`, if it exists: Numba and PoCL are only needed for comparison.
BENCH_PYTHON = $(firstword $(wildcard build/bench-venv/bin/python) $(PYTHON))
# The GPU machine has no network and no LLVM headers: the build uses its python3.
GPU_PYTHON ?= python3
GPU_BUILD  := build/gpu
GPU_ENV     = CUCORE_DEVICE=gpu PYTHONPATH=$(CURDIR)/$(GPU_BUILD)/site

.PHONY: sanitize sanitize-quick coverage fuzz fuzz-kernels soak protections neighbours help setup build build-all demo test test-cpp test-python test-widths lint docs wheel bench bench-setup gpu-build gpu-test gpu-bench clean
help:            ## list the targets
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

setup:           ## system packages (as root) and the Python environment of this checkout
	@tools/setup

build: setup     ## configure, compile, install into .venv
	@tools/build $(BUILD) $(JOBS)

build-all: setup ## as build, with the C++ tests
	@tools/build $(BUILD) $(JOBS) all

demo: build      ## compile a CUDA C++ kernel, run it, check it
	@$(PYTHON) -m cucore demo

test: build-all  ## every suite on the CPU device
	@tools/test $(BUILD)

test-cpp: build-all ## the C++ suites only
	@tools/test $(BUILD) cpp

test-python: build-all ## the Python suites only
	@tools/test $(BUILD) python

test-widths: build ## the PTX suite with every number of lanes and with the scalar path (long)
	@tools/test $(BUILD) widths

lint: build      ## ruff, mypy, clang-format, clang-tidy (the last is long the first time)
	@tools/lint

docs: build      ## the documentation site, in build/docs/html; warnings are errors
	@tools/docs

wheel: setup     ## dist/: a self-contained wheel (LLVM inside) and the metadata wheels, checked; PYTHONS="python3.10 python3.12" adds other Pythons
	@JOBS=$(JOBS) tools/wheel $(PYTHONS)

bench: build     ## benchmarks on the CPU device, into docs/benchmarks: what calls cost, kernels against native code, PoCL and Numba
	@cmake $(BUILD) -DCUCORE_BENCH=ON > /dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target bench/all
	@CUCORE_DEVICE=cpu $(PYTHON) bench/run.py --docs docs/benchmarks --name cpu --build $(BUILD) $(if $(NVIDIA),--nvidia $(NVIDIA))
	@$(PYTHON) bench/run.py --null --pin --docs docs/benchmarks --name null --build $(BUILD)
	@$(BENCH_PYTHON) bench/python/kernels.py --build $(BUILD) --markdown docs/benchmarks/kernels.md
	@$(BENCH_PYTHON) bench/python/cores.py --native $(BUILD)/bench/cpp/kernels/libbench_native.so --docs docs/benchmarks/cores.md
	@$(PYTHON) bench/python/first_result.py --docs docs/benchmarks/process.md
	@$(PYTHON) bench/python/memory.py --docs docs/benchmarks/process.md $(if $(NVIDIA),--nvidia $(NVIDIA))
	@-$(PYTHON) bench/python/tools_cost.py --docs docs/benchmarks/tools.md
	@$(PYTHON) bench/python/threads.py --null $(BUILD)/bench/null_driver/libcucore_null.so

bench-setup: setup ## Numba and PyOpenCL in a separate environment (build/bench-venv)
	@bench/setup build/bench-venv

sanitize: setup  ## the C++ suites and much of the Python ones with the address, undefined behaviour and thread sanitizers (long)
	@tools/sanitize $(JOBS)

sanitize-quick: setup ## the parser, the readers of images and the driver layer alone with the address and undefined behaviour sanitizers
	@tools/sanitize $(JOBS) quick

coverage: setup  ## line coverage of the C++ suites by folder; TESTS=regex and TARGETS="a b" run less
	@tools/coverage $(JOBS) "$(TESTS)" $(TARGETS)

fuzz: setup      ## each fuzzer with libFuzzer for FUZZ_SECONDS (600) seconds
	@tools/fuzz $(JOBS) $(or $(FUZZ_SECONDS),600)

fuzz-kernels: build ## random CUDA C++ and PTX programs in every mode of the CPU device, against a model, for SECONDS (60) seconds; SEED=n repeats a run
	@PYTHONPATH=tests/fuzz $(PYTHON) -m kernels --seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED)) --out $(BUILD)/fuzz-kernels

protections: setup ## disables protections one by one and checks that their tests fail (long)
	@JOBS=$(JOBS) $(PYTHON) tools/protections

neighbours: build ## released wheels of other packages (numba-cuda, Triton, cuda.tile ...) on the CPU device; NAMES="Triton" runs less
	@$(PYTHON) tools/neighbours.py --build $(BUILD) --docs docs/guide/packages.md $(NAMES)

soak: build-all  ## launch, capture, compile and close for a long time; memory must stay flat
	@CUCORE_DEVICE=cpu CUCORE_SOAK=$(or $(SOAK),50) CUCORE_LONG=1 $(PYTHON) -m pytest -v -p no:cacheprovider \
	  tests/python/robust/test_soak.py tests/python/robust/test_exit.py tests/python/robust/test_stateful.py
	@CUCORE_DEVICE=cpu CUCORE_SOAK=$(or $(SOAK),50) $(PYTHON) -m pytest -v -p no:cacheprovider tests/python/scaling/test_dask.py -k thousands

gpu-build:
	cmake -S . --preset gpu -DPython_EXECUTABLE=$$(command -v $(GPU_PYTHON)) $(if $(NANOBIND),-Dnanobind_ROOT=$(abspath $(NANOBIND))/cmake) > /dev/null
	cmake --build $(GPU_BUILD) -j $(JOBS) -- -k 0
	cmake --install $(GPU_BUILD) --prefix $(GPU_BUILD)/site > /dev/null
	$(GPU_PYTHON) tools/dist_info.py $(GPU_BUILD)/site

gpu-test: gpu-build ## every suite on the GPU
	@CUCORE_DEVICE=gpu tools/test $(GPU_BUILD)

gpu-bench: gpu-build ## overhead benchmarks on the GPU, into docs/benchmarks; NANOBIND=folder: a newer nanobind than its own; CUCORE_TEST_OTHERS=folder: with numba-cuda
	$(GPU_ENV) $(GPU_PYTHON) bench/run.py --pin --docs docs/benchmarks --name h200
	$(GPU_ENV) $(GPU_PYTHON) bench/python/threads.py
	$(GPU_ENV) $(GPU_PYTHON) bench/python/memory.py

clean:           ## remove what was built here
	rm -rf build dist
