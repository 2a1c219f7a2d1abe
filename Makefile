# What a person types:
#
# make demo    the library at work, on embedded nodes: needs Go and nothing else
# make test    what decides about a change, beside make lint: it installs what it needs; three to six minutes on two processors
# make lint    formatting, vet and staticcheck of what make test runs
# make verify  all other tests, with seeds that nobody has run: before an issue is resolved, and each night
# make soak    tests that take hours or compare speeds, on a quiet machine
# make bench   side by side with the peers, on local redis-server processes: a few minutes
# make fuzz    every fuzz target for FUZZTIME
# make sim     the whole library in a simulation, for SEEDS seeds (100000) from SEED (1) on
# make chaos   random faults on real servers for DURATION; SEED repeats those of an earlier run
# make release commits and tags of VERSION, for a maintainer to push; docs/releasing.md says how
#
# All other targets are parts of these; docs/testing.md has a table. CONTRIBUTING.md says which part to run for which change.
# The library (.) is a module; so is each other folder with a go.mod, which needs more than the library may depend on.
# Written for GNU make 3.81, which macOS has.

.NOTPARALLEL:
.PHONY: demo test verify soak lint bench fuzz sim chaos release

ADAPTERS    = adapters/redlockgoredis adapters/redlockrueidis adapters/redlockvalkey adapters/redlockgocron \
              adapters/redlockasynq adapters/redlockcertmagic adapters/redlockmigrate
# The modules whose tests make test leaves to make verify.
OTHERS      = redlockotel deploy $(ADAPTERS) examples/libraries benchmarks
FLAKY       = "$(CURDIR)/tools/flaky.sh"
TEST        = go test -shuffle=on -count=1
STATICCHECK = $(CURDIR)/tools/out/staticcheck
FUZZTIME   ?= 20s
SEEDS      ?= 100000
DURATION   ?= 10m
SEED       ?= 0

# The tests remove the containers that they started. Inside a container, sibling containers are reached through this
# machine's own network.
TESTCONTAINERS_RYUK_DISABLED ?= true
ifneq ($(wildcard /.dockerenv /run/.containerenv),)
TESTCONTAINERS_HOST_OVERRIDE ?= 127.0.0.1
endif
export TESTCONTAINERS_RYUK_DISABLED TESTCONTAINERS_HOST_OVERRIDE

demo:
	@go run ./examples/quickstart
	@echo
	@go run ./examples/counter

# A part is a target that prints a description of itself; tools/parts.sh runs parts and ends
# with a table of them. Parts in one pair of quotes run one after the other, at the same time
# as the other pairs: the integration tests sleep for most of their time, and no test compares
# a measured time with a limit below some seconds. docs/testing.md has a table of how long
# each part takes. A change that adds a part, or makes one longer, must keep to its limits.
PARTS = @READY=1 MAKE="$(MAKE)" tools/parts.sh

test: setup-test gotestsum
	$(PARTS) "make test" "library race simulated" "integration tool pages"

verify: setup-verify gotestsum
	$(PARTS) "make verify" "sim-fresh raced-rest lint-rest narrow" "thorough servers integration-rest programs browser alerts others chaos-minute bench-rest release-check"

# One after the other: a comparison of speeds needs a quiet machine.
soak: setup-verify gotestsum
	$(PARTS) "make soak" "soak-integration soak-programs soak-servers soak-benchmarks soak-chaos sim fuzz"

# What tests need beside Go, and this machine lacks. READY is set where that was done before: in the parts of a command.
.PHONY: setup-test setup-verify setup-compiler
setup-compiler:
	@$(if $(READY),true,tools/setup.sh compiler)

setup-test:
	@$(if $(READY),true,tools/setup.sh compiler servers redis-server)

setup-verify:
	@$(if $(READY),true,tools/setup.sh compiler servers redis-server prometheus chromium)

# The parts in which the long tests run, too.
thorough integration-rest browser alerts chaos bench-rest soak-integration soak-programs soak-benchmarks: export REDLOCK_LONG = 1

# ---- parts of make test ----

.PHONY: library race simulated integration tool pages gotestsum

# What of the library takes real time: the pages of the docs, programs, embedded nodes; and the
# examples, which have the default timeouts, as a user writes them.
REALTIME = ./docs ./examples/... ./redlocktest ./redlockweb ./internal/test/path
EXAMPLES = '^Example'

library:
	@echo "what: the library, mostly in virtual time"
	packages=$$(go list ./...) && $(TEST) -skip=$(EXAMPLES) -timeout=10m $$(echo "$$packages" | grep -vE '/(docs|examples(/.*)?|redlocktest|redlockweb|internal/test/(sim|path))$$')

# Where goroutines meet in real time. Over the single thread of a bubble in virtual time the detector finds nothing, and
# slows the tests down fivefold: that is make verify's.
RACED = ./internal/pipe ./internal/node ./internal/quorum ./internal/limiter ./internal/notify ./internal/lease ./internal/endpoint .

race: setup-compiler
	@echo "what: the packages whose goroutines meet in real time, with the race detector"
	$(TEST) -race -skip=$(EXAMPLES) -timeout=10m $(RACED)

simulated:
	@echo "what: 300 seeds of the simulation, all planted bugs"
	REDLOCK_LONG=1 $(TEST) -v -timeout=10m ./internal/test/sim -sim.runs=300 -sim.seed=1

# Its tests say which servers they run on.
integration: setup-test gotestsum
	@echo "what: the library on real servers that fail"
	cd integration && $(FLAKY) -timeout=10m . ./cluster ./chaos

tool: gotestsum
	@echo "what: the command line tool"
	cd cmd/redlock && $(FLAKY) -parallel=6 ./...

pages: gotestsum
	@echo "what: the docs and the programs in them, examples, embedded nodes, the page"
	REDLOCK_LONG=1 $(FLAKY) -timeout=10m $(REALTIME)
	$(FLAKY) -run=$(EXAMPLES) . ./fence

gotestsum:
	@cd tools && go build -o out/ gotest.tools/gotestsum

# ---- parts of make verify ----

.PHONY: sim-fresh raced-rest lint-rest narrow thorough servers integration-rest programs browser alerts others chaos-minute bench-rest

# The simulation for SIMTIME, with seeds that the date gives; SEED=… repeats a run.
SIMTIME ?= 10m

sim-fresh:
	@from=$(if $(filter 0,$(SEED)),$$(date -u +%Y%m%d)000000,$(SEED)) && echo "what: the simulation for $(SIMTIME), from seed $$from on; again with make sim-fresh SEED=$$from" && \
	nice -n 10 go test -count=1 -v -timeout=0 -run '^TestSimulation$$' ./internal/test/sim -sim.fresh -sim.time=$(SIMTIME) -sim.seed=$$from

# The long tests, whether the simulation repeats, and many tries of what depends on chance.
thorough:
	@echo "what: the long tests of the library, 100 seeds twice, many tries of what depends on chance"
	$(TEST) -timeout=40m . ./internal/...
	$(MAKE) --no-print-directory sim-repeat REPEAT=1 HASHED=100

# What make test runs without the race detector.
raced-rest: setup-compiler gotestsum
	@echo "what: the whole library but its docs and the simulation, and the tool, with the race detector"
	packages=$$(go list ./...) && $(TEST) -race -skip=$(EXAMPLES) -timeout=30m $$(echo "$$packages" | grep -vE '/(docs|internal/test/sim)$$')
	cd cmd/redlock && $(FLAKY) -race -parallel=6 ./...

# The library and the tool must build, and pass vet, on every system that they support.
lint-rest: lint-tools
	@echo "what: vet and staticcheck of the modules that make lint leaves out, vet for three systems, actionlint"
	@set -e; for module in integration $(OTHERS); do echo "vet, staticcheck: $$module"; (cd $$module && go vet ./... && "$(STATICCHECK)" ./...); done
	@set -e; for system in linux darwin windows; do echo "vet for $$system"; \
		GOOS=$$system go vet ./...; (cd cmd/redlock && GOOS=$$system go vet ./...); done
	cd tools && go build -o out/ github.com/rhysd/actionlint/cmd/actionlint
	tools/out/actionlint -shellcheck= -pyflakes=

# Programs that may use the algorithms of FIPS 140-3 alone, and 32-bit programs. There the embedded nodes have no numbers beyond
# 32 bits, such as tokens that begin from clocks: tests of locks with a restart guard on them are left out, and the
# simulation is not.
NARROW = ./internal/pipe ./internal/endpoint ./internal/limiter ./internal/loginreply ./internal/node ./internal/notify ./internal/printable ./internal/quorum

narrow: gotestsum
	@echo "what: the library and the tool under GODEBUG=fips140=only; vet and tests for 32 bits, with 30 seeds"
	packages=$$(go list ./...) && GODEBUG=fips140=only $(TEST) -timeout=20m $$(echo "$$packages" | grep -vE '/(docs|examples(/.*)?)$$')
	cd cmd/redlock && GODEBUG=fips140=only $(FLAKY) -parallel=6 ./...
	GOARCH=386 CGO_ENABLED=0 go vet ./... && cd cmd/redlock && GOARCH=386 CGO_ENABLED=0 go vet ./...
	@if test "$$(go env GOHOSTOS) $$(go env GOHOSTARCH)" != "linux amd64"; then echo "this machine does not run 386: its tests are skipped"; else set -x; \
		GOARCH=386 CGO_ENABLED=0 $(TEST) -timeout=10m $(NARROW) && \
		GOARCH=386 CGO_ENABLED=0 $(TEST) -timeout=10m ./redlocktest && \
		GOARCH=386 CGO_ENABLED=0 $(TEST) -timeout=10m -run='^TestSimulation$$' ./internal/test/sim -sim.runs=30; fi

# The modules of adapters, OpenTelemetry, alerts and examples.
others: setup-test gotestsum
	@echo "what: adapters, OpenTelemetry, deploy, examples with modules of their own, with the race detector"
	@set -e; for module in $(filter-out benchmarks,$(OTHERS)); do (cd $$module && $(FLAKY) -race ./...); done

# One package at a time: each starts and kills servers, and may take the port of one that is down.
INTEGRATION = cd integration && $(FLAKY) -race -p=1 -timeout=30m

# All tests but those of make soak; the chaos test has a part of its own.
integration-rest: setup-test gotestsum
	@echo "what: all tests on real servers but chaos, with the race detector"
	$(INTEGRATION) -skip='^TestHistories' . ./cluster ./chaos

# One cluster for each server program that REDLOCK_TEST_SERVERS names (paths, separated by colons;
# without it the servers of make integration), and a mixed one of all. It prints their versions.
servers: setup-test gotestsum
	@echo "what: contract tests on each server program and kind of client, and servers that refuse, with the race detector"
	$(INTEGRATION) ./contract
	REDLOCK_LONG=1 tools/each-server.sh $(SHELL) -c '$(INTEGRATION) -run=^TestNothingIsGreen .'

# Other programs that lock with the adapters, in several processes.
programs soak-programs: setup-test gotestsum
	@echo "what: certificates, migrations and schedulers of several processes on real servers, with the race detector"
	$(INTEGRATION) ./programs ./schedulers

# The page of redlockweb in Chromium; without one the tests are skipped with a word.
browser: setup-verify gotestsum
	@echo "what: the page of the locks in a browser, with the race detector"
	$(INTEGRATION) ./browser

# It needs prometheus too, and says so where it skips.
alerts: setup-verify gotestsum
	@echo "what: each alert on a Prometheus over real servers that fail, with the race detector"
	cd deploy && $(FLAKY) -race -run='OnRealServers$$' .

bench-rest: setup-test gotestsum
	@echo "what: the benchmarks, all of their tests"
	cd benchmarks && $(FLAKY) -timeout=15m ./...

chaos-minute:
	@$(MAKE) --no-print-directory chaos DURATION=1m

# ---- parts of make soak ----

.PHONY: soak-integration soak-programs soak-servers soak-benchmarks soak-chaos

# The integration tests but chaos, once for each program that REDLOCK_TEST_SERVERS names and once on a mixed cluster.
soak-servers: setup-test
	@echo "what: all integration tests but chaos, on each server program, with the race detector"
	@tools/each-server.sh $(MAKE) --no-print-directory integration-rest

# No other test runs meanwhile.
soak-integration: setup-test
	@echo "what: comparisons of speed and long loads on real servers"
	cd integration && $(TEST) -v -timeout=0 -run '^TestSoak' . -soak

soak-benchmarks: setup-test
	@echo "what: comparisons of speed with other libraries"
	cd benchmarks && go test -count=1 -v -run '^TestSoak' . -soak

soak-chaos:
	@$(MAKE) --no-print-directory chaos DURATION=1h

# A test's output ends with the summary.
chaos: setup-test
	@echo "what: chaos on real servers for $(DURATION), with the race detector"
	cd integration && go test -race -count=1 -timeout=0 -v -run '^TestHistories' . \
		-chaos.duration=$(DURATION) -chaos.seed=$(SEED)

# The simulation for a number of seeds: make sim SEEDS=100000, from SEED on.
sim:
	@echo "what: the simulation, $(SEEDS) seeds"
	go test -count=1 -v -timeout=0 -run '^TestSimulation$$' ./internal/test/sim -sim.fresh -sim.runs=$(SEEDS) -sim.seed=$(if $(filter 0,$(SEED)),1,$(SEED))

# ---- parts of make lint ----

.PHONY: format vet staticcheck scripts lint-tools
lint: format vet staticcheck scripts

format:
	@unformatted=$$(gofmt -l .) && test -z "$$unformatted" || { \
		echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; } >&2

# CHECK runs a command on all that make test runs.
CHECK = $(1) ./... && (cd cmd/redlock && $(1) ./...) && (cd integration && $(1) . ./cluster ./chaos) && (cd tools && $(1) ./...)

vet:
	$(call CHECK,go vet)

staticcheck: lint-tools
	$(call CHECK,"$(STATICCHECK)")

# Built in a module that requires it: go run PROGRAM@VERSION also asks the proxy for paths that are
# no modules, and some proxies answer with an error at which go stops.
lint-tools:
	cd tools && go build -o out/ honnef.co/go/tools/cmd/staticcheck

# The tests of the scripts that make runs.
scripts: setup-compiler
	cd tools && $(TEST) ./...

# ---- releases ----

# A version is made in a clone; the repository gets its commits and tags at the end. It pushes nothing.
.PHONY: requires release-check release-files
release:
	tools/release.sh prepare "$(VERSION)"

# Published modules require the last commit of main that changed the root's module, or COMMIT.
requires:
	tools/release.sh requires $(COMMIT)

# Each published module of HEAD, and of a release made of it, is got and built as a user does it.
release-check:
	@echo "what: each published module of HEAD and of a release, as users get it"
	cd tools && REDLOCK_LONG=1 $(TEST) -v -timeout=1h -run '^TestUsersGet' .

# The files of the VERSION whose tags are checked out, as the workflow makes them.
release-files:
	tools/release.sh files "$(VERSION)"

# ---- by hand ----

.PHONY: sim-hash sim-repeat bench-full pictures

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

# The tag redislock, where go gets that peer's module: not every module proxy has it. For a shell in benchmarks/.
BUILD_BENCHMARKS = { tags=; \
	if go mod download github.com/bsm/redislock >/dev/null 2>&1; then tags=redislock; \
	else echo "without the peer redislock: go does not get its module" >&2; fi; \
	go build -tags "$$tags" -o out/ .; }

# BENCH are more flags: make bench BENCH="-only pairs,wan -strict". Built first,
# so that an interrupt reaches the program itself.
bench:
	cd benchmarks && $(BUILD_BENCHMARKS) && out/benchmarks $(BENCH)

bench-full:
	cd benchmarks && $(BUILD_BENCHMARKS) && out/benchmarks -full -docs ../docs $(BENCH)

# A test compares them with the program: they change with it.
pictures:
	cd cmd/redlock && go test -count=1 -run '^TestPictures' ./internal/top -pictures
	cd integration && REDLOCK_LONG=1 go test -count=1 -v -run '^TestPictures$$' ./browser -pictures=$(CURDIR)/docs/pictures

fuzz:
	@echo "what: every fuzz target for $(FUZZTIME)"
	@set -e; packages=$$(go list ./...); for package in $$packages; do \
		targets=$$(go test -list '^Fuzz' $$package); \
		for target in $$(echo "$$targets" | grep '^Fuzz' || true); do \
			echo "$$package $$target, $(FUZZTIME)"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
		done; done
