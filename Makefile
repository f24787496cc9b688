# `make run` is all a new user needs: it builds and answers a prompt, and installs nothing without asking.
# Variables: PROMPT="..."   YES=1 (install missing packages without asking)   JOBS=N   FUZZ_SECONDS=N (a target)
# TIMEOUT_FACTOR=N: what the tests' limits for hangs are multiplied by (5)
# TEST_SEED=N: the seed of the tests' random inputs (1; `make nightly` draws one)
# CPU_ISAS=all: a program that is fast on other processors than this machine's too (native: compiles sooner)

BUILD := build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
CPU_ISAS ?= native
FUZZ_SECONDS ?= 60
TIMEOUT_FACTOR ?= 5
TEST_SEED ?= 1
LIMITS = -DCHIMERE_TEST_TIMEOUT_FACTOR=$(TIMEOUT_FACTOR)
export PROMPT YES JOBS FUZZ_SECONDS TIMEOUT_FACTOR TEST_SEED

.PHONY: build run serve package deb tarball check-tarball install library check-library install-library check test tests tests-all asan tsan fuzz nightly slow-disk nightly-tests agents train-tests release-builds arm-check tidy format model bench-peers bare-debian clean help

build:  ## the program, build/chimere (with the server if `make serve` was run before)
	@scripts/setup run
	@cmake --preset release -DCHIMERE_CPU_ISAS="$(CPU_ISAS)" >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target chimere

run: build  ## build, then the model answers PROMPT, or opens a chat on a terminal
	@scripts/run-chimere $(BUILD)/chimere

serve:  ## the program with the server, collections and the orchestrator (installs their libraries)
	@scripts/setup run serve odo sandbox
	@cmake --preset release -DCHIMERE_CPU_ISAS="$(CPU_ISAS)" -DCHIMERE_SERVE=on -DCHIMERE_ODO=on >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target chimere

package: deb tarball  ## both of these

deb:  ## a Debian package with the server and its systemd unit, build/package/*.deb
	@scripts/setup run serve odo package
	@cmake --preset package >/dev/null
	@cmake --build $(BUILD)/package -j $(JOBS) --target chimere
	@cd $(BUILD)/package && cpack

tarball:  ## the program with the server for any x86-64 Linux, with its libraries, build/tarball/*.tar.xz (no GPU)
	@scripts/setup run serve odo tarball
	@cmake --preset tarball >/dev/null
	@cmake --build $(BUILD)/tarball -j $(JOBS) --target chimere
	@scripts/make-tarball $(BUILD)/tarball

check-tarball: tarball  ## as root: the tarball answers in an empty root and in six of four distributions (downloads them)
	@scripts/check-tarball "$$(ls -t $(BUILD)/tarball/*.tar.xz | head -n 1)" bullseye bookworm trixie jammy alpine fedora

install: build  ## program, model, manual page and completions into DESTDIR/PREFIX (/usr/local)
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"

library:  ## libchimere, the shared library with a C interface, in build/library (docs/library.md)
	@scripts/setup run
	@cmake --preset library -DCHIMERE_CPU_ISAS="$(CPU_ISAS)" >/dev/null
	@cmake --build $(BUILD)/library -j $(JOBS) --target chimere_library

check-library: library  ## what it exports and installs, and its examples in C, C++, Python and Node
	@scripts/install-npm tests/library
	@python3 -B tests/library/library_test.py cmake $(BUILD)/library $(CURDIR) "$$(command -v node)"

install-library: library  ## its header, library, pkg-config and CMake files and the models into DESTDIR/PREFIX
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD)/library --component library --prefix "$(PREFIX)"

tests:
	@scripts/setup run test
	@cmake --preset tests $(LIMITS) >/dev/null
	@cmake --build $(BUILD)/tests -j $(JOBS)

check: tests  ## the fast tests (under 3 minutes once built)
	@ctest --test-dir $(BUILD)/tests -L fast -j $(JOBS) --output-on-failure --no-tests=error

tests-all:
	@scripts/setup run serve odo sandbox test tools peers browser
	@scripts/install-npm web tests/peer tests/studio tests/clients tests/library
	@cmake --preset tests-all $(LIMITS) >/dev/null
	@cmake --build $(BUILD)/tests -j $(JOBS)

test: tests-all  ## fast and full tests, format, layering, llama.cpp, the page in a browser
	@ctest --test-dir $(BUILD)/tests -L fast -j $(JOBS) --output-on-failure --no-tests=error --stop-on-failure
	@ctest --test-dir $(BUILD)/tests -LE 'fast|nightly' -j $(JOBS) --output-on-failure --no-tests=error

asan:  ## the fast tests under the address and undefined-behaviour sanitizers
	@scripts/setup run test
	@cmake --preset asan $(LIMITS) >/dev/null
	@cmake --build $(BUILD)/asan -j $(JOBS)
	@ctest --test-dir $(BUILD)/asan -L fast -j $(JOBS) --output-on-failure --no-tests=error
	@ctest --test-dir $(BUILD)/asan -L full -R '^(cuda|device)_|_fuzz$$' -j $(JOBS) --output-on-failure

tsan:  ## the fast tests under the thread sanitizer
	@scripts/setup run test
	@cmake --preset tsan $(LIMITS) >/dev/null
	@cmake --build $(BUILD)/tsan -j $(JOBS)
	@ctest --test-dir $(BUILD)/tsan -L fast -j $(JOBS) --output-on-failure --no-tests=error
	@ctest --test-dir $(BUILD)/tsan -L full -R '^(cuda|device)_|_fuzz$$' -j $(JOBS) --output-on-failure

fuzz:  ## every libFuzzer target for FUZZ_SECONDS
	@scripts/setup run tools
	@cmake --preset fuzz >/dev/null
	@cmake --build $(BUILD)/fuzz --target fuzzers -j $(JOBS)
	@scripts/run-fuzzers $(BUILD)/fuzz

nightly:  ## what takes hours, each step recorded in docs/nightly.md (scripts/nightly STEP .. runs some of it)
	@scripts/nightly

nightly-tests: tests-all  ## the tests that are in no other target: more schedules, more kills
	@ctest --test-dir $(BUILD)/tests -L nightly -E '^agent_' -j $(JOBS) --output-on-failure --no-tests=error

agents:  ## Codex, Claude Code and opencode edit a file through the server (downloads them from npm: 300 MB)
	@scripts/install-npm tests/agents
	@$(MAKE) --no-print-directory tests-all
	@ctest --test-dir $(BUILD)/tests -R '^agent_' --output-on-failure --no-tests=error

train-tests:  ## the trainers' tests (libtorch)
	@scripts/setup run test train
	@cmake --preset train-tests $(LIMITS) >/dev/null
	@cmake --build $(BUILD)/train-tests -j $(JOBS) --target chimere-train chimere-vocabulary chimere-companion chimere-drafter trainer_test companion_test drafter_test
	@ctest --test-dir $(BUILD)/train-tests -R '^(trainer|companion|drafter)_test$$' -j $(JOBS) --output-on-failure --no-tests=error

slow-disk:  ## the tests of `make test` on one core, with every open for writing, truncate, fsync and rename delayed by 2 ms
	@$(MAKE) --no-print-directory tests-all TIMEOUT_FACTOR=$$((4 * $(TIMEOUT_FACTOR)))
	@scripts/slow-disk $(BUILD)/tests -LE nightly

release-builds:  ## the program as users build it, with this processor's kernels and with the baseline's and the server
	@scripts/setup run serve odo test
	@cmake --preset tests $(LIMITS) >/dev/null
	@cmake --build $(BUILD)/tests -j $(JOBS) --target chimere
	@python3 -B tests/release/release_test.py cmake $(CURDIR) $(CURDIR)/$(BUILD)/release $(CURDIR)/$(BUILD)/tests/chimere \
	  $(CURDIR)/models/chimere-mini.gguf native none

arm-check:  ## kernels, random schedules and the shipped model on 64-bit ARM, in qemu: the same bits as here
	@scripts/setup run test arm
	@cmake --preset tests $(LIMITS) >/dev/null
	@cmake --build $(BUILD)/tests -j $(JOBS) --target chimere
	@scripts/check-arm $(BUILD)/tests/chimere

tidy:  ## clang-tidy over the whole tree
	@scripts/setup run serve odo test tools
	@cmake --preset tidy >/dev/null
	@scripts/check-tidy $(BUILD)/tidy --all

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
	rm -rf $(BUILD) tests/peer/node_modules web/node_modules tests/studio/node_modules tests/clients/node_modules tests/library/node_modules

help:
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 14
