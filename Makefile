# `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c

# Every folder with a go.mod, the root first; tools only builds what the others are checked with.
MODULES := . $(filter-out tools,$(patsubst %/go.mod,%,$(wildcard */go.mod cmd/*/go.mod)))
STATICCHECK := bin/staticcheck
FUZZTIME ?= 10s
CHAOS ?= 60s

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Real requests against a failing service on loopback, in under 20 seconds
	cd cmd/awsretry && go run . demo

test: lint ## Formatting, vet, staticcheck, and the tests of every module with the race detector
	@for m in $(MODULES); do echo "== go test -race $$m"; (cd $$m && go test -race ./...); done

lint: $(STATICCHECK) ## Formatting, vet and staticcheck alone
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	@for m in $(MODULES); do echo "== vet and staticcheck $$m"; (cd $$m && go vet ./... && $(CURDIR)/$(STATICCHECK) ./...); done

cover: ## Statement coverage of the library, and what is not covered
	@go test -coverprofile=coverage.out . ./delivery ./poll
	@go tool cover -func=coverage.out | awk '$$3 != "100.0%"'

bench: ## Side by side with rehttp, go-retryablehttp, failsafe-go and the AWS SDK for Go
	cd bench && go run .

pictures: ## The README's pictures, drawn again
	cd cmd/awsretry && go run . schedule --compare --svg ../../docs/pictures/schedule.svg ../../docs/examples/delivery-policy.json >/dev/null
	cd cmd/awsretry && go run . simulate outage --settings naive,standard --picture ../../docs/pictures/outage.svg
	cd cmd/awsretry && go run . simulate throttle --settings standard,adaptive --picture ../../docs/pictures/throttle.svg

interop: ## Real clients, real servers, real faults, and CHAOS (60s) of chaos; needs node, npm and nginx
	cd interop && CI=true CHAOS=$(CHAOS) go test -race -count=1 -timeout 15m ./...

service: ## A throttled service and an outage, side by side with the peers (five to ten minutes)
	cd bench && go run ./service

fuzz: ## Every fuzz target of the library for FUZZTIME (10s) each
	@for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== $$pkg $$target"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$pkg; \
		done; \
	done

$(STATICCHECK): tools/go.mod tools/go.sum
	@cd tools && go build -o ../$(STATICCHECK) honnef.co/go/tools/cmd/staticcheck

.PHONY: help demo test lint cover bench service interop pictures fuzz
