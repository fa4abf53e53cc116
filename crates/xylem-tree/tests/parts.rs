//! A message hashed in parts has the hash of the whole, however it is split and in whatever order the parts come.
//! Missing and wrong parts are reported.

use proptest::prelude::*;
use xylem_hash::tree::Tree;
use xylem_hash::{Hash, Hasher, OutputReader};
use xylem_tree::parts::{
    AnyTree, Merged, MessagePart, PartLine, PartMerger, PartMode, PartsError, lines, subtrees,
};

const KEY: [u8; 32] = [7; 32];

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

fn modes() -> [(PartMode, Box<dyn AnyTree>, Hasher); 3] {
    [
        (PartMode::Plain, Box::new(Tree::plain()), Hasher::new()),
        (PartMode::Keyed, Box::new(Tree::keyed(&KEY)), Hasher::new_keyed(&KEY)),
        (
            PartMode::DeriveKey,
            Box::new(Tree::derive_key("a test")),
            Hasher::new_derive_key("a test"),
        ),
    ]
}

/// The lines of `message[start..end]`, read in pieces of `step` bytes.
fn part(
    (mode, tree, hasher): &(PartMode, Box<dyn AnyTree>, Hasher),
    message: &[u8],
    total: bool,
    start: usize,
    end: usize,
    step: usize,
) -> String {
    let (mut part, mut at) = (MessagePart::default(), start);
    while at < end {
        let next = (at + step).min(end);
        for node in subtrees(&**tree, at as u64, &message[at..next]).expect("whole chunks") {
            part.push(&**tree, node);
        }
        at = next;
    }
    let own = || hasher.clone().update(&message[start..end]).finalize();
    let total = total.then_some(message.len() as u64);
    lines(*mode, total, &part, own).iter().map(|line| format!("{line}\n")).collect()
}

fn merged(texts: &[String], mode: PartMode, tree: &dyn AnyTree) -> Result<Merged, PartsError> {
    let mut whole = PartMerger::default();
    for text in texts {
        whole.add_text(text).map_err(|(_, error)| error)?;
    }
    whole.output(tree, mode)
}

fn start(mut output: OutputReader) -> [u8; 100] {
    let mut bytes = [0; 100];
    output.fill(&mut bytes);
    bytes
}

proptest! {
    #[test]
    fn parts_in_any_order_make_the_hash(
        len in prop_oneof![0..5000_usize, 0..300_000_usize],
        cuts in prop::collection::vec(0..300_usize, 0..6),
        step in 1..40_usize,
        total: bool,
        twice: bool,
        order in any::<u64>(),
    ) {
        let message = bytes(len);
        let mut ends: Vec<usize> = cuts.into_iter().map(|c| c * 1024).filter(|c| *c < len).collect();
        ends.extend([0, len]);
        ends.sort_unstable();
        ends.dedup();
        if len == 0 {
            ends.push(0);
        }
        for kind in modes() {
            let mut texts: Vec<String> = ends
                .windows(2)
                .map(|pair| part(&kind, &message, total, pair[0], pair[1], step * 1024))
                .collect();
            if twice {
                texts.push(texts[0].clone());
            }
            let turn = order as usize % texts.len();
            texts.rotate_left(turn);
            let mut expected = kind.2.clone();
            expected.update(&message);
            match merged(&texts, kind.0, &*kind.1) {
                Ok(Merged::Output(output)) => {
                    prop_assert_eq!(start(output), start(expected.finalize_xof()));
                }
                Ok(Merged::Hash(hash)) => {
                    prop_assert!(len <= 1024);
                    prop_assert_eq!(hash, expected.finalize());
                }
                Err(error) => prop_assert!(false, "{} of {:?}", error, ends),
            }
        }
    }

    /// Any part may be missing: an error results, whichever way the rest is given, and never a hash.
    #[test]
    fn a_part_that_is_missing_is_noticed(len in 4097..200_000_usize, gone in 0..4_usize) {
        let (message, kind) = (bytes(len), &modes()[0]);
        let ends = [0, 1024, 2048, 4096, len];
        let mut texts: Vec<String> = ends
            .windows(2)
            .map(|pair| part(kind, &message, true, pair[0], pair[1], 1 << 16))
            .collect();
        texts.remove(gone);
        let found = merged(&texts, kind.0, &*kind.1).err();
        prop_assert_eq!(found, Some(PartsError::Missing(ends[gone] as u64..ends[gone + 1] as u64)));
    }

    #[test]
    fn lines_are_read_as_they_are_written(start in 0..1_u64 << 50, len in 1..1_u64 << 40, total: bool) {
        let text = format!(
            "node keyed {} {len} {} {}",
            start << 10,
            if total { ((start << 10) + len).to_string() } else { "-".into() },
            Hash::from_bytes(KEY),
        );
        prop_assert_eq!(text.parse::<PartLine>().map(|line| line.to_string()), Ok(text));
    }

    #[test]
    fn no_text_makes_it_panic(text in "(node|root|x) (plain|keyed|y) [0-9]{1,20} [0-9]{1,20} ([0-9]{1,20}|-) [0-9a-f]{63,64}( z)?") {
        let mut whole = PartMerger::default();
        let _ = whole.add_text(&text);
        let _ = whole.output(&Tree::plain(), PartMode::Plain);
    }
}

#[test]
fn a_part_is_a_hundred_lines_at_most() {
    let kind = &modes()[0];
    let message = bytes(9 << 20);
    let text = part(kind, &message, true, 3 << 10, message.len() - 5, 1 << 16);
    assert!(text.lines().count() <= 30, "{text}");
}

#[test]
fn parts_that_do_not_fit_are_reported() {
    let message = bytes(10 * 1024 + 100);
    let kind = &modes()[0];
    let of = |start, end| part(kind, &message, false, start, end, 1 << 16);
    let err = |texts: &[String]| merged(texts, kind.0, &*kind.1).expect_err("no hash");
    let whole = message.len();
    assert_eq!(err(&[]), PartsError::Nothing);
    assert_eq!(err(&[of(0, 4096), of(3072, whole)]), PartsError::Overlap(3072));
    assert_eq!(err(&[of(0, 4096), of(5120, whole)]), PartsError::Missing(4096..5120));
    assert_eq!(err(&[of(2048, whole)]), PartsError::Missing(0..2048));
    // Another machine has another version of the message.
    let other = vec![1; message.len()];
    let wrong = part(kind, &other, false, 2048, 4096, 1 << 16);
    assert_eq!(
        err(&[of(0, 2048), of(2048, 4096), wrong, of(4096, whole)]),
        PartsError::Disagree(2048..4096)
    );
    // A part ends in the middle of a chunk, and bytes follow it.
    assert_eq!(err(&[of(0, 1500), of(2048, whole)]), PartsError::EndsEarly(1500));
    // Half of a message of one chunk.
    let chunk = |range| part(kind, &message[..1024], false, 0, range, 1024);
    assert!(matches!(merged(&[chunk(1024)], kind.0, &*kind.1), Ok(Merged::Hash(_))));
    // Another mode.
    let keyed = part(&modes()[1], &message, false, 0, 2048, 1 << 16);
    assert_eq!(err(&[of(2048, whole), keyed.clone()]), PartsError::Kinds("plain", "keyed"));
    assert_eq!(err(&[keyed]), PartsError::OtherKind("keyed"));
    // Another length.
    let total = |len: usize| part(kind, &message[..len], true, 0, 2048, 1 << 16);
    assert_eq!(err(&[total(whole), total(4096)]), PartsError::Totals(whole as u64, 4096));
    // A single node as long as the message cannot be distinguished from the root.
    let lied = format!("node plain 0 4096 4096 {}\n", Hash::from_bytes(KEY));
    assert_eq!(err(&[lied]), PartsError::NoSubtree(0..4096));
    let tree = Tree::plain();
    assert!(subtrees(&tree, 100, &[1]).is_err());
    assert!(matches!(subtrees(&tree, u64::MAX - 1023, &[0; 2048]), Err(PartsError::TooLong)));
}
