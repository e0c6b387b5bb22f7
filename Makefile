# `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c

# Every folder with a go.mod, the root first; tools only builds what the others are checked with.
MODULES := . $(filter-out tools,$(patsubst %/go.mod,%,$(wildcard */go.mod cmd/*/go.mod)))
TESTS := $(MODULES:%=test/%)
LINTS := $(MODULES:%=lint/%) lint/tools
LINTER := bin/golangci-lint
# The linters take a quarter less time if they collect less garbage, and the compiler a tenth. Tests run with Go's default.
FAST := GOGC=400
GOVULNCHECK := v1.1.4
# Checked apart from the platform at hand. The library has no assembly and little that depends on the system.
PLATFORMS := windows/amd64 darwin/arm64 freebsd/amd64 plan9/amd64 linux/386 js/wasm
COMMAND_PLATFORMS := windows/amd64 darwin/arm64
# The go line of the root's go.mod, and the modules that have it too.
OLDEST_GO := go1.25.5
OLDEST_MODULES := . otelretry awssdk fleet
FUZZTIME ?= 10s
CHAOS ?= 60s

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Real requests against a failing service on loopback, in under 20 seconds
	cd cmd/awsretry && go run ./demo

# With --jobs=2 --output-sync=target the linter is compiled while the first modules are tested, and what waits runs
# beside what computes. The linters need the packages that the tests have compiled, and have what go vet would find.
test: LINTFLAGS := GOFLAGS=-race
test: needs $(LINTER) $(TESTS) test/pacing lint ## What CI runs: lint, and the tests of every module with the race detector

$(TESTS): test/%: needs
	@echo "== go test -race $*"; cd $* && $(FAST) go list -race -export -deps -test ./... >/dev/null && go test -race -vet=off ./...

test/pacing: needs
	@echo "== go test the pacing"; cd simulate && go test -vet=off -run 'TestScaledPacing|TestReadyScenarios' .

needs: # Says before the work begins what is missing and what will be downloaded
	@command -v "$$(go env CC)" >/dev/null || { echo "make test needs a C compiler for the race detector, and $$(go env CC) is not in PATH: install gcc or clang, or run go test ./... without the race detector"; exit 1; }
	@echo "make test downloads the Go modules that the go.mod files name, and the npm packages of interop/package-lock.json, unless they are there."
	@for tool in node npm nginx haproxy; do command -v $$tool >/dev/null || echo "SKIPPED: $$tool is not in PATH, so the interop tests that need it do not run"; done
	@command -v redis-server >/dev/null || command -v valkey-server >/dev/null || echo "SKIPPED: neither redis-server nor valkey-server is in PATH, so the tests of fleet that need one do not run"
	@command -v chromium >/dev/null || echo "SKIPPED: chromium is not in PATH, so the test of the report in a browser does not run"
	@command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || echo "SKIPPED: postgres is neither in PATH nor in /usr/lib/postgresql, so the tests of deliveryqueue on PostgreSQL do not run"

compat: ## The library on 32 bits, and on the oldest Go that it supports, which is downloaded (about 2 minutes)
	@echo "== go test on linux/386"; GOARCH=386 go test -vet=off ./...
	@for m in $(OLDEST_MODULES); do echo "== go test with $(OLDEST_GO), $$m"; (cd $$m && GOTOOLCHAIN=$(OLDEST_GO) go test -vet=off ./...); done

lint: format $(LINTS) crossvet api-check layers mutate-check ## Formatting, linters, layers, API listing, rules, and vet for other platforms

format:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi

lint/tools: LINTFLAGS := # the tools run without the race detector
$(LINTS): lint/%: $(LINTER)
	@echo "== golangci-lint $*"; cd $* && $(FAST) $(LINTFLAGS) $(CURDIR)/$(LINTER) run --allow-parallel-runners --config $(CURDIR)/.golangci.yml ./...

crossvet:
	@echo "== crossvet"; cd tools && export $(FAST) && go run ./crossvet -C .. $(PLATFORMS) && go run ./crossvet -C ../cmd/awsretry $(COMMAND_PLATFORMS)

layers: ## Which files of the library use each other's names; only the pairs named here may do so mutually
	@cd tools && go run ./layers -C .. -allow config.go:transport.go,resume.go:transport.go -tests internal/contract

mutate: ## Breaks each rule of docs/SOURCES.md and docs/ARCHITECTURE.md, and names the test that notices (ten minutes); RUN='^REF:.*quota' for some
	cd tools && go build -o ../bin/mutate ./mutate && ../bin/mutate -C .. -run '$(RUN)'

mutate-check: # the list of what make mutate breaks is that of the rules, and fits the code
	@cd tools && go run ./mutate -C .. -check

api: ## The listing of the exported API, written again
	@cd tools && { go run ./api -C .. . ./delivery ./delivery/letters ./poll; for m in otelretry awssdk fleet deliveryqueue; do go run ./api -C ../$$m .; done; } > ../docs/API.txt

api-check:
	@cd tools && { go run ./api -C .. . ./delivery ./delivery/letters ./poll; for m in otelretry awssdk fleet deliveryqueue; do go run ./api -C ../$$m .; done; } | diff -u ../docs/API.txt - || { echo "docs/API.txt is not the exported API: read docs/COMPATIBILITY.md, then run make api"; exit 1; }

vuln: ## govulncheck for every module; needs the network
	@for m in $(MODULES); do echo "== govulncheck $$m"; (cd $$m && go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK) ./...); done

cover: ## Statement coverage of the library, and what is not covered
	@go test -coverpkg=./... -coverprofile=coverage.out ./...
	@go tool cover -func=coverage.out | awk '$$3 != "100.0%"'

bench: ## Side by side with rehttp, go-retryablehttp, failsafe-go and the AWS SDK for Go
	cd bench && go run .

PICTURES := $(CURDIR)/docs/pictures
pictures: ## The pictures of the README and of docs, drawn again
	cd cmd/awsretry && go run . schedule --compare --svg $(PICTURES)/schedule.svg ../../docs/examples/delivery-policy.json >/dev/null
	cd cmd/awsretry && go run . simulate outage --settings naive,standard --picture $(PICTURES)/outage.svg
	cd cmd/awsretry && go run . simulate throttle --settings standard,adaptive --picture $(PICTURES)/throttle.svg
	cd cmd/awsretry && go run . simulate ../../docs/examples/pacing.yaml --picture $(PICTURES)/pacing.svg
	cd cmd/awsretry && go run . simulate ../../docs/examples/fleet.yaml --picture $(PICTURES)/fleet.svg

pictures-check: ## Draws the pictures into another folder, and fails if one differs, is missing or is not drawn
	@drawn=$$(mktemp -d); trap 'rm -rf "$$drawn"' EXIT; $(MAKE) --no-print-directory pictures PICTURES="$$drawn" >/dev/null; \
		diff -rq docs/pictures "$$drawn" || { echo "docs/pictures is not what make pictures draws: run it, and commit what it changes"; exit 1; }

interop: ## Real clients, real servers, real faults, and CHAOS (60s) of chaos; needs node, npm, nginx and haproxy
	cd interop && CI=true CHAOS=$(CHAOS) go test -race -count=1 -timeout 15m ./...

service: ## A throttled service and an outage, side by side with the peers (about half an hour)
	cd bench && go run ./service

limiters: ## fleet and limiters that ask Redis for each request (about 20 minutes); needs valkey-server or redis-server
	cd bench && go run ./fleet

pacing: ## Both pacings in a simulation of half a minute; go run ./pacing -vary in bench tries other constants
	cd bench && go run ./pacing

fuzz: ## Every fuzz target of every module for FUZZTIME (10s) each
	@for m in $(MODULES); do \
		grep -qr --include='*_test.go' '^func Fuzz' $$m || continue; \
		(cd $$m; for pkg in $$(go list ./...); do \
			for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
				echo "== $$pkg $$target"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$pkg; \
			done; \
		done); \
	done

$(LINTER): tools/go.mod tools/go.sum
	@cd tools && $(FAST) go build -o ../$(LINTER) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: help demo test $(TESTS) test/pacing needs compat lint format $(LINTS) crossvet layers mutate mutate-check api api-check vuln cover bench service limiters pacing interop pictures pictures-check fuzz
