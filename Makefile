# make demo    the library at work, on embedded nodes: needs Go and nothing else
# make test    unit tests, race detector, real Redis servers: four to six minutes on two processors
# make verify  the other tests that a change must pass: ten minutes of simulation, planted bugs, chaos
# make servers the contract tests on each server program that REDLOCK_TEST_SERVERS names, and on all in one cluster
# make soak    tests that take hours or compare speeds, on a quiet machine
# make lint    formatting, the length of the docs' sentences, vet, staticcheck, actionlint, the tests of tools/
# make bench   side by side with the peers, on local redis-server processes: a few minutes
# make bench-full  everything, and docs/benchmarks.md from it: 20 minutes, on a quiet machine
# make pictures  the pictures of docs/pictures anew, from the program's own cells and page: needs Chromium
# make fuzz    every fuzz target for FUZZTIME
# make sim     the whole library in a simulation, for SEEDS seeds (100000) from SEED (1) on
# make chaos   random faults on real servers for DURATION; SEED repeats those of an earlier run
# make release commits, tags and files of VERSION, for a maintainer to push; docs/releasing.md says how
# make release-check  a release in a clone, used as its users will use it: some minutes
#
# The library (.) is a module; so are cmd/redlock/, redlockotel/, deploy/, each of adapters/, integration/, integration/programs/,
# integration/schedulers/, integration/browser/, benchmarks/, examples/fencing/ and examples/schedulers/, which need more than the library may depend on.
# tools/ is one that names the versions of staticcheck and actionlint, and has the programs that make releases and count sentences.
# Written for GNU make 3.81, which macOS has.

.NOTPARALLEL:
.PHONY: demo test verify soak unit library tools adapters fencing simulated thorough sim sim-timed sim-hash sim-repeat
.PHONY: need-servers servers soak-servers integration integration-rest soak-integration programs browser soak-programs alerts soak-benchmarks chaos chaos-minute soak-chaos bench-test bench-rest
.PHONY: lint format sentences vet cross staticcheck workflows release-test bench bench-full pictures fuzz
.PHONY: release release-check release-files release-program

ADAPTERS    = adapters/redlockgoredis adapters/redlockrueidis adapters/redlockvalkey adapters/redlockgocron \
              adapters/redlockasynq adapters/redlockcertmagic adapters/redlockmigrate
PROGRAMS    = integration/programs integration/schedulers
BROWSER     = integration/browser
RACED       = . cmd/redlock redlockotel deploy $(ADAPTERS) integration $(PROGRAMS) $(BROWSER) examples/fencing examples/schedulers
STATICCHECK = $(CURDIR)/tools/out/staticcheck
TEST        = go test -race -shuffle=on -count=1
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

# A part is a target that prints a description of itself; tools/parts.sh runs parts and ends
# with a table of them. Parts in one pair of quotes run one after the other, at the same time
# as the other pairs: the integration tests sleep for most of their time, and no test compares
# a measured time with a limit below some seconds. docs/testing.md has a table of how long
# each part takes. A change that adds a part, or makes one longer, must keep to its limits.
PARTS = @MAKE="$(MAKE)" tools/parts.sh

test: need-servers
	$(PARTS) "make test" "library simulated" "integration tools adapters fencing bench-test"

verify: need-servers
	$(PARTS) "make verify" "sim-timed" "thorough servers integration-rest programs browser alerts chaos-minute bench-rest"

# One after the other: a comparison of speeds needs a quiet machine.
soak: need-servers
	$(PARTS) "make soak" "soak-integration soak-programs soak-servers soak-benchmarks soak-chaos sim fuzz"

# The parts in which the long tests run, too.
thorough integration-rest browser alerts chaos bench-rest soak-integration soak-programs soak-benchmarks: export REDLOCK_LONG = 1

# The tests that need no Redis server.
unit: library tools adapters fencing

# The docs' tests read text, in one goroutine: the race detector slows them down fivefold for nothing.
library:
	@echo "what: the library and its examples with the race detector, and its docs"
	$(TEST) -timeout=15m $$(go list ./... | grep -v '/docs$$')
	REDLOCK_LONG=1 go test -shuffle=on -count=1 ./docs

tools:
	@echo "what: the command line tool, OpenTelemetry, what deploy/ has, with the race detector"
	cd cmd/redlock && $(TEST) -parallel=6 ./...
	cd redlockotel && $(TEST) ./...
	cd deploy && $(TEST) ./...

# examples/schedulers shows how to do without an adapter.
adapters:
	@echo "what: pools of other clients and locks for other programs, with the race detector"
	@set -e; for module in $(ADAPTERS) examples/schedulers; do (cd $$module && $(TEST) ./...); done

# A part of its own, as its database takes long to compile.
fencing:
	@echo "what: fencing with a database, with the race detector"
	cd examples/fencing && $(TEST) ./...

# The race detector slows the simulation down tenfold.
simulated:
	@echo "what: 300 seeds of the simulation"
	go test -count=1 -v -run '^(TestSimulation|TestTheSameSeed.*)$$' ./internal/test/sim -sim.runs=300 -sim.seed=$(FROM)

# The tests of the library and its internal packages without the race detector: the long
# ones, the planted bugs, whether the simulation repeats, and many tries of what depends on
# chance.
thorough:
	@echo "what: the long tests, planted bugs, 100 seeds twice, many tries of what depends on chance"
	go test -count=1 -timeout=20m . ./internal/...

# The simulation for a number of seeds: make sim SEEDS=100000, from SEED on.
sim:
	@echo "what: the simulation, $(SEEDS) seeds"
	go test -count=1 -v -timeout=0 -run '^TestSimulation$$' ./internal/test/sim -sim.runs=$(SEEDS) -sim.seed=$(if $(filter 0,$(SEED)),1,$(SEED))

# The simulation for SIMTIME. Each commit has seeds of its own; SEED=… repeats those of another.
sim-timed:
	@from=$(FROM) && echo "what: the simulation for $(SIMTIME), from seed $$from on; again with make sim-timed SEED=$$from" && \
	nice -n 10 go test -count=1 -v -timeout=0 -run '^TestSimulation$$' ./internal/test/sim -sim.time=$(SIMTIME) -sim.seed=$$from

SIMTIME ?= 10m
FROM = $(if $(filter 0,$(SEED)),$$(printf %d 0x0$$(git rev-parse HEAD 2>/dev/null | cut -c 1-7)),$(SEED))

# The hash of 2000 histories: it stays the same if a change does not alter the library's
# behaviour. HASHES names a file for one hash per seed: two such files show the first seed
# that differs.
sim-hash:
	@go test -count=1 -v -timeout=0 -run '^TestSimulationHash$$' ./internal/test/sim -sim.hash -sim.runs=$(HASHED) $(if $(HASHES),-sim.hashes=$(abspath $(HASHES)))

HASHED ?= 2000

# Runs each seed REPEAT times on all processors and REPEAT times on one: the histories of
# a seed must be the same.
sim-repeat:
	go test $(if $(RACE),-race) -count=1 -v -timeout=0 -run '^TestSimulationRepeats$$' ./internal/test/sim -sim.repeat=$(REPEAT) -sim.runs=$(HASHED) -sim.seed=$(if $(filter 0,$(SEED)),1,$(SEED))

REPEAT ?= 3

# Its tests say which servers they run on: Docker containers where an engine answers, else
# redis-server processes. Never from the cache: the servers are part of the result.
INTEGRATION = cd integration && $(TEST) -timeout=30m -v
# Its packages but the contract tests, which are a part of their own.
WHOLE = $$(go list ./... | grep -v '/contract$$')

integration: need-servers
	@echo "what: the library on real servers that fail, with the race detector"
	$(INTEGRATION) $(WHOLE)

# All tests but those of make soak; the chaos test has a part of its own.
integration-rest: need-servers
	@echo "what: all tests on real servers but chaos, with the race detector"
	$(INTEGRATION) -skip '^TestHistories' $(WHOLE)

# Other programs that lock with the adapters, in several processes.
programs: need-servers
	@echo "what: certificates, migrations and schedulers of several processes on real servers, with the race detector"
	@set -e; for module in $(PROGRAMS); do (cd $$module && $(TEST) -v ./...); done

# The page of redlockweb in Chromium; without one the tests are skipped with a word.
browser:
	@echo "what: the page of the locks in a browser, with the race detector"
	cd $(BROWSER) && $(TEST) -v ./...

# The long tests run, too, and the schedulers for a minute.
soak-programs: need-servers
	@echo "what: all tests of certificates, migrations and schedulers, with the race detector"
	@set -e; for module in $(PROGRAMS); do (cd $$module && $(TEST) -v ./...); done

# It needs prometheus too, and says so where it skips.
alerts: need-servers
	@echo "what: each alert on a Prometheus over real servers that fail, with the race detector"
	cd deploy && $(TEST) -v -run 'OnRealServers$$' .

# One cluster for each server program that REDLOCK_TEST_SERVERS names (paths, separated by colons;
# without it the servers of make integration), and a mixed one of all. It prints their versions.
servers: need-servers
	@echo "what: the contract tests, on each server program and each kind of client, with the race detector"
	$(INTEGRATION) ./contract

# All integration tests, once for each of these programs and once on a mixed cluster.
soak-servers: need-servers
	@echo "what: all integration tests but chaos, on each server program, with the race detector"
	@tools/each-server.sh $(MAKE) --no-print-directory integration-rest

# No other test runs meanwhile.
soak-integration: need-servers
	@echo "what: comparisons of speed and long loads on real servers"
	$(INTEGRATION) -timeout=0 -run '^TestSoak' . -soak

soak-benchmarks: need-servers
	@echo "what: comparisons of speed with other libraries"
	cd benchmarks && go test -count=1 -v -run '^TestSoak' . -soak

# A test's output ends with the summary.
chaos: need-servers
	@echo "what: chaos on real servers for $(DURATION), with the race detector"
	cd integration && go test -race -count=1 -timeout=0 -v -run '^TestHistories' . \
		-chaos.duration=$(DURATION) -chaos.seed=$(SEED)

chaos-minute:
	@$(MAKE) --no-print-directory chaos DURATION=1m

soak-chaos:
	@$(MAKE) --no-print-directory chaos DURATION=1h

need-servers:
	@docker version >/dev/null 2>&1 || test -n "$$DOCKER_HOST$$REDLOCK_TEST_SERVERS" || command -v redis-server >/dev/null || { \
		echo "The integration tests need real Redis servers: start Docker, or install redis-server"; \
		echo "(Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis)."; \
		echo "Without either, make unit runs the other tests, and make demo needs no server."; \
		exit 1; } >&2

lint: format sentences vet cross staticcheck workflows release-test

format:
	@unformatted=$$(gofmt -l .) && test -z "$$unformatted" || { \
		echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; } >&2

# tools/out/sentences -v lists each sentence and paragraph that is too long.
sentences:
	cd tools && go build -o out/ ./sentences
	@tools/out/sentences

# With -race where the tests have it, so that both use the same compiled packages.
vet:
	@set -e; for module in $(RACED); do echo "go vet, module $$module"; (cd $$module && go vet -race ./...); done
	@set -e; for module in benchmarks tools; do echo "go vet, module $$module"; (cd $$module && go vet ./...); done

# The library and the tool must build, and pass vet, on every system that they support.
cross:
	@set -e; for system in linux darwin windows; do echo "go vet for $$system"; \
		GOOS=$$system go vet ./...; (cd cmd/redlock && GOOS=$$system go vet ./...); done

# Built in a module that requires it: for go run PROGRAM@VERSION, go asks the module
# proxy for modules that are none, and not every proxy answers so that it goes on.
staticcheck:
	cd tools && go build -o out/ honnef.co/go/tools/cmd/staticcheck
	@set -e; for module in $(RACED); do echo "staticcheck, module $$module"; (cd $$module && GOFLAGS=-race "$(STATICCHECK)" ./...); done
	@set -e; for module in benchmarks tools; do echo "staticcheck, module $$module"; (cd $$module && "$(STATICCHECK)" ./...); done

# What GitHub runs, and only there, is read by actionlint.
workflows:
	cd tools && go build -o out/ github.com/rhysd/actionlint/cmd/actionlint
	tools/out/actionlint -shellcheck= -pyflakes=

# Here and not among the tools: this module may need the newest Go, and the tools must do with the one before.
release-test:
	cd tools && go test -shuffle=on -count=1 ./...

# The benchmarks' own tests. They need redis-server, and say so where they skip.
bench-test:
	@echo "what: the benchmarks, a tiny run of each kind"
	cd benchmarks && go test -shuffle=on -count=1 -v ./...

bench-rest:
	@echo "what: the benchmarks, all of their tests"
	cd benchmarks && go test -shuffle=on -count=1 -v -timeout=15m ./...

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

# A test compares them with the program: they change with it.
pictures:
	cd cmd/redlock && go test -count=1 -run '^TestPictures' ./internal/top -pictures
	go test -count=1 -run '^TestDiagrams' ./docs -draw
	cd $(BROWSER) && REDLOCK_LONG=1 go test -count=1 -v -run '^TestPictures$$' . -pictures=$(CURDIR)/docs/pictures

fuzz:
	@echo "what: every fuzz target for $(FUZZTIME)"
	@set -e; for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target, $(FUZZTIME)"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
		done; done

# A version is made in a clone; the repository gets its commits and tags at the end. It pushes nothing.
release: release-program
	tools/out/release prepare "$(VERSION)"

# Without a VERSION, the next one. A module that a folder of adapters/ has is part of it by that alone.
release-check: release-program
	tools/out/release rehearse "$(VERSION)"

# The files of the VERSION whose tags are checked out, as the workflow makes them.
release-files: release-program
	tools/out/release files "$(VERSION)"

release-program:
	cd tools && go build -o out/ ./release
