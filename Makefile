# Short names for what scripts/ does. CMake builds; see CMakePresets.json.
.PHONY: help build test check lint format quickstart long release clean

help:  ## This list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 14

build:  ## Build build/divvy and the tests
	@scripts/build

test:  ## Build and run every test
	@scripts/test

lint:  ## Formatting and floors
	@scripts/lint

format:  ## Format the sources
	@scripts/lint --fix

check: lint test  ## All that a change needs

long:  ## Sanitizers, fuzzers and long kill tests too
	@scripts/test --long

quickstart:  ## See it work, on emulated GPUs where there are none
	@scripts/quickstart

release:  ## dist/: a tarball and a .deb
	@scripts/release

clean:  ## Remove what was built
	@rm -rf build build-asan build-tsan build-fuzz build-clang dist
