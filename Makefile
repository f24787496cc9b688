# `make run` is all a new user needs: it builds and answers a prompt, and installs nothing without asking.
# Variables: PROMPT="..."   YES=1 (install missing packages without asking)   JOBS=N   FUZZ_SECONDS=N (a target)
# CPU_ISAS=all: a program that is fast on other processors than this machine's too (native: compiles sooner)

BUILD := build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
CPU_ISAS ?= native
FUZZ_SECONDS ?= 60
export PROMPT YES JOBS FUZZ_SECONDS

.PHONY: build run serve package install check test tests asan tsan fuzz nightly release-builds tidy format model bench-peers bare-debian clean help

build:  ## the program, build/chimere (with the server if `make serve` was run before)
	@scripts/setup run
	@cmake --preset release -DCHIMERE_CPU_ISAS="$(CPU_ISAS)" >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target chimere

run: build  ## build, then the model answers PROMPT, or opens a chat on a terminal
	@scripts/run-chimere $(BUILD)/chimere

serve:  ## the program with the server (installs its libraries)
	@scripts/setup run serve
	@cmake --preset release -DCHIMERE_CPU_ISAS="$(CPU_ISAS)" -DCHIMERE_SERVE=on >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target chimere

package:  ## a Debian package with the server and its systemd unit, build/package/*.deb
	@scripts/setup run serve package
	@cmake --preset package >/dev/null
	@cmake --build $(BUILD)/package -j $(JOBS) --target chimere
	@cd $(BUILD)/package && cpack

install: build  ## program, model, manual page and completions into DESTDIR/PREFIX (/usr/local)
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"

tests:
	@scripts/setup run test
	@cmake --preset tests >/dev/null
	@cmake --build $(BUILD)/tests -j $(JOBS)

check: tests  ## the fast tests (under 3 minutes once built)
	@ctest --test-dir $(BUILD)/tests -L fast -j $(JOBS) --output-on-failure --no-tests=error

test:  ## fast and full tests, format, clang-tidy, layering, comparisons with llama.cpp, the page in a browser, the trainer
	@scripts/setup run serve test tools peers browser train
	@scripts/install-npm tests/peer tests/page
	@cmake --preset tests-all >/dev/null
	@cmake --build $(BUILD)/tests -j $(JOBS)
	@ctest --test-dir $(BUILD)/tests -j $(JOBS) --output-on-failure --no-tests=error

asan:  ## the fast tests under the address and undefined-behaviour sanitizers
	@scripts/setup run test
	@cmake --preset asan >/dev/null
	@cmake --build $(BUILD)/asan -j $(JOBS)
	@ctest --test-dir $(BUILD)/asan -L fast -j $(JOBS) --output-on-failure --no-tests=error

tsan:  ## the fast tests under the thread sanitizer
	@scripts/setup run test
	@cmake --preset tsan >/dev/null
	@cmake --build $(BUILD)/tsan -j $(JOBS)
	@ctest --test-dir $(BUILD)/tsan -L fast -j $(JOBS) --output-on-failure --no-tests=error

fuzz:  ## every libFuzzer target for FUZZ_SECONDS
	@scripts/setup run tools
	@cmake --preset fuzz >/dev/null
	@cmake --build $(BUILD)/fuzz --target fuzzers -j $(JOBS)
	@scripts/run-fuzzers $(BUILD)/fuzz

nightly:  ## tests that take hours: both sanitizers, a million executions of every fuzz target, the release builds
	@$(MAKE) --no-print-directory asan
	@$(MAKE) --no-print-directory tsan
	@FUZZ_RUNS=1000000 $(MAKE) --no-print-directory fuzz
	@$(MAKE) --no-print-directory release-builds

release-builds:  ## the program as users build it, with this processor's kernels and with the baseline's and the server
	@scripts/setup run serve test
	@cmake --preset tests >/dev/null
	@cmake --build $(BUILD)/tests -j $(JOBS) --target chimere
	@python3 -B tests/release/release_test.py cmake $(CURDIR) $(CURDIR)/$(BUILD)/release $(CURDIR)/$(BUILD)/tests/chimere \
	  $(CURDIR)/models/chimere-mini.gguf native none

tidy:  ## clang-tidy over the whole tree
	@scripts/setup run test tools
	@cmake --preset tests >/dev/null
	@scripts/check-tidy $(BUILD)/tests

format:  ## rewrite the sources with clang-format
	@scripts/setup tools
	@scripts/check-format --fix

model:  ## train the shipped model again (half an hour of one GPU; hours without)
	@scripts/setup run train
	@cmake --preset train >/dev/null
	@cmake --build $(BUILD)/train -j $(JOBS)
	@scripts/train-model $(BUILD)/train

bench-peers:  ## decode and prompt speed beside llama.cpp in the same run
	@scripts/setup run test peers
	@$(MAKE) --no-print-directory build
	@scripts/install-npm tests/peer
	@tests/peer/bench.py --chimere $(BUILD)/chimere

bare-debian:  ## as root: `make run` in a fresh, minimal Debian 12 root (DEBIAN_MIRROR=URL to use another mirror)
	@scripts/check-bare-debian

clean:
	rm -rf $(BUILD) tests/peer/node_modules tests/page/node_modules

help:
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 14
