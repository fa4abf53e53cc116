//! The rules between crates, held by a test: which crate may use which, and where clocks, sockets, threads and `unsafe`
//! may stand (ARCHITECTURE.md, "Rules").

use std::fs;
use std::path::{Path, PathBuf};

/// Each crate and the crates of this workspace that it may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("xylem-hash", &[]),
    ("xylem-gpu", &["xylem-hash"]),
    ("xylem-tree", &["xylem-hash"]),
    ("xylem-congestion", &[]),
    ("xylem-packet", &["xylem-congestion"]),
    ("xylem-trust", &["xylem-hash", "xylem-packet"]),
    ("xylem-svs", &["xylem-congestion", "xylem-packet", "xylem-trust"]),
    ("xylem-ndncert", &["xylem-hash", "xylem-packet", "xylem-trust"]),
    ("xylem-object", &["xylem-hash", "xylem-tree", "xylem-packet", "xylem-trust"]),
    ("xylem-forward", &["xylem-congestion", "xylem-packet"]),
    ("xylem-capture", &["xylem-packet"]),
    ("xylem-mgmt", &["xylem-packet", "xylem-trust", "xylem-forward"]),
    ("xylem-link", &["xylem-hash", "xylem-congestion"]),
    ("xylem-carriers", &[]),
    ("xylem-reach", &["xylem-hash", "xylem-object", "xylem-link"]),
    ("xylem-dht", &["xylem-hash", "xylem-congestion", "xylem-reach"]),
    ("xylem-mail", &["xylem-hash", "xylem-object", "xylem-link"]),
    ("xylem-store", &["xylem-hash", "xylem-tree"]),
    (
        "xylem-transfer",
        &["xylem-hash", "xylem-tree", "xylem-packet", "xylem-object", "xylem-congestion"],
    ),
    ("xylem-base", &["xylem-store"]),
    (
        "xylem-keys",
        &[
            "xylem-hash",
            "xylem-packet",
            "xylem-trust",
            "xylem-object",
            "xylem-link",
            "xylem-store",
            "xylem-base",
        ],
    ),
    (
        "xylem-peers",
        &[
            "xylem-hash",
            "xylem-packet",
            "xylem-trust",
            "xylem-object",
            "xylem-forward",
            "xylem-mgmt",
            "xylem-link",
            "xylem-reach",
            "xylem-store",
            "xylem-base",
        ],
    ),
    ("xylem-cache", &["xylem-hash", "xylem-packet", "xylem-forward", "xylem-store", "xylem-base"]),
    (
        "xylem-mailbox",
        &["xylem-object", "xylem-link", "xylem-mail", "xylem-store", "xylem-base", "xylem-keys"],
    ),
    (
        "xylem-files",
        &[
            "xylem-hash",
            "xylem-tree",
            "xylem-packet",
            "xylem-object",
            "xylem-mail",
            "xylem-store",
            "xylem-base",
            "xylem-keys",
        ],
    ),
    (
        "xylem-publish",
        &[
            "xylem-hash",
            "xylem-tree",
            "xylem-packet",
            "xylem-object",
            "xylem-forward",
            "xylem-link",
            "xylem-mail",
            "xylem-store",
            "xylem-base",
            "xylem-files",
        ],
    ),
    (
        "xylem-sink",
        &[
            "xylem-hash",
            "xylem-tree",
            "xylem-packet",
            "xylem-object",
            "xylem-link",
            "xylem-mail",
            "xylem-store",
            "xylem-transfer",
            "xylem-base",
            "xylem-keys",
            "xylem-peers",
            "xylem-files",
        ],
    ),
    (
        "xylem-check",
        &[
            "xylem-hash",
            "xylem-tree",
            "xylem-object",
            "xylem-store",
            "xylem-transfer",
            "xylem-base",
            "xylem-files",
            "xylem-publish",
        ],
    ),
    (
        "xylem-folder",
        &[
            "xylem-hash",
            "xylem-tree",
            "xylem-packet",
            "xylem-trust",
            "xylem-object",
            "xylem-store",
            "xylem-base",
            "xylem-keys",
            "xylem-files",
            "xylem-publish",
        ],
    ),
    (
        "xylem-witness",
        &[
            "xylem-hash",
            "xylem-tree",
            "xylem-packet",
            "xylem-trust",
            "xylem-object",
            "xylem-forward",
            "xylem-store",
            "xylem-base",
            "xylem-keys",
            "xylem-files",
            "xylem-publish",
        ],
    ),
    (
        "xylem-client",
        &[
            "xylem-congestion",
            "xylem-packet",
            "xylem-trust",
            "xylem-svs",
            "xylem-object",
            "xylem-mgmt",
            "xylem-transfer",
        ],
    ),
    ("xylem-sockets", &["xylem-packet", "xylem-mgmt", "xylem-link", "xylem-carriers"]),
    ("xylem-discovery", &["xylem-hash", "xylem-object", "xylem-reach", "xylem-dht", "xylem-store"]),
    ("xylem-bucket", &["xylem-hash", "xylem-object", "xylem-store"]),
    (
        "xylem-engine",
        &[
            "xylem-packet",
            "xylem-forward",
            "xylem-mgmt",
            "xylem-link",
            "xylem-carriers",
            "xylem-reach",
            "xylem-dht",
            "xylem-store",
            "xylem-base",
            "xylem-peers",
            "xylem-sockets",
        ],
    ),
    (
        "xylem-app",
        &[
            "xylem-hash",
            "xylem-packet",
            "xylem-trust",
            "xylem-object",
            "xylem-forward",
            "xylem-mgmt",
            "xylem-store",
            "xylem-base",
            "xylem-keys",
            "xylem-peers",
            "xylem-files",
            "xylem-sink",
            "xylem-client",
            "xylem-sockets",
            "xylem-engine",
        ],
    ),
    (
        "xylem-sync",
        &[
            "xylem-hash",
            "xylem-packet",
            "xylem-object",
            "xylem-link",
            "xylem-store",
            "xylem-base",
            "xylem-keys",
            "xylem-peers",
            "xylem-files",
            "xylem-publish",
            "xylem-sink",
            "xylem-folder",
            "xylem-node",
        ],
    ),
    ("xylem-web", &["xylem-hash", "xylem-tree", "xylem-packet", "xylem-object", "xylem-transfer"]),
    (
        "xylem-reader",
        &[
            "xylem-hash",
            "xylem-tree",
            "xylem-object",
            "xylem-store",
            "xylem-transfer",
            "xylem-base",
            "xylem-peers",
            "xylem-files",
            "xylem-node",
        ],
    ),
    ("xylem-object-store", &["xylem-object", "xylem-base", "xylem-reader"]),
    (
        "xylem-mirror",
        &[
            "xylem-hash",
            "xylem-packet",
            "xylem-object",
            "xylem-store",
            "xylem-base",
            "xylem-peers",
            "xylem-files",
            "xylem-publish",
            "xylem-sink",
            "xylem-check",
            "xylem-bucket",
            "xylem-engine",
            "xylem-node",
            "xylem-reader",
        ],
    ),
    (
        "xylem",
        &[
            "xylem-hash",
            "xylem-object",
            "xylem-store",
            "xylem-base",
            "xylem-keys",
            "xylem-peers",
            "xylem-files",
            "xylem-publish",
            "xylem-sink",
            "xylem-check",
            "xylem-folder",
            "xylem-node",
            "xylem-sync",
            "xylem-reader",
            "xylem-object-store",
            "xylem-mirror",
        ],
    ),
    ("xylem-ffi", &["xylem-hash"]),
];

/// Crates that tests, benchmarks and fuzz targets alone may use, so that nothing of them can be
/// compiled into a release.
const FOR_TESTS: [&str; 2] = ["xylem-sim", "xylem-faults"];

/// Words that only the loop, the node and the command may use outside of tests.
const EDGE_ONLY: &[&str] = &[
    "UdpSocket",
    "TcpStream",
    "TcpListener",
    "Instant::now",
    "SystemTime::now",
    "thread::sleep",
    "thread::spawn",
    "thread::scope",
    "std::env",
    "println!",
    "eprintln!",
];

/// Crates that start threads for hashing, reading back and writing. These threads wait for a disk or a lock and read no
/// clock. A folder's watcher waits between looks where the system reports no changes, and mail on disk between tries for
/// the lock of another process.
const THREADS: &[&str] =
    &["xylem-base", "xylem-mailbox", "xylem-files", "xylem-sink", "xylem-folder"];

/// Crates with sockets: the sockets themselves, which wait for nothing, the loop, which waits, and those of the DHT, on a
/// thread of their own.
const SOCKETS: &[&str] = &["xylem-sockets", "xylem-engine", "xylem-discovery"];

/// Crates that read clocks: the loop, which passes the time to all others, and the thread of the DHT.
const CLOCK: &[&str] = &["xylem-engine", "xylem-discovery"];

/// Edges, like the node and the command: each waits for a socket, a folder or a bucket of its own.
const EDGE: &[&str] = &["xylem-app", "xylem-reader", "xylem-sync", "xylem-mirror"];

/// Direct access to files. Everything else goes through a medium, which tests can make fail.
const FILE_ACCESS: &[&str] = &["std::fs", "rustix::fs", ".symlink_metadata()", ".read_dir()"];

/// Files of the product with direct access, besides those of the store's disk module, each with its reason.
const FILE_USERS: &[(&str, &str)] = &[
    ("xylem-hash/src/io.rs", "maps a file that its caller has opened; the hash knows no store"),
    ("xylem-folder/src/watch.rs", "inotify reports changes; nothing is read or written"),
    ("xylem-folder/src/attributes/on_disk.rs", "extended attributes, which only disks have"),
    ("xylem-sockets/src/shared/mod.rs", "memory that another process maps, and its socket"),
    ("xylem-sockets/src/ethernet.rs", "the system's table of network interfaces"),
    ("xylem-sockets/src/unix.rs", "paths of Unix sockets, which are no files"),
    ("xylem-client/src/put.rs", "reads what a program inserts; the client knows no store"),
    ("xylem-client/src/put/stretch.rs", "reads what a program inserts; the client knows no store"),
    ("xylem-app/src/endpoint.rs", "paths of Unix sockets, which are no files"),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/").to_path_buf()
}

/// Crates of this workspace under `[dependencies]` of a manifest, including those of one target and of build scripts.
/// Dev-dependencies may be any.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line.ends_with("dependencies]") && !line.ends_with("dev-dependencies]");
        } else if inside && line.starts_with("xylem-") {
            let end = line.find(['.', '=', ' ']).unwrap_or(line.len());
            names.push(line[..end].to_owned());
        }
    }
    names
}

fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// A file's code up to its test module, without comment lines.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let before_tests = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let keep = |l: &&str| !l.trim_start().starts_with("//");
    before_tests.lines().filter(keep).collect::<Vec<_>>().join("\n")
}

#[test]
fn crates_know_only_those_before_them() {
    for (name, allowed) in MAY_USE {
        let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
        for used in dependencies(&manifest) {
            assert!(allowed.contains(&used.as_str()), "{name} must not use {used}");
        }
    }
}

/// Covers all crates, including the node, the command and the interface for C.
#[test]
fn test_crates_are_used_by_tests_only() {
    for entry in fs::read_dir(crates()).unwrap() {
        let dir = entry.unwrap().path();
        if FOR_TESTS.iter().any(|name| dir.ends_with(name)) {
            continue;
        }
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        for used in dependencies(&manifest) {
            assert!(!FOR_TESTS.contains(&used.as_str()), "{} must not use {used}", dir.display());
        }
    }
}

#[test]
fn no_clock_socket_thread_or_environment_below_the_node() {
    for (name, _) in MAY_USE.iter().filter(|(name, _)| !EDGE.contains(name)) {
        let mut files = Vec::new();
        sources(&crates().join(name).join("src"), &mut files);
        assert!(!files.is_empty(), "{name} has no sources");
        let is_test = |f: &Path| f.components().any(|c| c.as_os_str() == "tests");
        for file in files.iter().filter(|f| !f.ends_with("tests.rs") && !is_test(f)) {
            let code = code(file);
            let (threads, sockets) = (THREADS.contains(name), SOCKETS.contains(name));
            let clock = CLOCK.contains(name);
            let allowed = |word: &str| {
                let socket = ["UdpSocket", "TcpStream", "TcpListener"].contains(&word);
                (threads && word.starts_with("thread::"))
                    || (sockets && socket)
                    || (clock && word.ends_with("::now"))
            };
            let forbidden = |word: &&&str| !allowed(word);
            for word in EDGE_ONLY.iter().filter(forbidden) {
                assert!(!code.contains(word), "{}: uses {word}", file.display());
            }
        }
    }
}

/// A file's code up to its first module of tests that stands in it, without comment lines.
fn code_without_tests(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let begins = |at: &usize| {
        let next = lines.get(at + 1).copied().unwrap_or_default();
        let is_module = next.ends_with('{') && next.contains("mod ");
        lines[*at].starts_with("#[cfg(") && lines[*at].contains("test") && is_module
    };
    let end = (0..lines.len()).find(begins).unwrap_or(lines.len());
    let keep = |line: &&&str| !line.trim_start().starts_with("//");
    lines[..end].iter().filter(keep).copied().collect::<Vec<_>>().join("\n")
}

/// The program and its servers for tests and measurements are not meant: people and scripts name their files, and they
/// keep none of a user's.
#[test]
fn only_the_store_s_disk_module_accesses_files() {
    let mut unused: Vec<&str> = FILE_USERS.iter().map(|(file, _)| *file).collect();
    for name in MAY_USE.iter().map(|(name, _)| *name).chain(["xylem-node"]) {
        let mut files = Vec::new();
        sources(&crates().join(name).join("src"), &mut files);
        let is_test = |f: &Path| {
            f.components().any(|c| c.as_os_str() == "tests") || f.ends_with("simulated.rs")
        };
        for file in files.iter().filter(|f| !f.ends_with("tests.rs") && !is_test(f)) {
            let short = file.strip_prefix(crates()).unwrap();
            let is_disk = short.starts_with("xylem-store/src/disk");
            let code = code_without_tests(file);
            let used = FILE_ACCESS.iter().find(|word| code.contains(**word));
            let listed = unused.iter().position(|known| Path::new(known) == short);
            if let (Some(at), Some(_)) = (listed, used) {
                unused.swap_remove(at);
            } else if let (Some(word), false) = (used, is_disk) {
                panic!("{}: uses {word}; a `Medium` of the store does that", short.display());
            }
        }
    }
    assert_eq!(unused, [""; 0], "these need no exception");
}

/// Names of the files of a folder that hold a text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let holds = |path: &PathBuf| fs::read_to_string(path).is_ok_and(|code| code.contains(text));
    let name = |path: PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    files.filter(holds).map(name).collect()
}

#[test]
fn unsafe_code_stands_only_in_the_hash_engine_and_its_c_interface() {
    const UNSAFE: [&str; 2] = ["xylem-hash", "xylem-ffi"];
    for entry in fs::read_dir(crates()).unwrap() {
        let dir = entry.unwrap().path();
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        // A crate with a workspace of its own has to state the lints itself.
        let inherits = manifest.contains("[lints]\nworkspace = true")
            || manifest.contains("[lints.rust]\nunsafe_code = \"forbid\"");
        // The names that a page's script calls are exported by an attribute that counts as unsafe.
        let exports = dir.ends_with("xylem-web")
            && manifest.contains("[lints.rust]\nunsafe_code = \"deny\"")
            && files_with(&dir.join("src"), "allow(unsafe_code)") == ["exports.rs"];
        // Calls of the driver of a GPU stand in one file.
        let drives = dir.ends_with("xylem-gpu")
            && manifest.contains("[lints.rust]\nunsafe_code = \"deny\"")
            && files_with(&dir.join("src"), "allow(unsafe_code)") == ["device.rs"];
        let may = exports || drives || UNSAFE.iter().any(|name| dir.ends_with(name));
        assert!(inherits || may, "{}: no lints", dir.display());
    }
    let workspace = fs::read_to_string(crates().join("../Cargo.toml")).unwrap();
    assert!(workspace.contains("unsafe_code = \"forbid\""));
}

/// A file that no crate of tests names would not run, and would not be missed.
#[test]
fn every_file_of_tests_runs() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: PathBuf| fs::read_to_string(path).expect("readable");
    let modules = read(crate_dir.join("tests/program.rs"));
    let manifest = read(crate_dir.join("Cargo.toml"));
    for entry in fs::read_dir(crate_dir.join("tests")).expect("readable") {
        let path = entry.expect("readable").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("plain names");
        let Some(name) = name.strip_suffix(".rs") else { continue };
        let is_module = modules.lines().any(|line| line == format!("mod {name};"));
        let is_crate = manifest.contains(&format!("[[test]]\nname = \"{name}\"\n"));
        assert!(
            is_module != is_crate,
            "{name}.rs: in tests/program.rs, or as [[test]] in Cargo.toml"
        );
    }
}
