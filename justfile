# Recipes that people and CI share. `just` lists them; .ci/run calls the same commands.

default:
    @just --list

# Everything that has to pass before a change lands.
ci:
    bash .ci/run

test:
    cargo test --workspace

lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Commands drawn at random and held against a model of disk, lists and fetches; a failing sequence is made shorter.
sequences N="1000000" FIRST="0":
    XYLEM_SEQUENCES={{N}} XYLEM_FIRST_SEQUENCE={{FIRST}} cargo test --release -p xylem-cli --test composition -- --nocapture

# Users and faults in folders that `xylem sync` keeps in step, until so many operations are done; best as root.
folders OPERATIONS="100000" *ARGS:
    cargo build --release -p xylem-cli
    python3 bench/folders.py --operations {{OPERATIONS}} {{ARGS}}

# A day of a family's and of a team's folder, 48 times as quick.
sync-day *ARGS:
    cargo build --release -p xylem-cli
    python3 bench/sync_day.py {{ARGS}}

# The command without mount, buckets, emails and port mapping: target/small/release/xylem.
small:
    PROFILE=release bash packaging/small

# The main job, end to end, on this machine.
try:
    cargo run --release -- try

# Criterion tables: hash, tree, packet, link.
bench *ARGS:
    cargo bench -p xylem-bench {{ARGS}}

# The hash engine's tables, with every configuration of the official crate.
bench-hash *ARGS:
    cargo build --release -p xylem-cli -p xylem-bench
    bench/peers
    target/release/xylem bench hash {{ARGS}}

# Clean builds of one-line users of BLAKE3 crates.
bench-compile *ARGS:
    python3 bench/compile.py {{ARGS}}

# Times share/get of 1 GiB and of 10,000 small files over loopback.
bench-transfer *ARGS:
    python3 bench/transfer.py {{ARGS}}

# share/get between two network namespaces through a bad network (as root).
bench-networks *ARGS:
    cargo build --release -p xylem-cli -p xylem-relay
    python3 bench/networks.py {{ARGS}}

# Fetches a plain share with python-ndn.
interop:
    bash interop/run

# The fuzz targets' verdict: the same inputs on every machine (nightly and cargo-fuzz).
fuzz *TARGETS:
    bash fuzz/run {{TARGETS}}

# Looks for more with fresh seeds, each target for so long; decides nothing.
fuzz-search SECONDS="60" *TARGETS:
    bash fuzz/run --search {{SECONDS}} {{TARGETS}}

# The picture of the crates, made from the code.
structure *ARGS="--draw":
    python3 docs/structure.py {{ARGS}}

# The hash on processors that this machine is not, and under Miri. Steps: see the script's end.
targets *STEPS:
    crates/xylem-hash/targets/run {{STEPS}}

# The forwarder on an emulated Cortex-M, without allocator.
embedded:
    examples/embedded/run

# The C library and the Python package: builds and tests both.
ffi:
    crates/xylem-ffi/run

# The Python package `xylem`: builds and tests it beside this command.
python XYLEM="target/debug/xylem":
    crates/xylem-python/run {{XYLEM}}

# The same, and pandas, DuckDB, Dask and others on tickets.
python-integrations XYLEM="target/debug/xylem":
    crates/xylem-python/run --integrations {{XYLEM}}

# The npm package of the hash, in target/npm: builds it, and tests it in Node and in Chromium.
npm *ARGS:
    crates/xylem-hash/npm/run {{ARGS}}

# The npm package @xylem/web, in target/npm-web: puts it together, and tests it in Node and in Chromium.
npm-web:
    cargo build
    crates/xylem-web/npm/run

# Installs the C library: header, static and shared library, pkg-config file.
install-c PREFIX="/usr/local":
    PREFIX={{PREFIX}} crates/xylem-ffi/install

# One site of all documents, in target/book/html (mdbook).
book:
    cargo build
    python3 docs/book.py --build target/debug/xylem

# A release: static program, .deb, manual pages, completions, checksums, signature (docs/packaging.md).
dist *ARGS:
    packaging/dist {{ARGS}}

# The Windows program under Wine.
windows *ARGS:
    packaging/windows/smoke {{ARGS}}

# This tree's speed beside another commit's, in turn: the tables and whole transfers (ten minutes, and two builds)
speed COMMIT="HEAD~1":
    python3 bench/all.py --quick --against {{COMMIT}}
