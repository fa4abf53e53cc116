//! Memory stays flat in the size of the file, on both sides.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::FileExt;

use crate::common::{Share, get_json, peak_memory as peak, text};

#[test]
fn sharing_a_large_sparse_file_and_fetching_ranges_of_it_takes_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("sparse");
    let file = fs::File::create(&source).unwrap();
    let size = 4_u64 << 30;
    file.set_len(size).unwrap();
    file.write_all_at(b"needle", size - 1_000_000).unwrap();
    // The program's own memory, most of it pages that the system keeps at will. It is measured with a file that has a
    // 64 times smaller tree.
    let small = dir.path().join("small");
    fs::File::create(&small).unwrap().set_len(size / 64).unwrap();
    let control = Share::start(&small, &dir.path().join("store-of-small"));
    let out = dir.path().join("out-of-small");
    let arguments = [&control.ticket, "--range", "0..500000", "-o", text(&out)];
    let (code, done) = get_json(&dir.path().join("store-1"), &arguments);
    assert_eq!(code, Some(0), "{done}");
    let itself = peak(control.pid());
    drop(control);
    let share = Share::start(&source, &dir.path().join("store"));
    let out = dir.path().join("out");
    let range = format!("{}..{}", size - 1_000_000, size - 500_000);
    let arguments = [&share.ticket, "--range", &range, "-o", text(&out)];
    let (code, done) = get_json(&dir.path().join("store-2"), &arguments);
    assert_eq!(code, Some(0), "{done}");
    let fetched = fs::read(&out).unwrap();
    assert_eq!((fetched.len(), &fetched[..7]), (500_000, &b"needle\0"[..]));
    // The tree of 4 GiB alone is 32 MiB.
    let took = peak(share.pid()).saturating_sub(itself);
    assert!(took < 16_000_000, "share took {took} bytes more than for a small file");
    let outboard = fs::read_dir(dir.path().join("store/objects")).unwrap().next().unwrap().unwrap();
    assert!(outboard.metadata().unwrap().len() < size / 100, "an outboard is under 1 %");
}
