//! The vectors and worked examples of docs/spec/tree.md, so that document and code agree.

use xylem_tree::{Culprit, SegmentIndex, SegmentSize, Tile, TreeKind, TreeVerifier, consistency};

mod slow;
use slow::{Holder, content};

const SPEC: &str = include_str!("../../../docs/spec/tree.md");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn hash(kind: TreeKind, bytes: &[u8]) -> String {
    match kind {
        TreeKind::Blake3 => blake3::hash(bytes).to_hex().to_string(),
        TreeKind::Sha256 => hex(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref()),
    }
}

fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(word: &str) -> T {
    word.parse().unwrap()
}

fn holder(kind: TreeKind, k: &str, size: &str) -> Holder {
    let segment = SegmentSize::from_log2_chunks(number(k)).unwrap();
    Holder::of_kind(content(number(size)), segment, kind)
}

/// A verifier that lacks only the packet under test.
fn ready_for(holder: &Holder, what: &str, index: u64) -> TreeVerifier {
    let mut verifier = holder.verifier();
    let tile = holder.outboard.geometry().tile_of_segment(SegmentIndex(index));
    if let (Some(tile), "segment") = (tile, what) {
        holder.feed_tile(&mut verifier, tile);
    }
    verifier
}

fn check(kind: TreeKind, line: &str) {
    let (holder, hash) = (|k, size| holder(kind, k, size), |bytes: &[u8]| hash(kind, bytes));
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["tree", k, size, n, levels, root, outboard] => {
            let holder = holder(k, size);
            let geo = holder.outboard.geometry();
            assert_eq!((geo.segments(), geo.levels()), (number(n), number(levels)), "{line}");
            assert!(kind == TreeKind::Sha256 || hash(&holder.content) == root, "{line}");
            assert_eq!(holder.outboard.root().to_hex().as_str(), root, "{line}");
            assert_eq!(hash(holder.outboard.as_bytes()), outboard, "{line}");
        }
        ["segment", k, size, index, len, signature] => {
            let got = holder(k, size).signature(number(index));
            assert_eq!((got.len(), hash(&got)), (number(len), signature.into()), "{line}");
        }
        ["tile", k, size, tier, index, bytes, content, len, signature] => {
            let tile = Tile { tier: number(tier), index: number(index) };
            let got = holder(k, size).tile(tile);
            assert_eq!((got.0.len(), hash(&got.0)), (number(bytes), content.into()), "{line}");
            assert_eq!((got.1.len(), hash(&got.1)), (number(len), signature.into()), "{line}");
        }
        ["corrupt", k, size, what, index, part, byte, bit] => {
            let (holder, index) = (holder(k, size), number(index));
            let tile = Tile { tier: 0, index };
            let mut packet = match what {
                "segment" => (holder.bytes(index).to_vec(), holder.signature(index)),
                _ => holder.tile(tile),
            };
            let feed = |(bytes, proof): &(Vec<u8>, Vec<u8>)| {
                let mut verifier = ready_for(&holder, what, index);
                match what {
                    "segment" => verifier.segment(SegmentIndex(index), bytes, proof).map(|_| ()),
                    _ => verifier.tile(tile, bytes, proof),
                }
            };
            assert_eq!(feed(&packet), Ok(()), "{line}: as it should be");
            let part = if part == "content" { &mut packet.0 } else { &mut packet.1 };
            part[number::<usize>(byte)] ^= 1 << number::<u8>(bit);
            assert_eq!(feed(&packet).unwrap_err().culprit(), Culprit::Sender, "{line}");
        }
        _ => panic!("not a vector: {line}"),
    }
}

#[test]
fn the_vectors_hold() {
    for (kind, fence) in TreeKind::ALL.into_iter().zip(["```vectors\n", "```vectors-sha256\n"]) {
        let block = SPEC.split(fence).nth(1).unwrap().split("```").next().unwrap();
        assert!(block.lines().count() > 60);
        block.lines().for_each(|line| check(kind, line));
    }
}

#[test]
fn the_worked_examples_hold() {
    for kind in TreeKind::ALL {
        let holder = holder(kind, "0", "5120");
        let slots: Vec<String> = holder.outboard.as_bytes().chunks(32).map(hex).collect();
        for (slot, value) in slots.iter().enumerate() {
            let line = SPEC.lines().find(|line| line.ends_with(value.as_str())).expect(value);
            assert_eq!(line.split_whitespace().next().unwrap(), slot.to_string());
        }
        let of =
            |which: &[usize]| which.iter().map(|slot| slots[*slot].clone()).collect::<String>();
        assert_eq!(hex(&holder.signature(2)), of(&[4, 6, 1, 8]));
        assert_eq!(hex(&holder.signature(4)), of(&[8, 3]));
    }
}

/// `consistency k old new bytes hash`: the proof holds, and no flipped bit does.
fn check_consistency(line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["consistency", k, old, new, len, expected] = words[..] else {
        panic!("not a vector: {line}")
    };
    let kind = TreeKind::Blake3;
    let (old, new) = (holder(kind, k, old), holder(kind, k, new));
    let (older, newer) = (old.outboard.geometry(), new.outboard.geometry());
    let content = consistency::needs(older, newer).map_or(&[][..], |n| new.bytes(n.segment.0));
    let mut proof = Vec::new();
    let node = |node| new.outboard.node(node);
    assert!(consistency::prove(older, newer, content, node, &mut proof), "{line}");
    assert_eq!((proof.len(), hash(kind, &proof)), (number(len), expected.into()), "{line}");
    let verify = |proof: &[u8]| {
        consistency::verify((older, old.outboard.root()), (newer, new.outboard.root()), proof)
    };
    assert!(verify(&proof).is_ok(), "{line}");
    for bit in (0..8 * proof.len()).step_by(61) {
        proof[bit / 8] ^= 1 << (bit % 8);
        assert!(verify(&proof).is_err(), "{line}: bit {bit}");
        proof[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn the_consistency_vectors_hold() {
    let block = SPEC.split("```vectors-consistency\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(block.lines().count() > 8);
    block.lines().for_each(check_consistency);
}
