//! Independent messages side by side: vector i of a state holds word i of every lane.

/// Makes `chunks`, `parents` and `root_blocks` for the instruction set `$features`, out of the
/// vectors of `$words` and its way to `$turn` them.
macro_rules! lane_kernels {
    ($features:literal, $words:ident, $turn:ident) => {
        use $crate::backend::{Cv, Lane, MAX_LANES, Node};
        use $crate::constants::{BLOCK_LEN, CHUNK_END, CHUNK_START, IV, OUT_LEN, PARENT, SCHEDULE};
        use $crate::subtree::Mode;
        use $crate::x86::$words::$turn::{
            Shuffles, right_7, right_8, right_12, right_16, shuffles,
        };
        use $crate::x86::$words::{
            LANES, V, add, and, from_words, load_blocks, splat, store_blocks, store_cvs, xor,
        };

        /// The compression of every lane: all sixteen output words, but for the last step that
        /// mixes `cv` into the upper eight, which only extendable output needs.
        ///
        /// Each caller has an instance of its own, which the compiler then inlines: that keeps
        /// `cv` in registers from block to block, worth a tenth. The rounds stand in a row, with
        /// the message's vectors at fixed places: a loop with a table of places is a seventh of
        /// the code, but 6 % slower with AVX2 and 60 % with AVX-512 (measured on Zen 4).
        #[inline]
        #[target_feature(enable = $features)]
        fn compress<const CALLER: u8>(
            cv: &[V; 8],
            m: &[V; 16],
            last_row: [V; 4],
            turns: &Shuffles,
        ) -> [V; 16] {
            let [a0, a1, a2, a3, b0, b1, b2, b3] = *cv;
            let mut rows = [
                [a0, a1, a2, a3],
                [b0, b1, b2, b3],
                [splat(IV[0]), splat(IV[1]), splat(IV[2]), splat(IV[3])],
                last_row,
            ];
            rows = round::<0>(rows, m, turns);
            rows = round::<1>(rows, m, turns);
            rows = round::<2>(rows, m, turns);
            rows = round::<3>(rows, m, turns);
            rows = round::<4>(rows, m, turns);
            rows = round::<5>(rows, m, turns);
            rows = round::<6>(rows, m, turns);
            let [a, b, c, d] = rows;
            let mut v = [c[0]; 16];
            for i in 0..4 {
                v[i] = xor(a[i], c[i]);
                v[i + 4] = xor(b[i], d[i]);
                v[i + 8] = c[i];
                v[i + 12] = d[i];
            }
            v
        }

        /// Round number R: the columns, then the diagonals as columns of the turned rows.
        #[inline]
        #[target_feature(enable = $features)]
        fn round<const R: usize>(
            mut rows: [[V; 4]; 4],
            m: &[V; 16],
            turns: &Shuffles,
        ) -> [[V; 4]; 4] {
            let word = |i: usize| m[SCHEDULE[R][i] as usize];
            rows = half_round(
                rows,
                [word(0), word(2), word(4), word(6)],
                [word(1), word(3), word(5), word(7)],
                turns,
            );
            let [a, [b0, b1, b2, b3], [c0, c1, c2, c3], [d0, d1, d2, d3]] = rows;
            let [a, [b1, b2, b3, b0], [c2, c3, c0, c1], [d3, d0, d1, d2]] = half_round(
                [a, [b1, b2, b3, b0], [c2, c3, c0, c1], [d3, d0, d1, d2]],
                [word(8), word(10), word(12), word(14)],
                [word(9), word(11), word(13), word(15)],
                turns,
            );
            [a, [b0, b1, b2, b3], [c0, c1, c2, c3], [d0, d1, d2, d3]]
        }

        /// Four independent mixings (the paper's G), step by step side by side.
        #[inline]
        #[target_feature(enable = $features)]
        fn half_round(
            [mut a, mut b, mut c, mut d]: [[V; 4]; 4],
            x: [V; 4],
            y: [V; 4],
            turns: &Shuffles,
        ) -> [[V; 4]; 4] {
            for i in 0..4 {
                a[i] = add(add(a[i], x[i]), b[i]);
                d[i] = right_16(xor(d[i], a[i]), turns);
            }
            for i in 0..4 {
                c[i] = add(c[i], d[i]);
                b[i] = right_12(xor(b[i], c[i]));
            }
            for i in 0..4 {
                a[i] = add(add(a[i], y[i]), b[i]);
                d[i] = right_8(xor(d[i], a[i]), turns);
            }
            for i in 0..4 {
                c[i] = add(c[i], d[i]);
                b[i] = right_7(xor(b[i], c[i]));
            }
            [a, b, c, d]
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
            let turns = shuffles();
            let mut start = CHUNK_START;
            for at in 0..shortest {
                // Every lane has a whole block that is not its last.
                let mut blocks = [&tails[0]; LANES];
                for i in 0..LANES {
                    // SAFETY: `at < shortest <= last[i] <= whole[i].len()`.
                    blocks[i] = unsafe { whole[i].get_unchecked(at) };
                }
                let m = load_blocks(&blocks);
                let flags = splat(mode.flags() | start);
                let v = compress::<0>(&cv, &m, [t0, t1, splat(BLOCK_LEN as u32), flags], &turns);
                cv.copy_from_slice(&v[..8]);
                start = 0;
            }
            for at in shortest..=longest {
                let mut blocks = [&tails[0]; LANES];
                for i in 0..LANES {
                    blocks[i] = whole[i].get(at).unwrap_or(&tails[i]);
                }
                let m = load_blocks(&blocks);
                let flags = mode.flags() | start;
                start = 0;
                let (mut lens, mut ends, mut live) =
                    ([BLOCK_LEN as u32; LANES], [flags; LANES], [0; LANES]);
                for i in 0..LANES {
                    if at == last[i] {
                        lens[i] = (lane(i).bytes.len() - BLOCK_LEN * at) as u32;
                        ends[i] = flags | CHUNK_END | lane(i).end;
                    }
                    live[i] = if at <= last[i] { u32::MAX } else { 0 };
                }
                let v =
                    compress::<1>(&cv, &m, [t0, t1, from_words(&lens), from_words(&ends)], &turns);
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
            let v = compress::<2>(&key_of(mode), &load_blocks(&lanes), last_row, &shuffles());
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
            let mut v =
                compress::<3>(&h, &m, [t0, t1, splat(node.len), splat(node.flags)], &shuffles());
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
