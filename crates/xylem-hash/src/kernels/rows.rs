//! Kernels with one message for every four words of a vector: the four vectors of a state are the rows of the state
//! matrix, and its four columns are mixed at once.

/// Makes `rounds` for the instruction set `$features` from the vector type of `$words`.
macro_rules! row_rounds {
    ($features:literal, $($words:ident)::+) => {
        use $($words)::+::{
            Schedule, V, add, held, right_7, right_8, right_12, right_16, same, rotate_lanes_1, rotate_lanes_2,
            rotate_lanes_3, xor,
        };

        /// The four mixings of a half round. `b` is added last, as in `lanes`.
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

        /// All rounds; returns the rows of the state.
        ///
        /// For the diagonals, `a`, `c` and `d` are rotated by a lane each. `b` is not, as the next step waits for `b`.
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
        use $crate::batch::{Batch, first};
        use $crate::constants::{BLOCK_LEN, IV, ROUNDS};
        use $($words)::+::{MESSAGES, each, join, split};

        $crate::kernels::rows::row_rounds!($features, $($words)::+);

        /// Advances the first `MESSAGES` lanes of `batch` by that many blocks.
        ///
        /// # Safety
        /// The processor has the instruction set, and the pointers of `batch` are as its documentation requires.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn run(batch: &mut Batch<'_>, blocks: usize) {
            let start = |half: usize| match batch.key {
                Some(key) => same(&key.as_chunks::<4>().0[half]),
                None => {
                    let values = batch.cvs.cast_const().cast::<[u32; 4]>();
                    let part = |i: usize| values.wrapping_add(2 * i + half).cast();
                    // SAFETY: guaranteed by the caller: without a key, all lanes have a value.
                    unsafe { join(each(part)) }
                }
            };
            let mut h = [start(0), start(1)];
            // SAFETY: guaranteed by the caller: the lanes' fields are written.
            let ([low, high], ends, at, last) = unsafe {
                (
                    [first::<_, MESSAGES>(&batch.counters[0]), first(&batch.counters[1])],
                    [first::<_, MESSAGES>(&batch.ends[0]), first(&batch.ends[1])],
                    first::<_, MESSAGES>(&batch.at),
                    first::<_, MESSAGES>(&batch.last),
                )
            };
            for i in 0..blocks {
                let is_last = i + 1 == blocks;
                let (at, offset) = if is_last { (last, 0) } else { (at, i) };
                // SAFETY: guaranteed by the caller: there is a block at each of these pointers.
                let schedule = unsafe {
                    Schedule::new(each(|i| at[i].wrapping_add(offset * BLOCK_LEN)))
                };
                let flags = batch.flags[usize::from(i != 0)];
                let mut last_row = [[0; 4]; MESSAGES];
                for lane in 0..MESSAGES {
                    let (mut len, mut flags) = (BLOCK_LEN as u32, flags);
                    if is_last {
                        (len, flags) = (ends[0][lane], ends[1][lane]);
                    }
                    last_row[lane] = [low[lane], high[lane], len, flags];
                }
                // SAFETY: four words are 16 bytes.
                let last_row = unsafe { join(each(|lane| last_row[lane].as_ptr().cast())) };
                let [a, b, c, d] = rounds(h, schedule, last_row);
                h = [xor(a, c), xor(b, d)];
            }
            let mut cvs = [[0; 8]; MESSAGES];
            for half in 0..2 {
                split(h[half], |i, words| cvs[i].as_chunks_mut::<4>().0[half] = words);
            }
            // SAFETY: guaranteed by the caller: there are as many places.
            unsafe { batch.cvs.cast::<[[u32; 8]; MESSAGES]>().write_unaligned(cvs) };
        }
    };
}

/// Makes `run` (`one` of [`crate::backend::Kernels`]): one message.
macro_rules! single_kernel {
    ($features:literal, $($words:ident)::+) => {
        use $crate::constants::{BLOCK_LEN, IV, ROUNDS};
        use $crate::kernels::One;
        use $($words)::+::split;

        $crate::kernels::rows::row_rounds!($features, $($words)::+);

        /// # Safety
        /// The processor has the instruction set, the pointers of `one` are as its documentation requires, and `out`
        /// is valid for writing.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn run(one: &One, out: *mut [u8; BLOCK_LEN]) {
            // SAFETY: guaranteed by the caller.
            let (halves, _) = unsafe { &*one.cv }.as_chunks::<4>();
            let mut h = [same(&halves[0]), same(&halves[1])];
            let mut second = h;
            for i in 0..one.blocks {
                let mut at = one.at.wrapping_add(i * BLOCK_LEN);
                let mut end = one.ends[usize::from(i != 0)];
                if i + 1 == one.blocks {
                    (at, end) = (one.last, one.ends[2]);
                }
                // SAFETY: guaranteed by the caller: there is a block at this pointer.
                let schedule = unsafe { Schedule::new([at]) };
                let row = [one.counter as u32, (one.counter >> 32) as u32, end as u32, (end >> 32) as u32];
                let [a, b, c, d] = rounds(h, schedule, same(&row));
                second = [xor(c, h[0]), xor(d, h[1])];
                h = [xor(a, c), xor(b, d)];
            }
            let mut words = [[0; 4]; 4];
            split(h[0], |_, part| words[0] = part);
            split(h[1], |_, part| words[1] = part);
            split(second[0], |_, part| words[2] = part);
            split(second[1], |_, part| words[3] = part);
            // SAFETY: guaranteed by the caller; four times four words are a block.
            unsafe { out.cast::<[[u32; 4]; 4]>().write_unaligned(words) };
        }
    };
}

pub(super) use {row_kernel, row_rounds, single_kernel};
