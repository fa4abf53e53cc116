//! Proofs from a hostile peer: each is either refused or true, and the verifier can accept the true one afterwards.
//!
//! The first bytes choose a tree, the rest is a sequence of steps: honest packets with bytes changed, honest packets at
//! other places, forged packets, dropping of nodes, and reading back from disk.
#![no_main]

use xylem_tree::{
    Node, NodeValue, Outboard, ProofError, SegmentIndex, SegmentSize, Tile, TreeKind, TreeVerifier,
    segment_signature, tile_content, tile_signature,
};

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn number(&mut self, below: u64) -> u64 {
        let bytes = [self.byte(), self.byte(), self.byte()];
        u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0])) % below.max(1)
    }

    /// Changes, cuts or lengthens `bytes`, or leaves them unchanged.
    fn disturb(&mut self, bytes: &mut Vec<u8>) {
        match self.byte() % 8 {
            0..=3 => {}
            4 | 5 if !bytes.is_empty() => {
                let at = self.number(bytes.len() as u64) as usize;
                bytes[at] ^= self.byte();
            }
            6 => {
                let len = self.number(bytes.len() as u64 + 1) as usize;
                bytes.truncate(len);
            }
            _ => {
                let len = bytes.len() + usize::from(self.byte());
                bytes.resize(len, self.byte());
            }
        }
    }
}

/// Adopts the pairs from the lowest proven node down to a segment's leaf, as far as the disk has them and they are
/// right.
fn adopt_path(verifier: &mut TreeVerifier, at: SegmentIndex, disk: &[u8]) {
    let geo = *verifier.geometry();
    if at.0 >= geo.segments() {
        return;
    }
    let read = |node: Node| {
        let from = usize::try_from(node.slot()).ok()?.checked_mul(32)?;
        NodeValue::from_slice(disk.get(from..)?.get(..32)?)
    };
    let mut node = Node::leaf(at);
    let mut unproven = Vec::new();
    while verifier.value(node).is_none() {
        let Some(parent) = geo.parent(node) else { return };
        node = parent;
        unproven.push(node);
    }
    for parent in unproven.into_iter().rev() {
        let Some((left, right)) = geo.children(parent) else { return };
        let (Some(left), Some(right)) = (read(left), read(right)) else { return };
        if verifier.adopt_children(parent, left, right).is_err() {
            return;
        }
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let shape = input.byte();
    let size = SegmentSize::from_log2_chunks(shape % 2).expect("0 and 1 are valid");
    let kind = TreeKind::ALL[usize::from(shape / 2 % 2)];
    let content: Vec<u8> = (0..input.number(40 * 1024)).map(|i| (i % 251) as u8).collect();
    let outboard = Outboard::of_kind(&content, size, kind);
    let geo = *outboard.geometry();
    let bytes_of = |i: u64| {
        let range = geo.segment_range(SegmentIndex(i));
        &content[range.start as usize..range.end as usize]
    };
    let signature_of = |i: u64| {
        let mut out = Vec::new();
        let _ = segment_signature(&geo, SegmentIndex(i), &mut outboard.as_bytes(), &mut out);
        out
    };
    let tile = Tile { tier: 0, index: 0 };
    let (mut tile_bytes, mut tile_proof) = (Vec::new(), Vec::new());
    let _ = tile_content(&geo, tile, &mut outboard.as_bytes(), &mut tile_bytes);
    let _ = tile_signature(&geo, tile, &mut outboard.as_bytes(), &mut tile_proof);

    let mut verifier = TreeVerifier::new(geo, outboard.root());
    while !input.0.is_empty() {
        let i = input.number(geo.segments() + 1);
        match input.byte() % 9 {
            0..=2 => {
                let from = if input.byte() % 4 == 0 { input.number(geo.segments()) } else { i };
                let (mut bytes, mut proof) = (bytes_of(from).to_vec(), signature_of(from));
                input.disturb(&mut bytes);
                input.disturb(&mut proof);
                if let Ok(segment) = verifier.segment(SegmentIndex(i), &bytes, &proof) {
                    assert_eq!(segment.content, bytes_of(i));
                    assert_eq!(proof, signature_of(i));
                }
            }
            3 => {
                let (mut bytes, mut proof) = (tile_bytes.clone(), tile_proof.clone());
                input.disturb(&mut bytes);
                input.disturb(&mut proof);
                if verifier.tile(tile, &bytes, &proof).is_ok() {
                    assert_eq!((bytes, proof), (tile_bytes.clone(), tile_proof.clone()));
                }
            }
            5 => {
                let some = |n: u64, input: &mut Input<'_>| {
                    let i = i + n * input.number(3);
                    let (mut bytes, mut proof) = (bytes_of(i).to_vec(), signature_of(i));
                    input.disturb(&mut bytes);
                    input.disturb(&mut proof);
                    (SegmentIndex(i), bytes, proof)
                };
                let burst: Vec<_> = (0..5).map(|n| some(n, &mut input)).collect();
                let mut out = Vec::new();
                let items = burst.iter().map(|(i, bytes, proof)| (*i, bytes, &proof[..]));
                verifier.segments(items, &mut out);
                for segment in out.into_iter().flatten() {
                    assert_eq!(segment.content, bytes_of(segment.index.0));
                }
            }
            6 => {
                let (mut bytes, mut proof) = (bytes_of(i).to_vec(), signature_of(i));
                input.disturb(&mut bytes);
                input.disturb(&mut proof);
                if let Some(anchor) = verifier.anchor(SegmentIndex(i))
                    && anchor.segment(SegmentIndex(i), &bytes, &proof).is_ok()
                {
                    assert_eq!((&bytes[..], proof), (bytes_of(i), signature_of(i)));
                }
            }
            7 => {
                let mut fork = verifier.fork();
                let _ = fork.segment(SegmentIndex(i), bytes_of(i), &signature_of(i));
                assert!(verifier.absorb(&mut fork));
            }
            4 => verifier.forget_complete(i..i + input.number(20)),
            _ => {
                let mut disk = outboard.as_bytes().to_vec();
                input.disturb(&mut disk);
                adopt_path(&mut verifier, SegmentIndex(i), &disk);
            }
        }
    }
    for (node, value) in verifier.take_proven().into_inner() {
        assert_eq!(outboard.node(node), Some(value));
    }
    if geo.tiles(0) > 0 {
        let got = verifier.tile(tile, &tile_bytes, &tile_proof);
        assert!(matches!(got, Ok(()) | Err(ProofError::AlreadyComplete)));
    }
    for i in 0..geo.segments() {
        match verifier.segment(SegmentIndex(i), bytes_of(i), &signature_of(i)) {
            Ok(_) => {}
            Err(ProofError::AlreadyComplete) => assert!(verifier.is_complete(SegmentIndex(i))),
            Err(error) => panic!("the truth was refused: {error}"),
        }
    }
});
