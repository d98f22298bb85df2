# For a newcomer: make demo, make test. Both install what is missing, see tools/setup.sh.

GO ?= go

# A checkout that belongs to somebody else, or none at all, has no revision to stamp. That must not stop the build.
ifeq ($(shell git rev-parse --verify -q HEAD 2>/dev/null),)
export GOFLAGS += -buildvcs=false
endif

.PHONY: help demo test busted check build results peers bars matrix replay pages clean

help:
	@echo 'make demo     race every limiter against 20 processes on a private Redis'
	@echo 'make test     run all tests, those of Go and those of the Lua client'
	@echo 'make check    everything a change must pass: the tests also under the race detector, vet, staticcheck, fuzz'
	@echo 'make build    build bin/rlctl'
	@echo 'make results  measure again what the pages show, in under 15 minutes'
	@echo 'make peers    measure limiters of other libraries beside ours, in under 5 minutes'
	@echo 'make bars     hold the limiters to multiples of what others cost, round by round, in some minutes'
	@echo 'make matrix   try the limiters on servers of other makes and versions, from Debian packages, in some minutes'
	@echo 'make replay   hold replay against a real Redis over a million requests, in about two minutes'
	@echo 'make pages    make pictures and tables again from what was measured'
	@echo 'make clean    remove what was built'

demo:
	@sh tools/setup.sh redis
	@$(MAKE) --no-print-directory build
	bin/rlctl race --procs 20 --limit 100

test:
	@sh tools/setup.sh redis cc python node lua nginx curl
	$(GO) test ./...
	$(GO) test -C peers ./...
	@$(MAKE) --no-print-directory busted

# The specs of the Lua client.
busted: build
	cd lua && busted

check:
	@sh tools/setup.sh redis cc python node lua nginx curl
	@$(GO) run ./internal/check

build:
	$(GO) build -o bin/rlctl .

# The commit is stamped whatever GOFLAGS says, since each result names it.
results:
	@sh tools/setup.sh redis
	$(GO) build -buildvcs=auto -o bin/rlctl .
	$(GO) test ./pkg/target -run Zoo -update
	$(GO) run ./internal/results

# A module of its own, so that nobody else pulls those libraries in.
peers: build
	@sh tools/setup.sh redis cc
	$(GO) build -C peers -buildvcs=auto -o ../bin/peers .
	bin/peers compare results/peers.json
	bin/rlctl report --readme

bars: build
	@sh tools/setup.sh redis cc
	$(GO) build -C peers -buildvcs=auto -o ../bin/peers .
	bin/peers bars results
	bin/rlctl report --readme

# Servers beside the system, none of them installed.
matrix:
	@sh tools/setup.sh redis cc
	$(GO) build -buildvcs=auto -o bin/rlctl .
	$(GO) run ./internal/matrix

# A log of a million requests through the models, and the same requests through Redis.
replay:
	@sh tools/setup.sh redis cc
	$(GO) build -buildvcs=auto -o bin/rlctl .
	$(GO) run ./internal/whatif

pages: build
	$(GO) run ./internal/results pages

clean:
	rm -rf bin
