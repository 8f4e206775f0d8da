# A thin front for CMake + Ninja. `make help` lists what there is.
#   SAN=address|undefined|address,undefined|thread   a sanitizer build in its own folder, build-$(SAN)
#   PREFIX, DESTDIR                where `make install` puts things
#   STORY                          what `make run` asks for
#   FUZZ_SECONDS                   how long `make fuzz` runs each harness
#   SOAK_MINUTES, SOAK_REQUESTS    how long `make soak` goes on, and after how many actions at most
#   DIFF_REQUESTS, DIFF_SEED       how many requests `make http-diff` compares, and which
SAN           ?=
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
BUILD := build$(if $(SAN),-$(SAN))
TARGETS :=

# Ninja's one moving line on a terminal; elsewhere only warnings and errors.
NINJA = set -o pipefail; cd $(BUILD); if [ -t 1 ]; then ninja -j$(JOBS) $(1); else \
        ninja -j$(JOBS) --quiet $(1) | { grep -v '^ninja: no work to do' || true; }; fi

# Sanitizer runs skip what carries the label "long"; the thread sanitizer's builds and takes only what runs threads.
# That of gcc 12 does not know the address layout of newer kernels, so it runs without randomisation.
CTEST = $(if $(filter thread,$(SAN)),setarch -R )ctest --test-dir $(BUILD) --output-on-failure -j$(JOBS) \
        $(if $(SAN),-LE long) $(if $(filter thread,$(SAN)),-L threads)

.DEFAULT_GOAL := all
.PHONY: all program setup clients run test memcheck install deb fuzz http-diff soak format format-check help clean

all: $(BUILD)/build.ninja ## build everything; the program is build/runnel
	@echo "building $(BUILD)/runnel and its tests"
	@$(call NINJA,$(TARGETS))

$(BUILD)/build.ninja:
	@case "$(SAN)" in ''|address|undefined|address,undefined|thread) ;; *) \
	    echo "SAN=$(SAN): expected address, undefined, address,undefined or thread" >&2; exit 2;; esac
	@mkdir -p $(BUILD)
	@cmake -G Ninja -S . -B $(BUILD) $(if $(SAN),-DRUNNEL_SAN=$(SAN)) \
	    >$(BUILD)/configure.log 2>&1 || { cat $(BUILD)/configure.log; rm -f $@; exit 1; }

setup: ## install the Debian packages that are missing
	@tools/setup

program: setup
	@$(MAKE) -s --no-print-directory $(BUILD)/build.ninja
	@[ -x $(BUILD)/runnel ] || echo "building $(BUILD)/runnel"
	@$(call NINJA,runnel)

run: program ## build, then let the embedded model tell a story (STORY="a robot and a kite")
	@printf '> Tell me a story about %s.\n\n' "$$STORY"
	@printf 'Tell me a story about %s.' "$$STORY" | $(BUILD)/runnel run --chat

# Packages of npm that the tests compare with, installed when package.json is not that of what is there.
# Without them (no network, say) their tests skip themselves.
clients:
	@tools/setup test
	@cd tests/npm && { cmp -s package.json node_modules/.package.json || { echo "installing the packages of tests/npm"; \
	    { npm install --silent >/dev/null 2>&1 && cp package.json node_modules/.package.json; } || \
	    echo "npm could not install them: tests that miss theirs will be skipped"; }; }

test: clients ## build and run the tests; with SAN=... under that sanitizer
	@$(MAKE) -s --no-print-directory all TARGETS=$(if $(filter thread,$(SAN)),thread_tests)
	@$(CTEST)

memcheck: ## run the tests of parsers and of the server once more, by valgrind
	@tools/setup memcheck
	@$(MAKE) -s --no-print-directory all TARGETS=memory_tests
	@$(CTEST) -C memcheck -L memory

install: setup ## install the program, the library and its headers into DESTDIR/PREFIX
	@$(MAKE) -s --no-print-directory $(BUILD)/build.ninja
	@$(call NINJA,installed)
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"

deb: setup ## build a Debian package of the program, the service and the library
	@$(MAKE) -s --no-print-directory $(BUILD)/build.ninja
	@$(call NINJA,installed)
	@cd $(BUILD) && cpack -G DEB >cpack.log 2>&1 || { cat cpack.log; exit 1; }
	@ls $(BUILD)/*.deb

fuzz: ## run each fuzz harness for FUZZ_SECONDS (needs clang)
	@tools/setup fuzz
	@tools/fuzz build-fuzz $(FUZZ_SECONDS)

soak: ## everything at once against real servers for SOAK_MINUTES; hang-ups; idle connections (tests/soak)
	@tools/setup soak
	@$(MAKE) -s --no-print-directory all TARGETS="runnel hangups idle"
	@failed=0; node tests/soak/soak.mjs $(BUILD)/runnel --json $(BUILD)/soak.json || failed=1; \
	    $(BUILD)/tests/soak/hangups $(BUILD)/runnel || failed=1; \
	    $(BUILD)/tests/soak/idle $(BUILD)/runnel || failed=1; exit $$failed

http-diff: ## compare how the server and llhttp split DIFF_REQUESTS requests (needs node)
	@command -v node >/dev/null || tools/setup test
	@$(MAKE) -s --no-print-directory $(BUILD)/build.ninja
	@$(call NINJA,reader_split)
	@node tests/http_diff/http_diff.mjs --reader $(BUILD)/tests/http_diff/reader_split --requests $(DIFF_REQUESTS) \
	    --seed $(DIFF_SEED) --out $(BUILD)/http_diff.failures

format: ## format the sources with clang-format
	@tools/setup format
	@find app examples include src tests \( -name '*.c' -o -name '*.h' \) -print0 | xargs -0 clang-format -i

format-check: ## say which sources are not formatted
	@tools/setup format
	@find app examples include src tests \( -name '*.c' -o -name '*.h' \) -print0 \
	    | xargs -0 clang-format --dry-run --Werror

help: ## this list
	@echo "usage: make [TARGET] [SAN=address|undefined|thread]"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' Makefile | while IFS=$$'\t' read -r name text; do \
	    printf '  %-14s %s\n' "$$name" "$$text"; done

clean: ## remove all build folders
	@rm -rf build build-address build-undefined build-thread build-fuzz
