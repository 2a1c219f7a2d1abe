# make demo   the library at work, on embedded nodes: needs Go and nothing else
# make test   everything: unit tests, race detector, real Redis servers
# make lint   formatting, vet, staticcheck
# make bench  side by side with the peers, on local redis-server processes: a few minutes
# make bench-full  everything, and docs/benchmarks.md from it: about 25 minutes, on a quiet machine
# make fuzz   every fuzz target for FUZZTIME
# make sim    the whole library in a simulation, for 100000 seeds; SEEDS and SEED are yours
# make chaos  random faults on real servers for DURATION, or those of a SEED again
#
# Six modules: the library (.), and cmd/redlock/, redlockotel/, integration/, benchmarks/ and
# examples/fencing/, which need more than the library may depend on. tools/ is a seventh without
# code of its own: it names the version of staticcheck. Written for GNU make 3.81, which macOS has.

.NOTPARALLEL:
.PHONY: demo test unit library fencing simulated sim beside servers integration measured others chaos bench-test lint format vet cross staticcheck bench bench-full fuzz

RACED       = . cmd/redlock redlockotel integration examples/fencing
STATICCHECK = $(CURDIR)/tools/out/staticcheck
TEST        = go test -race -shuffle=on
FUZZTIME   ?= 20s
SEEDS      ?= 100000
DURATION   ?= 10m
SEED       ?= 0

# Inside a container, sibling containers are reached through this machine's own
# network, and testcontainers' reaper container cannot be: the tests remove what
# they started themselves.
ifneq ($(wildcard /.dockerenv /run/.containerenv),)
TESTCONTAINERS_HOST_OVERRIDE ?= 127.0.0.1
TESTCONTAINERS_RYUK_DISABLED ?= true
export TESTCONTAINERS_HOST_OVERRIDE TESTCONTAINERS_RYUK_DISABLED
endif

demo:
	@go run ./examples/quickstart
	@echo
	@go run ./examples/counter

test: servers library measured beside bench-test

# What needs no Redis server.
unit: library fencing

library:
	$(TEST) ./...
	cd cmd/redlock && $(TEST) ./...
	cd redlockotel && $(TEST) ./...

# Apart, as its database takes long to compile.
fencing:
	cd examples/fencing && $(TEST) ./...

# The simulation without the race detector, which slows it down tenfold; and that
# it finds the bugs that are planted. With the other tests that are too slow with it,
# and those that it leaves time for a few tries only.
simulated:
	go test -count=1 -v -run '^(TestSimulation|TestTheSimulationFinds.*|TestTheSameSeed.*|$(SLOW)|$(OFTEN))$$' . -sim.runs=2000 -schedules=4000

SLOW  = TestTokensIncreaseWhile.*|TestAHalfCutWaiter.*|TestEqualClients.*|TestLostCallsAndAMinority.*|TestClientsThatComeAndDie.*
OFTEN = TestAHolderThatIsCutOff.*|TestUnlockAtAnyInstant.*|TestSplitVotes.*

# The simulation for as many seeds as wanted: make sim SEEDS=100000, from SEED on.
sim:
	go test -count=1 -v -timeout=0 -run '^TestSimulation$$' . -sim.runs=$(SEEDS) -sim.seed=$(if $(filter 0,$(SEED)),1,$(SEED))

# The integration tests sleep for most of their time: what has no time limits takes
# that, and gives way to them.
beside:
	@log=$$(mktemp) && { $(GIVING_WAY) $(MAKE) simulated fencing >$$log 2>&1 & } && simulated=$$! && \
	status=0; $(MAKE) others || status=1; wait $$simulated || status=1; \
	cat $$log; rm -f $$log; exit $$status

# Linux' policy for the idle: a server that wakes up need not await the end of a slice.
GIVING_WAY = $$(chrt --idle 0 true 2>/dev/null && echo chrt --idle 0 || echo nice -n 19)

# Its tests say which servers they run on: Docker containers where an engine
# answers, else redis-server processes. Never from the cache: the servers are
# part of the result.
integration: measured others
INTEGRATION = cd integration && $(TEST) -count=1 -timeout=12m -v

# Those that compare speeds: nothing else may run meanwhile.
measured: servers
	$(INTEGRATION) -run '^($(MEASURED))$$' .

others: servers
	$(INTEGRATION) -skip '^($(MEASURED))$$' ./...

MEASURED = TestFrozenMinorityLeaves.*|TestAHalfCutWaiterLeaves.*

# One minute of it is part of make test. A test's output ends with the summary.
chaos: servers
	cd integration && go test -race -count=1 -timeout=0 -v -run '^TestHistories' . \
		-chaos.duration=$(DURATION) -chaos.seed=$(SEED)

servers:
	@docker version >/dev/null 2>&1 || test -n "$$DOCKER_HOST" || command -v redis-server >/dev/null || { \
		echo "The integration tests need real Redis servers: start Docker, or install redis-server"; \
		echo "(Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis)."; \
		echo "Without either, make unit runs all other tests, and make demo needs no server."; \
		exit 1; } >&2

lint: format vet cross staticcheck

format:
	@unformatted=$$(gofmt -l .) && test -z "$$unformatted" || { \
		echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; } >&2

# With -race where the tests have it: what is compiled for these checks serves them too.
vet:
	@set -e; for module in $(RACED); do echo "go vet, module $$module"; (cd $$module && go vet -race ./...); done
	cd benchmarks && go vet ./...

# The library and the tool must build, and pass vet, wherever they say they do.
cross:
	@set -e; for system in linux darwin windows; do echo "go vet for $$system"; \
		GOOS=$$system go vet ./...; (cd cmd/redlock && GOOS=$$system go vet ./...); done

# Built in a module that requires it: for go run PROGRAM@VERSION, go asks the module
# proxy for modules that are none, and not every proxy answers so that it goes on.
staticcheck:
	cd tools && go build -o out/ honnef.co/go/tools/cmd/staticcheck
	@set -e; for module in $(RACED); do echo "staticcheck, module $$module"; (cd $$module && GOFLAGS=-race "$(STATICCHECK)" ./...); done
	cd benchmarks && "$(STATICCHECK)" ./...

# The benchmarks' own tests, without the race detector: they compare speeds.
# They need redis-server, and say so where they skip.
bench-test:
	cd benchmarks && go test -shuffle=on -count=1 -v ./...

# The tag redislock, where go gets that peer's module: not every module proxy has it.
# In a shell in benchmarks/, $(1) are the other tags.
BUILD_BENCHMARKS = { tags=$(1); \
	if go mod download github.com/bsm/redislock >/dev/null 2>&1; then tags=$$tags,redislock; \
	else echo "without the peer redislock: go does not get its module" >&2; fi; \
	go build -tags "$$tags" -o out/ .; }

# BENCH are more flags: make bench BENCH="-only pairs,wan -strict". Built first,
# so that an interrupt reaches the program itself.
bench:
	cd benchmarks && $(call BUILD_BENCHMARKS,) && out/benchmarks $(BENCH)

# The tag builds the peers with servers of their own too: etcd alone is heavier
# than all the rest.
bench-full:
	cd benchmarks && $(call BUILD_BENCHMARKS,full) && out/benchmarks -full -docs ../docs $(BENCH)

fuzz:
	@set -e; for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target, $(FUZZTIME)"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
		done; done
