# `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c

# What make check tests and make test does not, because what is compiled for it alone takes minutes of processor time: here
# the SDKs and libraries of others that nothing else needs, in SDKS those of the modules that all other targets have, and
# in deliveryqueue the OpenTelemetry SDK of a package.
APART := bench retryablehttp/users interop/clients
SDKS := interop awssdk otelretry
not_sdk = $$(go list ./... | grep -v deliveryqueue/otelqueue)
# Every other folder with a go.mod but tools, whose tests make check runs: the root, those whose tests wait longest, and the others.
LONGEST := deliveryqueue fleet interop simulate
MODULES := . $(LONGEST) $(filter-out $(LONGEST) bench tools,$(patsubst %/go.mod,%,$(wildcard */go.mod cmd/*/go.mod)))
TESTED := $(filter-out $(SDKS),$(MODULES))
TESTS := $(TESTED:%=test/%)
# make test leaves out of these what takes long, and make check runs them whole.
LONG := retryablehttp simulate
WHOLE := $(patsubst %,whole/%,$(LONG) $(SDKS) $(APART))
# The other tests that make test leaves to make check: they take a processor, or their package, for as long as all others do.
LATER := TestAnnouncedLimits TestReadmeSetup TestInChromium TestLedgerIsFair TestSlowEndpoints TestDisableAfter TestChaos
empty :=
later = ^($(subst $(empty) $(empty),|,$(LATER)))$$
# Of simulate, whose other tests take long enough, make check runs only those that -short leaves out or shortens.
long_tests = awk '/^func Test/ {sub(/\(.*/, "", $$2); name = $$2} /testing\.Short\(\)/ {printf "%s^%s$$", n++ ? "|" : "", name}' $$(find . -name '*_test.go')
# The race detector is for the modules that programs import. Everything would be compiled for it again: make race does that
# for simulate and the command lines, and make interop for the clients.
PROGRAMS := simulate $(filter cmd/%,$(MODULES))
raced = $$(go list ./... | grep -v -e awsretry/docs -e contract/limits) # which compare texts, and simulate for minutes
# SQLite in Go would take most of the race detector's time. Races in it, and on bytes while it reads them, are not seen.
RACE := -race -gcflags=modernc.org/...=-race=false
RACES := $(patsubst %,race/%,$(filter-out interop $(PROGRAMS),$(MODULES)))
LINTS := $(MODULES:%=lint/%) lint/tools $(APART:%=lint/%)
# The modules whose users would notice a change, and the packages of the root among them.
API_MODULES := otelretry awssdk fleet deliveryqueue retryablehttp
API_PACKAGES := . ./delivery ./poll ./retrylog ./retrytest ./services ./statuspage
# The compiler takes a tenth less time if it collects less garbage, and the linters a quarter. Tests run with Go's default.
FAST := GOGC=400
# Some targets compute and others wait, so three at a time keep two processors busy.
PARALLEL = $(MAKE) --no-print-directory --jobs=3 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
GOVULNCHECK := v1.1.4
# Checked apart from the platform at hand. The library has no assembly and little that depends on the system.
PLATFORMS := windows/amd64 darwin/arm64 freebsd/amd64 plan9/amd64 linux/386 js/wasm
COMMAND_PLATFORMS := windows/amd64 darwin/arm64
# The modules that make compat tests with the Go of their go.mod.
OLDEST_MODULES := . retryablehttp otelretry awssdk fleet
FUZZTIME ?= 10s
CHAOS ?= 60s

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Real requests against a failing service on loopback, in under 20 seconds
	cd cmd/awsretry && $(FAST) go run ./demo

test: needs ## The tests (4 minutes the first time), but for the longest and those of SDKs, which make check runs; says first which it skips for want of a server
	@$(PARALLEL) $(TESTS)
	@echo "== adversary of retryablehttp"; cd bench && $(FAST) go test -vet=off -run '^TestLaw' ./retryablehttp

check: needs-check ## All else that CI runs: long tests and those of SDKs, race detector, linters, other platforms, API listing, pictures
	@command -v "$$(go env CC)" >/dev/null || { echo "the race detector needs a C compiler, and $$(go env CC) is not in PATH: install gcc or clang"; exit 1; }
	@$(PARALLEL) $(RACES) whole/interop later whole/simulate whole/awssdk whole/otelretry whole/bench lint platforms pictures-check
	@$(MAKE) --no-print-directory adversaries
	@$(PARALLEL) whole/retryablehttp whole/retryablehttp/users whole/interop/clients release-check # whose uploads and builds would slow the others down

adversaries: ## The laws in random worlds with a new seed, which is printed, or with SEED=...
	@seed=$(or $(SEED),$$RANDOM$$RANDOM); echo "== adversaries with WORLDS_SEED=$$seed"; export WORLDS_SEED=$$seed; \
	go test -count=1 -vet=off ./internal/contract/laws && (cd fleet && go test -count=1 -vet=off -run '^TestWorlds$$' .) && \
	cd bench && go test -count=1 -vet=off -run '^TestLaw' ./retryablehttp

lint: format $(LINTS) api-check ## Of these only formatting, linters and API listing

$(TESTS): test/%: compile/%
	@echo "== go test $*"; cd $* && go test -vet=off $(if $(filter $(LONG),$*),-short) -skip '$(later)' $(not_sdk)

$(SDKS:%=whole/%): whole/%: compile/%
whole/bench: compile/interop # whose libraries it has too
$(WHOLE): whole/%:
	@cd $* && $(FAST) go list -export -deps -test ./... >/dev/null
	@echo "== go test $*, also what takes long"; cd $* && go test -vet=off $(if $(filter simulate,$*),-run "$$($(long_tests))") ./...

later: # those of deliveryqueue and fleet run with the race detector
	@dirs=$$(grep -rlE --include='*_test.go' $(APART:%=--exclude-dir=%) $(SDKS:%=--exclude-dir=%) --exclude-dir=deliveryqueue --exclude-dir=fleet \
		'^func ($(subst $(empty) $(empty),|,$(LATER)))\(' . | xargs -n 1 dirname | sort -u); \
	for dir in $$dirs; do echo "== go test $$dir, what takes long"; (cd $$dir && go test -vet=off -run '$(later)' .); done

# What -short leaves out takes long and starts nothing at a time that other tests do not.
race: ## The race detector for simulate and the command lines
	@for m in $(PROGRAMS); do echo "== go test -race $$m"; (cd $$m && go test -race -short -vet=off ./...); done

$(RACES): race/%: compile-race/%
	@echo "== go test -race $*"; cd $* && go test $(RACE) -short -vet=off $(raced)

# One module is compiled after the other, because two go commands at a time would both compile what the modules share.
# The tests of those that are compiled run beside that.
COMPILES := $(TESTED:%=compile/%) $(SDKS:%=compile/%)
COMPILES_RACE := $(RACES:race/%=compile-race/%)
in_turn = $(eval before :=)$(foreach m,$2,$(eval $1/$m: $(before:%=$1/%))$(eval before := $m))
$(call in_turn,compile,$(TESTED))
$(call in_turn,compile,$(SDKS))
$(call in_turn,compile-race,$(RACES:race/%=%))

$(COMPILES): compile/%:
	@cd $* && $(FAST) go list -export -deps -test $(not_sdk) >/dev/null

$(COMPILES_RACE): compile-race/%:
	@cd $* && $(FAST) go list $(RACE) -export -deps -test $(raced) >/dev/null

needs: # Says before the work begins what is missing and what will be downloaded
	@echo "make test downloads the Go modules that the go.mod files name, unless they are there."
	@command -v redis-server >/dev/null || command -v valkey-server >/dev/null || echo "SKIPPED: neither redis-server nor valkey-server is in PATH, so the tests of fleet that need one do not run"
	@command -v pgbouncer >/dev/null || echo "SKIPPED: pgbouncer is not in PATH, so the test of deliveryqueue through it does not run"
	@command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || echo "SKIPPED: postgres is neither in PATH nor in /usr/lib/postgresql, so the tests of deliveryqueue on PostgreSQL do not run"

needs-check: needs
	@echo "make check downloads the npm packages of interop/package-lock.json too."
	@for tool in node npm nginx haproxy; do command -v $$tool >/dev/null || echo "SKIPPED: $$tool is not in PATH, so the interop tests that need it do not run"; done
	@command -v promtool >/dev/null || echo "SKIPPED: promtool (Debian: prometheus) is not in PATH, so the alert rules and the dashboard are not checked"
	@command -v chromium >/dev/null || echo "SKIPPED: chromium is not in PATH, so the tests of pages in a browser do not run"

compat: ## The library on 32 bits, and on the oldest Go that it supports, which is downloaded (about 2 minutes)
	@echo "== go test on linux/386"; GOARCH=386 go test -vet=off ./...
	@for m in $(OLDEST_MODULES); do go=$$(awk '$$1 == "go" {print $$1 $$2}' $$m/go.mod); echo "== go test with $$go, $$m"; (cd $$m && GOTOOLCHAIN=$$go go test -vet=off ./...); done

SDK := github.com/aws/aws-sdk-go-v2
SDK_VERSIONS := $$(cd awssdk && awk '$$1 == "$(SDK)" {print $$2}' go.mod) latest
sdk-newest: ## The tests of awssdk with the AWS SDK that it requires and the newest one, which is downloaded; no file of the checkout changes
	@copy=$$(mktemp -d); trap 'rm -rf "$$copy"' EXIT; \
	for version in $(SDK_VERSIONS); do \
		cp awssdk/go.mod "$$copy/sdk.mod"; cp awssdk/go.sum "$$copy/sdk.sum"; \
		(cd awssdk; export GOFLAGS="-modfile=$$copy/sdk.mod"; \
			go mod edit -replace example.com/awsretry=$(CURDIR) && \
			go get $(SDK)/config@latest $(SDK)/service/dynamodb@latest $(SDK)/service/sqs@latest $(SDK)@latest && \
			go get $(SDK)@$$version && go mod tidy) 2>"$$copy/log" || { cat "$$copy/log"; exit 1; }; \
		(cd awssdk; export GOFLAGS="-modfile=$$copy/sdk.mod"; \
			echo "== go test awssdk with $$(go list -m $(SDK) $(SDK)/service/dynamodb $(SDK)/service/sqs | tr '\n' ' ')"; \
			go test ./...); \
	done

RIVER := github.com/riverqueue/river
river-newest: ## The tests of deliveryqueue with the newest River, which is downloaded; no file of the checkout changes
	@copy=$$(mktemp -d); trap 'rm -rf "$$copy"' EXIT; cp deliveryqueue/go.mod "$$copy/river.mod"; cp deliveryqueue/go.sum "$$copy/river.sum"; \
	cd deliveryqueue; export GOFLAGS="-modfile=$$copy/river.mod"; \
	{ go mod edit -replace example.com/awsretry=$(CURDIR) && \
		go get $$(awk '$$1 ~ "^$(RIVER)" && !/indirect/ {print $$1 "@latest"}' go.mod) && go mod tidy; } 2>"$$copy/log" || { cat "$$copy/log"; exit 1; }; \
	echo "== go test deliveryqueue with $$(go list -m $(RIVER))"; go test -vet=off .

format:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi

# They would compile at the same time what the tests of SDKS do.
$(SDKS:%=lint/%) lint/deliveryqueue: $(SDKS:%=compile/%)
$(LINTS): lint/%: bin/lint
	@echo "== lint $*"; cd $* && $(FAST) $(CURDIR)/bin/lint ./...

bin/%: tools/%/main.go tools/go.mod
	@cd tools && $(FAST) go build -o ../$@ ./$*

platforms: bin/platforms # type-checks the root and the command lines for other platforms
	@check() { echo "== types of $$1 for $${*:2}"; $(FAST) bin/platforms -C "$$@"; }; \
	check . $(PLATFORMS); for m in $(filter cmd/%,$(MODULES)); do check $$m $(COMMAND_PLATFORMS); done

mutate: ## Breaks each rule of docs/SOURCES.md and docs/ARCHITECTURE.md, and names the test that notices (five minutes); RUN='^REF:.*quota' for some
	cd tools && go build -o ../bin/mutate ./mutate && ../bin/mutate -C .. -run '$(RUN)'

TIME ?= 10m
fifty: ## Fifty endpoints of a deliveryqueue, of which none to forty are slow, hang or trickle, for TIME (10m; .ci/run: 30s), with 100,000 deliveries waiting for them
	cd deliveryqueue && DELIVERYQUEUE_FIFTY=$(TIME) go test -vet=off -count=1 -timeout 1h -v -run '^TestSlowEndpoints$$' . | grep -v '^=== '

LIST_API = cd tools && { go run ./api -C .. $(API_PACKAGES); for m in $(API_MODULES); do go run ./api -C ../$$m .; done; \
	go run ./api -C ../deliveryqueue ./webhook ./otelqueue; }
api: ## The listing of the exported API, written again
	@$(LIST_API) > ../docs/API.txt

api-check:
	@$(LIST_API) | diff -u ../docs/API.txt - || { echo "docs/API.txt is not the exported API: read docs/COMPATIBILITY.md, then run make api"; exit 1; }

release: apidiff ## The repository as MODULE at VERSION, and a module proxy of it, in dist (docs/RELEASING.md)
	@cd tools && go run ./release -C .. -module '$(MODULE)' -version '$(VERSION)'

release-check: # what make release writes, taken by a user's module
	@echo "== go test tools/release"; cd tools && go test -vet=off ./release

# The release before this one is the last tag of the root module. The go.mod of a release has no replace directives, so
# copies with them are used: the modules come from the checkout, or from the tag.
BASE ?= $(shell git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null)
APIDIFF := golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4
apidiff: ## What changed in the API since the tag BASE (default: the last release); needs the network the first time
	@if [ -z "$(BASE)" ]; then echo "There is no release before this one to compare with: no tag such as v0.4.0, and no BASE=tag."; exit 0; fi; \
	git rev-parse --verify --quiet "$(BASE)^{commit}" >/dev/null || { echo "BASE is $(BASE); it must be a tag or commit of this repository"; exit 1; }; \
	base=$$(mktemp -d); trap 'git worktree remove --force "$$base/tree"; rm -rf "$$base"' EXIT; \
	git worktree add --quiet --detach "$$base/tree" "$(BASE)"; GOBIN="$$base" go install $(APIDIFF); root=$$(go list -m); \
	run() { cd "$$1/$$m"; cp go.mod "$$base/copy.mod"; cp go.sum "$$base/copy.sum"; \
		for other in $(API_MODULES); do go mod edit -replace="$$root/$$other=$$1/$$other" "$$base/copy.mod"; done; \
		go mod edit -replace="$$root=$$1" "$$base/copy.mod"; \
		GOWORK=off GOFLAGS="-mod=mod -modfile=$$base/copy.mod" "$$base/apidiff" -m "$${@:2}" "$$path" 2>"$$base/errors" || { cat "$$base/errors" >&2; exit 1; }; }; \
	for m in . $(API_MODULES); do \
		echo "== apidiff $$m"; path=$$(cd $$m && go list -m); \
		[ -f "$$base/tree/$$m/go.mod" ] || { echo "$$m is not in $(BASE)"; continue; }; \
		(run "$$base/tree" -w "$$base/old"); (run "$(CURDIR)" "$$base/old"); \
	done

vuln: ## govulncheck for every module; needs the network
	@for m in $(MODULES) $(APART) interop/rows; do echo "== govulncheck $$m"; (cd $$m && go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK) ./...); done

cover: ## Statement coverage of the library, and what is not covered
	@go test -coverpkg=./... -coverprofile=coverage.out ./...
	@go tool cover -func=coverage.out | awk '$$3 != "100.0%"'

fleet-chaos: ## Ten minutes of faults of a server, a cluster and a process of a fleet, and then of the processes of one with MaxRate
	cd fleet && go test -count=1 -v -run '^(TestChaos|TestFaultsOfProcesses)$$' -chaos 10m -timeout 1h . | grep -v '^=== '

bench: ## What each library adds to a request; go run ./service, ./fleet and ./pacing in bench measure more
	cd bench && go run .

PICTURES := $(CURDIR)/docs/pictures
pictures: ## The pictures of the README and of docs, drawn again
	cd cmd/awsretry && go run . simulate outage --settings naive,standard --picture $(PICTURES)/outage.svg
	cd cmd/awsretry && go run . simulate throttle --settings standard,adaptive --picture $(PICTURES)/throttle.svg
	cd cmd/awsretry && go run . simulate ../../docs/examples/pacing.yaml --picture $(PICTURES)/pacing.svg
	cd cmd/awsretry && go run . simulate ../../docs/examples/fleet.yaml --picture $(PICTURES)/fleet.svg
	cd cmd/awsretry && go run . simulate announced --settings adaptive=scaled,adaptive=scaled+limits --picture $(PICTURES)/limits.svg

screenshot: ## The picture of the status page, taken again; needs chromium
	CI=true go test -count=1 -run '^TestInChromium$$' ./statuspage -picture $(PICTURES)/statuspage.png

pictures-check: ## Draws the pictures into another folder, and fails if one differs, is missing or is not drawn
	@drawn=$$(mktemp -d); trap 'rm -rf "$$drawn"' EXIT; $(MAKE) --no-print-directory pictures PICTURES="$$drawn" >/dev/null; \
		diff -rq --exclude='*.png' docs/pictures "$$drawn" || { echo "docs/pictures is not what make pictures draws: run it, and commit what it changes"; exit 1; }

interop: bin/lint ## Real clients, real servers, real faults, and CHAOS (60s) of chaos; needs node, npm, nginx and haproxy
	cd interop && CI=true go test -race -count=1 -timeout 15m ./...
	cd interop/clients && CI=true CHAOS=$(CHAOS) go test -race -count=1 -timeout 15m ./...
	cd interop/rows && ../../bin/lint ./... && go test -race -count=1 ./...

clients: ## The table of docs/CLIENTS.md, measured again; compiles clients for minutes, so that make check only compares its versions with go.mod
	cd interop/rows && go test -vet=off -count=1 -update .

fuzz: ## Every fuzz target of every module for FUZZTIME (10s) each
	@for m in $(MODULES); do \
		grep -qr --include='*_test.go' '^func Fuzz' $$m || continue; \
		(cd $$m; for pkg in $$(go list ./...); do \
			for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
				echo "== $$pkg $$target"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$pkg; \
			done; \
		done); \
	done

.PHONY: help demo test check adversaries later needs-check race $(TESTS) $(RACES) $(WHOLE) $(COMPILES) $(COMPILES_RACE) needs compat sdk-newest river-newest lint format $(LINTS) platforms mutate api api-check vuln cover bench interop clients pictures screenshot pictures-check fleet-chaos fuzz release release-check apidiff
