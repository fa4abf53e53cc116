//! Kernels with one message for each word of a vector: vector i of a state holds word i of every lane.

/// Makes `run` (see [`crate::backend::Kernels`]) of `LANES` lanes for the instruction set `$features` from the vector
/// type of `$words`.
macro_rules! lane_kernel {
    ($features:literal, $($words:ident)::+) => {
        use $crate::batch::{Batch, first};
        use $crate::constants::{BLOCK_LEN, IV, ROUNDS, SCHEDULE};
        use $($words)::+::{
            LANES, V, add, held, load, load_blocks, load_cvs, right_7, right_8, right_12, right_16,
            splat, store_cvs, xor,
        };

        /// Offsets in bytes of the words of the schedule in an array of vectors.
        static OFFSETS: [[u16; 16]; ROUNDS] = {
            let mut table = [[0; 16]; ROUNDS];
            let mut i = 0;
            while i < 16 * ROUNDS {
                table[i / 16][i % 16] = (SCHEDULE[i / 16][i % 16] as usize * size_of::<V>()) as u16;
                i += 1;
            }
            table
        };

        /// Mixes the columns (half 0), or the diagonals, as columns of rotated rows (half 1). Each caller, and each
        /// place of a call, has its own instance, which is then inlined.
        #[inline]
        #[target_feature(enable = $features)]
        fn half_round<const HALF: usize, const CALLER: usize>(
            a: &mut [V; 4],
            b: &mut [V; 4],
            c: &mut [V; 4],
            d: &mut [V; 4],
            m: &[V; 16],
            offsets: &[u16; 16],
        ) {
            // SAFETY: every offset is that of one of the 16 vectors of `m`.
            let word = |i: usize| unsafe { *m.as_ptr().byte_add(offsets[8 * HALF + i] as usize) };
            let place = |i| ((i + HALF) % 4, (i + 2 * HALF) % 4, (i + 3 * HALF) % 4);
            for i in 0..4 {
                let (bi, _, di) = place(i);
                a[i] = add(held(add(a[i], word(2 * i))), b[bi]);
                d[di] = right_16(xor(d[di], a[i]));
            }
            for i in 0..4 {
                let (bi, ci, di) = place(i);
                c[ci] = add(c[ci], d[di]);
                b[bi] = right_12(xor(b[bi], c[ci]));
            }
            for i in 0..4 {
                let (bi, _, di) = place(i);
                a[i] = add(held(add(a[i], word(2 * i + 1))), b[bi]);
                d[di] = right_8(xor(d[di], a[i]));
            }
            for i in 0..4 {
                let (bi, ci, di) = place(i);
                c[ci] = add(c[ci], d[di]);
                b[bi] = right_7(xor(b[bi], c[ci]));
            }
        }

        /// The compression of every lane (the paper, section 2.2): the four rows of the state after all rounds.
        ///
        /// `held` makes the compiler compute `a + word` before adding `b`; otherwise every dependency chain would be
        /// one addition longer. `b` is added last. Each caller has its own instance, which is then inlined, so `cv`
        /// stays in registers from block to block.
        #[inline]
        #[target_feature(enable = $features)]
        fn looped<const CALLER: usize>(cv: &[V; 8], last_row: [V; 4], m: &[V; 16]) -> [[V; 4]; 4] {
            let [mut a, mut b, mut c, mut d] = start(cv, last_row);
            for offsets in &OFFSETS {
                half_round::<0, CALLER>(&mut a, &mut b, &mut c, &mut d, m, offsets);
                half_round::<1, CALLER>(&mut a, &mut b, &mut c, &mut d, m, offsets);
            }
            [a, b, c, d]
        }

        /// The rows of the state before the first round.
        #[inline]
        #[target_feature(enable = $features)]
        fn start(cv: &[V; 8], last_row: [V; 4]) -> [[V; 4]; 4] {
            let iv = [splat(IV[0]), splat(IV[1]), splat(IV[2]), splat(IV[3])];
            [[cv[0], cv[1], cv[2], cv[3]], [cv[4], cv[5], cv[6], cv[7]], iv, last_row]
        }

        /// Advances the first `LANES` lanes of `batch` by that many blocks.
        ///
        /// # Safety
        /// The processor has the instruction set, and the pointers of `batch` are as its documentation requires.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn run(batch: &mut Batch<'_>, blocks: usize) {
            let mut cv = match batch.key {
                Some(key) => splats(key),
                // SAFETY: guaranteed by the caller: without a key, all lanes have a value.
                None => load_cvs(&unsafe { batch.cvs.cast::<[[u32; 8]; LANES]>().read_unaligned() }),
            };
            // SAFETY: guaranteed by the caller: the lanes' values are written.
            let (counters, ends, at, last) = unsafe {
                (
                    [first::<_, LANES>(&batch.counters[0]), first(&batch.counters[1])],
                    [first::<_, LANES>(&batch.ends[0]), first(&batch.ends[1])],
                    first::<_, LANES>(&batch.at),
                    first::<_, LANES>(&batch.last),
                )
            };
            let full = splat(BLOCK_LEN as u32);
            let rows = [
                [full, splat(batch.flags[0])],
                [full, splat(batch.flags[1])],
                [load(ends[0]), load(ends[1])],
            ];
            for i in 0..blocks {
                let is_last = i + 1 == blocks;
                let (at, offset) = if is_last { (last, 0) } else { (at, i) };
                // Hidden from the optimizer, which would otherwise copy the loop for each case.
                let at = core::hint::black_box(at);
                // SAFETY: guaranteed by the caller: there is a block at each of these pointers.
                let m = unsafe { load_blocks(at, offset * BLOCK_LEN) };
                let [low, high] = counters;
                let [len, flags] = rows[if is_last { 2 } else { usize::from(i != 0) }];
                let [a, b, c, d] = looped::<0>(&cv, [load(low), load(high), len, flags], &m);
                for i in 0..4 {
                    (cv[i], cv[4 + i]) = (xor(a[i], c[i]), xor(b[i], d[i]));
                }
            }
            let mut cvs = [[0; 8]; LANES];
            store_cvs(&cv, &mut cvs);
            // SAFETY: guaranteed by the caller: there are as many places.
            unsafe { batch.cvs.cast::<[[u32; 8]; LANES]>().write_unaligned(cvs) };
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn splats(words: &[u32; 8]) -> [V; 8] {
            let mut vectors = [splat(0); 8];
            for i in 0..8 {
                vectors[i] = splat(words[i]);
            }
            vectors
        }
    };
}

/// Makes `root_blocks` (see [`crate::backend::Kernels`]), in a module that has [`lane_kernel`].
macro_rules! output_kernel {
    ($features:literal, $($words:ident)::+) => {
        use $crate::backend::{MAX_LANES, Node};
        use $($words)::+::store_blocks;

        /// Extendable output: `LANES` compressions of `node`, with its counter and those after it.
        ///
        /// # Safety
        /// The processor has the instruction set, and `out` is valid for `LANES` blocks.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn root_blocks(node: &Node, out: *mut [u8; BLOCK_LEN]) {
            let mut m = [splat(0); 16];
            for i in 0..16 {
                m[i] = splat(u32::from_le_bytes(node.block.as_chunks::<4>().0[i]));
            }
            let mut counters = [[0; MAX_LANES]; 2];
            for i in 0..LANES {
                let counter = node.counter.wrapping_add(i as u64);
                (counters[0][i], counters[1][i]) = (counter as u32, (counter >> 32) as u32);
            }
            let cv = splats(&node.cv);
            let [low, high] = &counters;
            let last_row = [load(low), load(high), splat(node.end as u32), splat(node.flags())];
            let [a, b, c, d] = looped::<1>(&cv, last_row, &m);
            let mut v = [splat(0); 16];
            for i in 0..4 {
                (v[i], v[4 + i]) = (xor(a[i], c[i]), xor(b[i], d[i]));
                (v[8 + i], v[12 + i]) = (xor(c[i], cv[i]), xor(d[i], cv[4 + i]));
            }
            // SAFETY: guaranteed by the caller.
            store_blocks(v, unsafe { &mut *out.cast::<[[u8; BLOCK_LEN]; LANES]>() });
        }
    };
}

pub(super) use {lane_kernel, output_kernel};
