//! One file compiled against both crates: every documented name of `blake3`, used the same way, must compile and give
//! the same bytes here.
//!
//! Names behind a feature are compared if the feature is on: use `--all-features` for all.

mod official {
    use blake3 as hash_crate;
    include!("parity/body.rs");
}

mod ours {
    use xylem_hash as hash_crate;
    include!("parity/body.rs");
}

#[test]
fn both_crates_give_the_same_bytes() {
    let (official, ours) = (official::transcript(), ours::transcript());
    assert!(official.len() > 50, "the file does something");
    assert_eq!(official.len(), ours.len());
    for ((name, want), (also, got)) in official.iter().zip(&ours) {
        assert_eq!(name, also);
        assert_eq!(want, got, "{name}");
    }
}

/// Cases that both must refuse. (Which call of a chain panics may differ: README.)
#[test]
fn both_crates_refuse_the_same() {
    let refused = |doing: fn()| std::panic::catch_unwind(doing).is_err();
    let (official, ours) = (official::refusals(), ours::refusals());
    assert_eq!(official.len(), ours.len());
    for ((name, official), (_, ours)) in official.into_iter().zip(ours) {
        assert!(refused(official), "blake3: {name}");
        assert!(refused(ours), "xylem-hash: {name}");
    }
}
