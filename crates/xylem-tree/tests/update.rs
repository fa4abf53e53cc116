//! Compares blocks and claims with outboards and slow sums.

use proptest::prelude::*;
use xylem_tree::{
    Claims, Geometry, Outboard, OutboardBuilder, ProofError, REGION_LEN, Region, SegmentIndex,
    SegmentSize, TreeKind, TreeVerifier, UPDATE_MIN_SIZE, UpdateBlocks, WeakSum, hash_region,
    segment_signature, tile_content, tile_signature, weak_sum,
};

mod slow;
use slow::content;

/// Word i of m, little-endian, has the weight m - i + MIX.
fn slow_sum(bytes: &[u8]) -> u32 {
    let words: Vec<u32> = bytes
        .chunks(4)
        .map(|four| {
            four.iter().enumerate().fold(0, |word, (at, byte)| word | u32::from(*byte) << (8 * at))
        })
        .collect();
    let m = words.len() as u32;
    let weight = |i: usize| (m - i as u32).wrapping_add(0x9E37_79B1);
    words
        .iter()
        .enumerate()
        .fold(0, |sum, (i, word)| sum.wrapping_add(word.wrapping_mul(weight(i))))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn weak_sums_are_the_slow_ones_and_roll(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        words in 1_usize..40,
    ) {
        prop_assert_eq!(weak_sum(&bytes), slow_sum(&bytes));
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let len = words * 4;
        if bytes.len() > len + 4 {
            let mut rolling = WeakSum::of(&bytes[..len]);
            for at in (0..bytes.len() - len - 4).step_by(4) {
                prop_assert_eq!(rolling.sum(), slow_sum(&bytes[at..at + len]));
                rolling.roll(words as u32, word(at), word(at + len));
            }
        }
    }

    /// Right and wrong claims, while only the root and some segments of the tree are proven: each proven claim is
    /// right, and each claim that can be proven is proven.
    #[test]
    fn claims_are_proven_if_they_are_right(
        size in UPDATE_MIN_SIZE + 1..400_000,
        claimed in prop::collection::vec(prop_oneof![8 => Just(Some(true)), 1 => Just(None), 1 => Just(Some(false))], 50),
        fetched in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let file = content(size as usize);
        let outboard = Outboard::of(&file, SegmentSize::DEFAULT);
        let geo = *outboard.geometry();
        let blocks = UpdateBlocks::of(geo).unwrap();
        let mut claims = Claims::new(blocks, outboard.root());
        let bytes_of = |block| {
            let range = blocks.range(block);
            &file[range.start as usize..range.end as usize]
        };
        for block in 0..blocks.count() {
            match claimed[block as usize] {
                Some(true) => claims.claim(block, blocks.value(block, bytes_of(block)).unwrap()),
                Some(false) => {
                    let mut other = bytes_of(block).to_vec();
                    other[0] ^= 1;
                    claims.claim(block, blocks.value(block, &other).unwrap());
                }
                None => {}
            }
        }
        let right = |block: u64| claimed[block as usize] == Some(true);
        let all_right = (0..blocks.count()).all(right);
        let mut verifier = TreeVerifier::new(geo, outboard.root());
        let first = claims.prove(&verifier);
        prop_assert_eq!(first.blocks.len() as u64, if all_right { blocks.count() } else { 0 });
        // Then some segments are fetched, and this verifier learns what another one proved.
        let mut elsewhere = TreeVerifier::new(geo, outboard.root());
        let mut proof = vec![];
        for at in fetched {
            let i = SegmentIndex(at.index(geo.segments() as usize) as u64);
            for tier in (0..2).rev() {
                let Some(mut tile) = geo.tile_of_segment(i) else { break };
                if tier == 1 {
                    let Some(above) = geo.tile_above(tile) else { continue };
                    tile = above;
                }
                let (mut content, mut signature) = (vec![], vec![]);
                tile_content(&geo, tile, &mut outboard.as_bytes(), &mut content).unwrap();
                tile_signature(&geo, tile, &mut outboard.as_bytes(), &mut signature).unwrap();
                elsewhere.tile(tile, &content, &signature).unwrap();
            }
            proof.clear();
            segment_signature(&geo, i, &mut outboard.as_bytes(), &mut proof).unwrap();
            let range = geo.segment_range(i);
            let bytes = &file[range.start as usize..range.end as usize];
            elsewhere.segment(i, bytes, &proof).unwrap();
            let nodes = elsewhere.take_proven();
            prop_assert!(verifier.absorb_nodes(&nodes));
        }
        let second = claims.prove(&verifier);
        for (node, value) in first.nodes.iter().chain(second.nodes.iter()) {
            let at = node.slot() as usize * 32;
            prop_assert_eq!(&value.0[..], &outboard.as_bytes()[at..at + 32], "{}", node);
        }
        for block in 0..blocks.count() {
            let is_proven = claims.proven().contains(block);
            prop_assert!(!is_proven || right(block), "block {}", block);
            // A block with a known node is either proven or refuted.
            let node = geo.real(xylem_tree::Node { level: block_level(&blocks), index: block }).unwrap();
            if verifier.value(node).is_some() {
                prop_assert_eq!(is_proven, right(block), "block {}", block);
            }
            let Some(anchor) = claims.anchor(block) else { continue };
            let pieces: Vec<&[u8]> = bytes_of(block).chunks(8192).collect();
            let (segments, nodes) = anchor.contents(pieces.clone()).unwrap();
            prop_assert_eq!(segments[0].offset, blocks.range(block).start);
            prop_assert!(segments.iter().map(|s| s.content).eq(pieces.iter().copied()));
            for (node, value) in nodes.iter() {
                let at = node.slot() as usize * 32;
                prop_assert_eq!(&value.0[..], &outboard.as_bytes()[at..at + 32]);
            }
            let mut wrong: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
            wrong.last_mut().unwrap()[0] ^= 1;
            prop_assert!(matches!(anchor.contents(wrong), Err(ProofError::NodeMismatch(_))));
            prop_assert!(anchor.contents(pieces[1..].to_vec()).is_err());
        }
    }
}

fn block_level(blocks: &UpdateBlocks) -> u8 {
    (blocks.block_len() / 8192).ilog2() as u8
}

/// A list made region by region equals that of the blocks one by one, for every kind of end.
#[test]
fn regions_give_the_list() {
    let region = REGION_LEN;
    for size in [65_537, 100_000, region, region + 1, 2 * region + 8192, 3 * region - 77] {
        let file = content(size);
        let geo = Geometry::new(size as u64, SegmentSize::DEFAULT);
        let blocks = UpdateBlocks::of(geo).unwrap();
        let mut builder =
            OutboardBuilder::new(geo, |_, _: &[u8]| Ok::<(), core::convert::Infallible>(()));
        let (mut list, mut slow) = (Vec::new(), Vec::new());
        for index in 0..Region::count(&geo) {
            let range = Region::range(&geo, index);
            let bytes = &file[range.start as usize..range.end as usize];
            let region = hash_region(&geo, Region::first_segment(&geo, index), bytes).unwrap();
            blocks.sums_of(&region, bytes, &mut list);
            builder.push(region).unwrap();
        }
        for block in 0..blocks.count() {
            let range = blocks.range(block);
            let bytes = &file[range.start as usize..range.end as usize];
            slow.extend(UpdateBlocks::sums(bytes, &blocks.value(block, bytes).unwrap()));
        }
        assert_eq!(list, slow, "{size}");
        assert_eq!(list.len() as u64, blocks.list_len());
    }
}

/// The block's length is the power of two nearest to the square root of the size, within limits.
#[test]
fn lengths_of_blocks() {
    let of = |size| UpdateBlocks::of(Geometry::new(size, SegmentSize::DEFAULT));
    assert_eq!(of(UPDATE_MIN_SIZE), None);
    let sha = Geometry::new(1 << 20, SegmentSize::DEFAULT).with_kind(TreeKind::Sha256);
    assert_eq!(UpdateBlocks::of(sha), None);
    for (size, len) in [
        (UPDATE_MIN_SIZE + 1, 8 << 10),
        ((1 << 27) - 1, 8 << 10),
        (1 << 27, 16 << 10),
        (1 << 30, 32 << 10),
        ((1 << 30) + 1, 32 << 10),
        ((1 << 31) - 1, 32 << 10),
        (1 << 31, 64 << 10),
        (1 << 44, 4 << 20),
    ] {
        let blocks = of(size).unwrap();
        assert_eq!(blocks.block_len(), len, "{size}");
        assert_eq!(blocks.count(), size.div_ceil(len));
    }
}

/// A verifier of another file proves nothing, and withdrawn claims are gone.
#[test]
fn claims_of_another_file() {
    let file = content(200_000);
    let outboard = Outboard::of(&file, SegmentSize::DEFAULT);
    let blocks = UpdateBlocks::of(*outboard.geometry()).unwrap();
    let mut claims = Claims::new(blocks, outboard.root());
    for block in 0..blocks.count() {
        let range = blocks.range(block);
        let bytes = &file[range.start as usize..range.end as usize];
        claims.claim(block, blocks.value(block, bytes).unwrap());
    }
    let other = TreeVerifier::new(*outboard.geometry(), xylem_hash::hash(b"another"));
    assert!(claims.prove(&other).blocks.is_empty());
    let found = claims.prove(&TreeVerifier::new(*outboard.geometry(), outboard.root()));
    assert_eq!(found.blocks.len() as u64, blocks.count());
    claims.withdraw(3);
    assert!(claims.anchor(3).is_none() && claims.anchor(2).is_some());
}
