//! Independent messages side by side: vector i of a state holds word i of every lane.

/// Makes `chunks`, `parents` and `root_blocks` for the instruction set `$features`, out of the
/// vectors of `$words` and its way to `$turn` them.
macro_rules! lane_kernels {
    ($features:literal, $words:ident, $turn:ident) => {
        use $crate::backend::{Cv, Lane, MAX_LANES, Node};
        use $crate::constants::{
            BLOCK_LEN, CHUNK_END, CHUNK_START, IV, OUT_LEN, PARENT, ROUNDS, SCHEDULE,
        };
        use $crate::subtree::Mode;
        use $crate::x86::$words::$turn::right;
        use $crate::x86::$words::{
            LANES, V, add, and, from_words, load_blocks, splat, store_blocks, store_cvs, xor,
        };

        /// The compression of every lane: all sixteen output words, but for the last step that
        /// mixes `cv` into the upper eight, which only extendable output needs.
        ///
        /// The loop over the rounds is kept as a loop, with a table of which message vector comes
        /// next: a seventh of the code of seven rounds in a row, and no slower.
        #[inline]
        #[target_feature(enable = $features)]
        fn compress(cv: &[V; 8], m: &[V; 16], last_row: [V; 4]) -> [V; 16] {
            let [h0, h1, h2, h3, h4, h5, h6, h7] = *cv;
            let [iv0, iv1, iv2, iv3] = [splat(IV[0]), splat(IV[1]), splat(IV[2]), splat(IV[3])];
            let [t0, t1, len, flags] = last_row;
            let mut v = [h0, h1, h2, h3, h4, h5, h6, h7, iv0, iv1, iv2, iv3, t0, t1, len, flags];
            for round in 0..ROUNDS {
                let s = &SCHEDULE[round];
                let word = |i: usize| m[usize::from(s[i]) & 15];
                half_round(
                    &mut v,
                    [4, 5, 6, 7],
                    [8, 9, 10, 11],
                    [12, 13, 14, 15],
                    [[word(0), word(2), word(4), word(6)], [word(1), word(3), word(5), word(7)]],
                );
                half_round(
                    &mut v,
                    [5, 6, 7, 4],
                    [10, 11, 8, 9],
                    [15, 12, 13, 14],
                    [
                        [word(8), word(10), word(12), word(14)],
                        [word(9), word(11), word(13), word(15)],
                    ],
                );
            }
            for i in 0..8 {
                v[i] = xor(v[i], v[i + 8]);
            }
            v
        }

        /// Four independent mixings (the paper's G), step by step side by side.
        #[inline]
        #[target_feature(enable = $features)]
        fn half_round(
            v: &mut [V; 16],
            b: [usize; 4],
            c: [usize; 4],
            d: [usize; 4],
            m: [[V; 4]; 2],
        ) {
            for i in 0..4 {
                v[i] = add(add(v[i], m[0][i]), v[b[i]]);
                v[d[i]] = right::<16, 16>(xor(v[d[i]], v[i]));
            }
            for i in 0..4 {
                v[c[i]] = add(v[c[i]], v[d[i]]);
                v[b[i]] = right::<12, 20>(xor(v[b[i]], v[c[i]]));
            }
            for i in 0..4 {
                v[i] = add(add(v[i], m[1][i]), v[b[i]]);
                v[d[i]] = right::<8, 24>(xor(v[d[i]], v[i]));
            }
            for i in 0..4 {
                v[c[i]] = add(v[c[i]], v[d[i]]);
                v[b[i]] = right::<7, 25>(xor(v[b[i]], v[c[i]]));
            }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn key_of(mode: &Mode) -> [V; 8] {
            let mut cv = [splat(0); 8];
            for (vector, word) in cv.iter_mut().zip(mode.key()) {
                *vector = splat(*word);
            }
            cv
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn counters(of: impl Fn(usize) -> u64) -> [V; 2] {
            let (mut low, mut high) = ([0; LANES], [0; LANES]);
            for i in 0..LANES {
                (low[i], high[i]) = (of(i) as u32, (of(i) >> 32) as u32);
            }
            [from_words(&low), from_words(&high)]
        }

        /// As [`crate::backend::Backend::chunks`], for 1 to `LANES` lanes.
        #[target_feature(enable = $features)]
        pub(crate) fn chunks(mode: &Mode, lanes: &[Lane<'_>]) -> [Cv; MAX_LANES] {
            assert!((1..=LANES).contains(&lanes.len()), "the backend chose this kernel");
            // A lane without a chunk repeats the first one; its result is not looked at.
            let lane = |i: usize| lanes.get(i).unwrap_or(&lanes[0]);
            let mut whole: [&[[u8; BLOCK_LEN]]; LANES] = [&[]; LANES];
            let mut tails = [[0; BLOCK_LEN]; LANES];
            // Index of the last block of each lane.
            let mut last = [0; LANES];
            for i in 0..LANES {
                let (blocks, tail) = lane(i).bytes.as_chunks();
                tails[i][..tail.len()].copy_from_slice(tail);
                (whole[i], last[i]) = (blocks, lane(i).bytes.len().saturating_sub(1) / BLOCK_LEN);
            }
            let (shortest, longest) = last
                .iter()
                .fold((usize::MAX, 0), |(short, long), last| (short.min(*last), long.max(*last)));
            let [t0, t1] = counters(|i| lane(i).counter);
            let mut cv = key_of(mode);
            let mut start = CHUNK_START;
            for at in 0..=longest {
                let mut blocks = [&tails[0]; LANES];
                for i in 0..LANES {
                    blocks[i] = whole[i].get(at).unwrap_or(&tails[i]);
                }
                let m = load_blocks(&blocks);
                let flags = mode.flags() | start;
                start = 0;
                if at < shortest {
                    // Every lane has a whole block that is not its last.
                    let v = compress(&cv, &m, [t0, t1, splat(BLOCK_LEN as u32), splat(flags)]);
                    cv.copy_from_slice(&v[..8]);
                    continue;
                }
                let (mut lens, mut ends, mut live) =
                    ([BLOCK_LEN as u32; LANES], [flags; LANES], [0; LANES]);
                for i in 0..LANES {
                    if at == last[i] {
                        lens[i] = (lane(i).bytes.len() - BLOCK_LEN * at) as u32;
                        ends[i] = flags | CHUNK_END | lane(i).end;
                    }
                    live[i] = if at <= last[i] { u32::MAX } else { 0 };
                }
                let v = compress(&cv, &m, [t0, t1, from_words(&lens), from_words(&ends)]);
                let live = from_words(&live);
                for (cv, new) in cv.iter_mut().zip(v) {
                    // The new value in lanes that had a block, the old one in the others.
                    *cv = xor(*cv, and(xor(*cv, new), live));
                }
            }
            let mut out = [[0; OUT_LEN]; MAX_LANES];
            store_cvs(&cv, &mut out);
            out
        }

        /// As [`crate::backend::Backend::parents`], for 1 to `LANES` pairs.
        #[target_feature(enable = $features)]
        pub(crate) fn parents(mode: &Mode, pairs: &[[Cv; 2]], end: u32) -> [Cv; MAX_LANES] {
            assert!((1..=LANES).contains(&pairs.len()), "the backend chose this kernel");
            let (blocks, _) = pairs.as_flattened().as_flattened().as_chunks::<BLOCK_LEN>();
            let mut lanes = [&blocks[0]; LANES];
            for (lane, block) in lanes.iter_mut().zip(blocks) {
                *lane = block;
            }
            let flags = splat(mode.flags() | PARENT | end);
            let last_row = [splat(0), splat(0), splat(BLOCK_LEN as u32), flags];
            let v = compress(&key_of(mode), &load_blocks(&lanes), last_row);
            let mut out = [[0; OUT_LEN]; MAX_LANES];
            let (words, _) = v.as_chunks::<8>();
            store_cvs(&words[0], &mut out);
            out
        }

        /// As [`crate::backend::Backend::root_blocks`], always `LANES` of them.
        #[target_feature(enable = $features)]
        pub(crate) fn root_blocks(node: &Node) -> [[u8; BLOCK_LEN]; MAX_LANES] {
            let mut h = [splat(0); 8];
            for (vector, word) in h.iter_mut().zip(&node.cv) {
                *vector = splat(*word);
            }
            let m = load_blocks(&[&node.block; LANES]);
            let [t0, t1] = counters(|i| node.counter.wrapping_add(i as u64));
            let mut v = compress(&h, &m, [t0, t1, splat(node.len), splat(node.flags)]);
            for i in 0..8 {
                v[i + 8] = xor(v[i + 8], h[i]);
            }
            let mut out = [[0; BLOCK_LEN]; MAX_LANES];
            store_blocks(&v, &mut out);
            out
        }
    };
}

pub(super) use lane_kernels;
