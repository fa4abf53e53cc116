//! One message for every four words of a vector: the four vectors of a state are the rows of the
//! state matrix, and its four columns are mixed at once.

/// Makes `rounds` for the instruction set `$features`, out of the vectors of `$words`.
macro_rules! row_rounds {
    ($features:literal, $($words:ident)::+) => {
        use $($words)::+::{
            Schedule, V, add, held, right_7, right_8, right_12, right_16, same, rotate_lanes_1, rotate_lanes_2,
            rotate_lanes_3, xor,
        };

        /// The four mixings of a half round. `b` comes last, see `lanes`.
        #[inline]
        #[target_feature(enable = $features)]
        fn mix([a, b, c, d]: [V; 4], x: V, y: V) -> [V; 4] {
            let a = add(held(add(a, x)), b);
            let d = right_16(xor(d, a));
            let c = add(c, d);
            let b = right_12(xor(b, c));
            let a = add(held(add(a, y)), b);
            let d = right_8(xor(d, a));
            let c = add(c, d);
            let b = right_7(xor(b, c));
            [a, b, c, d]
        }

        /// All rounds; the rows of the state afterwards.
        ///
        /// For the diagonals, `a`, `c` and `d` are turned by a lane each and `b` stays: `b` is
        /// what the next step waits for.
        #[inline]
        #[target_feature(enable = $features)]
        fn rounds([a, b]: [V; 2], mut schedule: Schedule, last_row: V) -> [V; 4] {
            let mut v = [a, b, same(&[IV[0], IV[1], IV[2], IV[3]]), last_row];
            for round in 0..ROUNDS {
                let m = schedule.words(round);
                v = mix(v, m[0], m[1]);
                (v[0], v[2], v[3]) = (rotate_lanes_3(v[0]), rotate_lanes_1(v[2]), rotate_lanes_2(v[3]));
                v = mix(v, m[2], m[3]);
                (v[0], v[2], v[3]) = (rotate_lanes_1(v[0]), rotate_lanes_3(v[2]), rotate_lanes_2(v[3]));
            }
            v
        }
    };
}

/// Makes `run` (see [`crate::backend::Kernels`]) of `MESSAGES` lanes.
macro_rules! row_kernel {
    ($features:literal, $($words:ident)::+) => {
        use $crate::batch::Batch;
        use $crate::constants::{BLOCK_LEN, IV, ROUNDS};
        use $($words)::+::{MESSAGES, each, join, split};

        $crate::kernels::rows::row_rounds!($features, $($words)::+);

        /// Takes the first `MESSAGES` lanes of `batch` that many blocks further.
        ///
        /// # Safety
        /// The processor has the instruction set, and the pointers of `batch` are to what its
        /// documentation says.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn run(batch: &mut Batch<'_>, blocks: usize) {
            let start = |half: usize| match batch.key {
                Some(key) => same(&key.as_chunks::<4>().0[half]),
                None => {
                    let first = batch.cvs.as_ptr().cast::<[u32; 4]>();
                    let part = |i: usize| first.wrapping_add(2 * i + half).cast();
                    // SAFETY: the caller's promise: without a key, all lanes have a value.
                    unsafe { join(each(part)) }
                }
            };
            let mut h = [start(0), start(1)];
            let [low, high] = &batch.counters;
            for i in 0..blocks {
                let is_last = i + 1 == blocks;
                let (at, offset) = if is_last { (&batch.last, 0) } else { (&batch.at, i) };
                // SAFETY: the caller's promise: there is a block at each of these places.
                let schedule = unsafe {
                    Schedule::new(each(|i| at[i].wrapping_add(offset * BLOCK_LEN)))
                };
                let flags = batch.flags[usize::from(i != 0)];
                let mut last_row = [[0; 4]; MESSAGES];
                for lane in 0..MESSAGES {
                    let (mut len, mut flags) = (BLOCK_LEN as u32, flags);
                    if is_last {
                        (len, flags) = (batch.ends[0][lane], batch.ends[1][lane]);
                    }
                    last_row[lane] = [low[lane], high[lane], len, flags];
                }
                // SAFETY: four words are 16 bytes.
                let last_row = unsafe { join(each(|lane| last_row[lane].as_ptr().cast())) };
                let [a, b, c, d] = rounds(h, schedule, last_row);
                h = [xor(a, c), xor(b, d)];
            }
            // SAFETY: arrays of words have no invalid values; the first `MESSAGES` are written.
            let cvs = unsafe { &mut *batch.cvs.as_mut_ptr() };
            for half in 0..2 {
                split(h[half], |i, words| cvs[i].as_chunks_mut::<4>().0[half] = words);
            }
        }
    };
}

/// Makes `compress`, `chunk_start` and `chunk` (see [`crate::backend::Kernels`]): one message.
macro_rules! single_kernel {
    ($features:literal, $($words:ident)::+) => {
        use $crate::backend::{Cv, Node, padded};
        use $crate::constants::{BLOCK_LEN, CHUNK_END, CHUNK_START, IV, ROUNDS};
        use $crate::mode::Mode;
        use $($words)::+::split;

        $crate::kernels::rows::row_rounds!($features, $($words)::+);

        #[inline]
        #[target_feature(enable = $features)]
        fn halves(words: &[u32; 8]) -> [V; 2] {
            let (halves, _) = words.as_chunks::<4>();
            [same(&halves[0]), same(&halves[1])]
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn words(h: [V; 2]) -> [u32; 8] {
            let mut words = [0; 8];
            let (halves, _) = words.as_chunks_mut::<4>();
            split(h[0], |_, words| halves[0] = words);
            split(h[1], |_, words| halves[1] = words);
            words
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn last_row(len: u32, counter: u64, flags: u32) -> V {
            same(&[counter as u32, (counter >> 32) as u32, len, flags])
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn schedule(block: &[u8; BLOCK_LEN]) -> Schedule {
            // SAFETY: the reference is to a block.
            unsafe { Schedule::new([block.as_ptr()]) }
        }

        /// # Safety
        /// The processor has the instruction set.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn compress(node: &Node) -> [u32; 16] {
            let h = halves(&node.cv);
            let row = last_row(node.len, node.counter, node.flags);
            let [a, b, c, d] = rounds(h, schedule(&node.block), row);
            let mut out = [0; 16];
            let (parts, _) = out.as_chunks_mut::<8>();
            parts[0] = words([xor(a, c), xor(b, d)]);
            parts[1] = words([xor(c, h[0]), xor(d, h[1])]);
            out
        }

        /// # Safety
        /// The processor has the instruction set.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn chunk_start(
            mode: &Mode,
            blocks: &[[u8; BLOCK_LEN]],
            counter: u64,
        ) -> [u32; 8] {
            let mut h = halves(mode.key());
            let mut flags = mode.flags() | CHUNK_START;
            for block in blocks {
                let row = last_row(BLOCK_LEN as u32, counter, flags);
                let [a, b, c, d] = rounds(h, schedule(block), row);
                h = [xor(a, c), xor(b, d)];
                flags = mode.flags();
            }
            words(h)
        }

        /// One loop over all blocks, the last one included: it would else be a second copy of the
        /// rounds.
        ///
        /// # Safety
        /// The processor has the instruction set.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn chunk(mode: &Mode, bytes: &[u8], counter: u64, end: u32) -> Cv {
            let (whole, rest) = bytes.as_chunks::<BLOCK_LEN>();
            let tail;
            let last = bytes.len().saturating_sub(1) / BLOCK_LEN;
            let last_block = match whole.get(last) {
                Some(block) => block,
                None => {
                    tail = padded(rest);
                    &tail
                }
            };
            let mut h = halves(mode.key());
            let mut flags = mode.flags() | CHUNK_START;
            for i in 0..=last {
                let mut len = BLOCK_LEN as u32;
                if i == last {
                    len = (bytes.len() - i * BLOCK_LEN) as u32;
                    flags |= CHUNK_END | end;
                }
                let row = last_row(len, counter, flags);
                let [a, b, c, d] = rounds(h, schedule(if i == last { last_block } else { &whole[i] }), row);
                h = [xor(a, c), xor(b, d)];
                flags = mode.flags();
            }
            let mut out = [0; 32];
            let words = words(h);
            for i in 0..8 {
                out.as_chunks_mut::<4>().0[i] = words[i].to_le_bytes();
            }
            out
        }
    };
}

pub(super) use {row_kernel, row_rounds, single_kernel};
