//! Memory stays flat in the size of the file, on both sides.
#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::os::unix::fs::FileExt;

use common::{Share, get_json, text};

/// Peak resident memory of a running process in bytes.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

#[test]
fn sharing_a_large_sparse_file_and_fetching_ranges_of_it_takes_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("sparse");
    let file = fs::File::create(&source).unwrap();
    let size = 4_u64 << 30;
    file.set_len(size).unwrap();
    file.write_all_at(b"needle", size - 1_000_000).unwrap();
    let share = Share::start(&source, &dir.path().join("store"));
    let out = dir.path().join("out");
    let range = format!("{}..{}", size - 1_000_000, size - 500_000);
    let arguments = [&share.ticket, "--range", &range, "-o", text(&out)];
    let (code, done) = get_json(&dir.path().join("store-2"), &arguments);
    assert_eq!(code, Some(0), "{done}");
    let fetched = fs::read(&out).unwrap();
    assert_eq!((fetched.len(), &fetched[..7]), (500_000, &b"needle\0"[..]));
    // The tree of 4 GiB alone is 32 MiB.
    assert!(peak(share.pid()) < 30_000_000, "share took {} bytes", peak(share.pid()));
    let outboard = fs::read_dir(dir.path().join("store/objects")).unwrap().next().unwrap().unwrap();
    assert!(outboard.metadata().unwrap().len() < size / 100, "an outboard is under 1 %");
}
