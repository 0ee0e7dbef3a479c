# `make help` lists the targets. Each installs what it misses (scripts/setup.sh) and is quiet about what is there.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test lint fmt bins bench fuzz faults outages load

ENV := . scripts/env.sh;
CARGO := $(ENV) cargo
# The crates that also run at a CDN's edge.
WASM_CRATES := -p ropeline-token -p ropeline-decision -p ropeline-edge -p ropeline-queue

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

demo: ## a whole sale on this machine; DEMO=once runs one scripted shopper through it and exits
	@scripts/setup.sh build
	@echo "demo: building ropeline (release)"
	@$(CARGO) build --release --locked -p ropeline-gateway --bin ropeline --features demo
	@$(CARGO) run --quiet --release --locked -p ropeline-gateway --bin ropeline --features demo -- \
	  demo $(if $(filter once,$(DEMO)),--once)

test: ## everything: formatting, lints, dependencies, edge builds, unit to browser tests
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory lint bins
	$(CARGO) build --locked --target wasm32-unknown-unknown $(WASM_CRATES)
	scripts/wasm-size.sh
	scripts/node-tests.sh
	$(CARGO) nextest run --locked --workspace --all-features $(if $(CI),--profile ci)

lint: ## formatting, clippy, licences, bans, sources and (where it can be reached) the advisory database
	@scripts/setup.sh lint
	$(CARGO) fmt --all --check
	$(CARGO) fmt --check --manifest-path edge-wasm/Cargo.toml --all
	$(CARGO) fmt --check --manifest-path tests/fuzz/Cargo.toml
	$(CARGO) clippy --locked --workspace --all-features --all-targets -- -D warnings
	scripts/guests-clippy.sh
	scripts/deny.sh

fmt: ## formats the code
	@scripts/setup.sh build
	$(CARGO) fmt --all
	$(CARGO) fmt --manifest-path edge-wasm/Cargo.toml --all
	$(CARGO) fmt --manifest-path tests/fuzz/Cargo.toml

bins: ## the binaries that the whole-system tests start, as those tests want them
	@scripts/setup.sh build
	$(CARGO) build --locked --workspace --all-features --bins --tests

bench: ## every benchmark, one after another, or those named: BENCHES="verify joins"
	@scripts/setup.sh bench
	scripts/bench.sh $(BENCHES)

fuzz: ## every fuzz target for FUZZ_SECONDS (60 unless told) each, or those named: TARGETS="cookie path"
	@scripts/setup.sh fuzz
	scripts/fuzz.sh $(TARGETS)

faults: ## whole sales in which everything goes wrong: SEEDS=20 SHOPPERS=100000 UNITS=25000, on both databases or STORE=sqlite
	@scripts/setup.sh test
	$(CARGO) test --release --locked -p ropeline-origin --all-features --test suite -- \
	  --ignored --exact faults::many_full_sales_survive_every_fault --nocapture

outages: ## several gateways on one queue in Redis while one thing after another fails, ROUNDS=20 times in a row
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory bins
	for round in $$(seq $${ROUNDS:-20}); do \
	  $(CARGO) nextest run --locked --workspace --all-features -E 'binary(shared_queue)' || exit 1; \
	done

load: ## two million visitors through two gateways on one Redis: VISITORS=2000000 CALLED=25000 POLLS=1000 SECONDS=20
	@scripts/setup.sh test
	scripts/bench.sh load
