//! Ends of members' logs, and proofs about them: any bytes are parsed or refused, a parsed one is written the same, and
//! two are compared in any order. Also messages in their frames, in pieces.
#![no_main]
use xylem_folder::{Past, PastRelation, StatementInbox, is_proven};
use xylem_hash::Hasher;

/// The end of a log: the bytes, after a whole hash state with this many entries, which random bytes never have.
fn past(entries: u8, bytes: &[u8]) -> Option<Past> {
    let snapshot = Hasher::new().update(&vec![7; usize::from(entries) * 40]).snapshot()?;
    let len = u16::try_from(snapshot.as_bytes().len()).ok()?;
    let whole = [&len.to_be_bytes()[..], snapshot.as_bytes(), bytes].concat();
    let past = Past::read(&whole)?;
    let mut again = Vec::new();
    past.write(&mut again);
    assert_eq!(again, whole);
    Some(past)
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = Past::read(input);
    let mut inbox = StatementInbox::default();
    for piece in input.chunks(7) {
        inbox.push(piece);
        while let Ok(Some(_)) = inbox.take() {}
    }
    let [one, other, cut, rest @ ..] = input else { return };
    let whole = rest.len() / 40 * 40;
    let (first, second) = rest[..whole].split_at((usize::from(*cut) * 40).min(whole));
    let Some((one, other)) = past(*one, first).zip(past(*other, second)) else { return };
    let turned = match one.fits(&other) {
        PastRelation::Continues => PastRelation::IsContinued,
        PastRelation::IsContinued => PastRelation::Continues,
        same => same,
    };
    assert_eq!(other.fits(&one), turned);
    assert_eq!(one.fits(&one), PastRelation::Same);
    let _ = is_proven(&one, &other, rest);
});
