# A thin front for CMake + Ninja. `make help` lists the targets. The program and its tests are built in build/.
#   SAN=address|undefined|address,undefined|thread   tests under a sanitizer, in a folder of its own: build-address and so on
#   PREFIX, DESTDIR                the folders of `make install`
#   STORY                          the subject of the story of `make run`
#   CUDA                           off: without the CUDA backend; on: a missing toolkit is an error; auto by default
#   CUDA_ARCHITECTURES             the GPUs that the CUDA backend is compiled for, such as 90a-real; all by default
#   QUICK                          1: the address sanitizer runs the tests of modules that read bytes of others, and no more
#                                  (a build folder keeps CUDA, CUDA_ARCHITECTURES and QUICK until they are given again)
#   FUZZ_SECONDS                   how long `make fuzz` runs each harness
#   SOAK_MINUTES, SOAK_REQUESTS    how long `make soak` runs, and its most actions
#   DIFF_REQUESTS, DIFF_SEED       the number of requests that `make http-diff` compares, and their seed
SAN           ?=
CUDA          ?=
CUDA_ARCHITECTURES ?=
QUICK         ?=
PREFIX        ?= /usr/local
DESTDIR       ?=
STORY         ?= a fox and a lantern
FUZZ_SECONDS  ?= 60
SOAK_MINUTES  ?= 30
SOAK_REQUESTS ?=
DIFF_REQUESTS ?= 10000000
DIFF_SEED     ?= 1
JOBS          ?= $(shell nproc 2>/dev/null || echo 1)
export SOAK_MINUTES SOAK_REQUESTS

# The story reaches the recipe through the environment, as it was written: neither make nor the shell
# may read $ or quotes in it.
override STORY := $(value STORY)
export STORY

SHELL := /bin/bash
comma := ,
BUILD := build$(if $(SAN),-$(subst $(comma),-,$(SAN)))

# ninja in a folder: one moving line on a terminal; elsewhere only warnings and errors.
NINJA = set -o pipefail; cd $(1); if [ -t 1 ]; then ninja -j$(JOBS) $(2); else \
        ninja -j$(JOBS) --quiet $(2) | { grep -v '^ninja: no work to do' || true; }; fi
OPTIONS = $(if $(CUDA),-DRUNNEL_CUDA=$(CUDA)) $(if $(CUDA_ARCHITECTURES),-DRUNNEL_CUDA_ARCHITECTURES='$(CUDA_ARCHITECTURES)') \
          $(if $(QUICK),-DRUNNEL_QUICK=$(QUICK))
CONFIGURE = mkdir -p $(1); cmake -G Ninja -S . -B $(1) $(2) >$(1)/configure.log 2>&1 || \
            { cat $(1)/configure.log; rm -f $(1)/build.ninja; exit 1; }

.DEFAULT_GOAL := all
.PHONY: all given program built made_data setup clients ready run test test-long test-all memcheck install uninstall deb fuzz http-diff soak soak-streams format format-check help clean

all: $(BUILD)/build.ninja ## build the program, the library and the programs that measure; the program is build/runnel
	@echo "building $(BUILD)/runnel"
	@$(call NINJA,$(BUILD),installed by_hand)

# Options are given to cmake again, since they may have changed.
$(BUILD)/build.ninja: $(if $(strip $(OPTIONS)),given)
	@case "$(SAN)" in ''|address|undefined|address,undefined|thread) ;; *) \
	    echo "SAN=$(SAN): expected address, undefined, address,undefined or thread" >&2; exit 2;; esac
	@$(call CONFIGURE,$(BUILD),$(OPTIONS) $(if $(SAN),-DRUNNEL_SAN=$(SAN) -DRUNNEL_MADE=$(CURDIR)/build/made))

given:

setup: ## install the Debian packages that are missing
	@tools/setup

program: setup
	@$(MAKE) -s --no-print-directory $(BUILD)/build.ninja
	@[ -x $(BUILD)/runnel ] || echo "building $(BUILD)/runnel"
	@$(call NINJA,$(BUILD),runnel)

run: program ## build, then let the embedded model tell a story (STORY="a robot and a kite")
	@printf '> Tell me a story about %s.\n\n' "$$STORY"
	@printf 'Tell me a story about %s.' "$$STORY" | $(BUILD)/runnel run --chat
	@[ ! -t 2 ] || printf '\n  next    %-20s  %s\n          %-20s  %s\n' "$(BUILD)/runnel run" "a conversation; a model's file may follow" \
	    "$(BUILD)/runnel serve" 'the HTTP APIs and a web page on http://127.0.0.1:8080' >&2

# Packages of npm that the tests compare with, installed when package.json is not that of what is there.
# Without them (no network, say) their tests skip themselves.
clients:
	@cd tests/npm && { cmp -s package.json node_modules/.package.json || { echo "installing the packages of tests/npm"; \
	    { npm install --silent >/dev/null 2>&1 && cp package.json node_modules/.package.json; } || \
	    echo "npm could not install them: tests that miss theirs will be skipped"; }; }

# A recipe of its own, since tools/setup may have removed build.ninja. A sanitizer's tests read the models that build/ made.
built:
	@$(MAKE) -s --no-print-directory $(BUILD)/build.ninja
	@$(if $(SAN),$(MAKE) -s --no-print-directory SAN= made_data)
	@echo "building the program and its tests in $(BUILD)"
	@$(call NINJA,$(BUILD),all)

made_data:
	@$(MAKE) -s --no-print-directory $(BUILD)/build.ninja
	@$(call NINJA,$(BUILD),made_data)

# The compiler works while npm loads.
ready:
	@tools/setup test
	@$(MAKE) -s --no-print-directory -j2 clients built

# Some tests compute less than all of the time, so one more runs than there are cores.
TEST_JOBS = $$(($(JOBS) + 1))

test: ready ## build and run the tests; with SAN=... those that the sanitizer is for
	@tools/test $(BUILD) $(TEST_JOBS) -LE long

test-long: ready ## the tests that `make test` leaves out, with its numbers of cases
	@tools/test $(BUILD) $(TEST_JOBS) -L long

test-all: ready ## all tests with all cases, then the sanitizers and valgrind
	@TEST_ALL=1 tools/test $(BUILD) $(TEST_JOBS)
	@$(MAKE) -s --no-print-directory memcheck
	@$(MAKE) -s --no-print-directory SAN=address,undefined test
	@$(MAKE) -s --no-print-directory SAN=thread test

memcheck: ## run tests of parsers, and requests of the server, once more, by valgrind
	@tools/setup memcheck
	@$(MAKE) -s --no-print-directory built
	@tools/test $(BUILD) $(TEST_JOBS) -C memcheck -L memory

install: setup ## install the program, the library, the Python package and documents into DESTDIR/PREFIX
	@$(MAKE) -s --no-print-directory $(BUILD)/build.ninja
	@$(call NINJA,$(BUILD),installed)
	@tools/install $(BUILD) "$(PREFIX)" "$(DESTDIR)"

uninstall: ## remove what make install put into DESTDIR/PREFIX
	@tools/uninstall "$(PREFIX)" "$(DESTDIR)"

deb: ## build the Debian packages: runnel, librunnel0, librunnel-dev, python3-runnel, runnel-cuda
	@tools/setup deb
	@$(MAKE) -s --no-print-directory $(BUILD)/build.ninja
	@$(call NINJA,$(BUILD),installed)
	@cd $(BUILD) && cpack -G DEB >cpack.log 2>&1 || { cat cpack.log; exit 1; }
	@ls $(BUILD)/*.deb

fuzz: ## run each fuzz harness for FUZZ_SECONDS (needs clang)
	@tools/setup fuzz
	@tools/fuzz build-fuzz $(FUZZ_SECONDS)

soak: ## everything at once against real servers for SOAK_MINUTES; hang-ups; idle connections (tests/soak)
	@tools/setup soak
	@$(MAKE) -s --no-print-directory $(BUILD)/build.ninja
	@$(call NINJA,$(BUILD),runnel hangups idle)
	@failed=0; node tests/soak/soak.mjs $(BUILD)/runnel --json $(BUILD)/soak.json || failed=1; \
	    $(BUILD)/tests/soak/hangups $(BUILD)/runnel || failed=1; \
	    $(BUILD)/tests/soak/idle $(BUILD)/runnel || failed=1; exit $$failed

soak-streams: ## many streams, hang-ups and preemption against one server for SOAK_MINUTES (RUNNEL_BACKEND, RUNNEL_MODEL; needs python3)
	@$(MAKE) -s --no-print-directory $(BUILD)/build.ninja
	@$(call NINJA,$(BUILD),runnel)
	@python3 tests/soak/streams.py $(BUILD)/runnel

http-diff: ## compare how the server and llhttp split DIFF_REQUESTS requests (needs node)
	@command -v node >/dev/null || tools/setup test
	@$(MAKE) -s --no-print-directory $(BUILD)/build.ninja
	@$(call NINJA,$(BUILD),reader_split)
	@node tests/http_diff/http_diff.mjs --reader $(BUILD)/tests/http_diff/reader_split --requests $(DIFF_REQUESTS) \
	    --seed $(DIFF_SEED) --out $(BUILD)/http_diff.failures

format: ## format the sources with clang-format
	@tools/setup format
	@find app examples include src tests \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cc' \) -print0 | xargs -0 clang-format -i

format-check: ## say which sources are not formatted
	@tools/setup format
	@find app examples include src tests \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cc' \) -print0 \
	    | xargs -0 clang-format --dry-run --Werror

help: ## this list
	@echo "usage: make [TARGET] [SAN=address|undefined|address,undefined|thread]"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' Makefile | while IFS=$$'\t' read -r name text; do \
	    printf '  %-14s %s\n' "$$name" "$$text"; done

clean: ## remove all build folders
	@rm -rf build build-address build-undefined build-address-undefined build-thread build-fuzz
