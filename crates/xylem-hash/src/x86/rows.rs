//! One message: the four rows of the state matrix as vectors, its four columns mixed at once.

/// Makes `compress`, `chunk_start` and `chunk` for the instruction set `$features`.
macro_rules! row_kernels {
    ($features:literal, $turn:ident) => {
        use core::arch::x86_64::*;

        use $crate::backend::{Cv, Lane, Node, padded, split_last_block};
        use $crate::constants::{BLOCK_LEN, CHUNK_END, CHUNK_START, IV, ROUNDS};
        use $crate::subtree::Mode;
        use $crate::x86::words128::$turn::{
            Shuffles, right_7, right_8, right_12, right_16, shuffles,
        };
        use $crate::x86::words128::{V, add, from_bytes, from_words, store_at, xor};

        /// Picks lanes A and B of `a`, then C and D of `b`.
        #[inline]
        #[target_feature(enable = $features)]
        fn pick<const ABCD: i32>(a: V, b: V) -> V {
            _mm_castps_si128(_mm_shuffle_ps::<ABCD>(_mm_castsi128_ps(a), _mm_castsi128_ps(b)))
        }

        /// The argument of [`pick`] and of `_mm_shuffle_epi32`, lowest lane first.
        const fn order(a: i32, b: i32, c: i32, d: i32) -> i32 {
            a | b << 2 | c << 4 | d << 6
        }

        /// The four mixings of a half round.
        #[inline]
        #[target_feature(enable = $features)]
        fn mix([a, b, c, d]: [V; 4], x: V, y: V, turns: &Shuffles) -> [V; 4] {
            let a = add(add(a, x), b);
            let d = right_16(xor(d, a), turns);
            let c = add(c, d);
            let b = right_12(xor(b, c));
            let a = add(add(a, y), b);
            let d = right_8(xor(d, a), turns);
            let c = add(c, d);
            let b = right_7(xor(b, c));
            [a, b, c, d]
        }

        /// The words of the next round, in the order that [`rounds`] keeps them: (0 2 4 6),
        /// (1 3 5 7), (14 8 10 12), (15 9 11 13). The numbers in the comments are this round's.
        #[inline]
        #[target_feature(enable = $features)]
        fn permute([m0, m1, m2, m3]: [V; 4]) -> [V; 4] {
            let a = pick::<{ order(1, 2, 1, 3) }>(m0, m1); // 2 4 3 7
            let n0 = _mm_shuffle_epi32::<{ order(0, 2, 3, 1) }>(a); // 2 3 7 4
            let b = _mm_blend_epi16::<0b1100_0000>(m2, m3); // 14 8 10 13
            let b = pick::<{ order(3, 0, 2, 3) }>(m0, b); // 6 0 10 13
            let n1 = _mm_shuffle_epi32::<{ order(0, 2, 1, 3) }>(b); // 6 10 0 13
            let c = _mm_unpacklo_epi32(m3, m1); // 15 1 9 3
            let d = _mm_blend_epi16::<0b0000_1100>(m2, m3); // 14 9 10 12
            let n2 = pick::<{ order(0, 1, 3, 1) }>(c, d); // 15 1 12 9
            let e = _mm_blend_epi16::<0b0011_0000>(m2, m3); // 14 8 11 12
            let f = _mm_blend_epi16::<0b0011_0000>(m2, m1); // 14 8 5 12
            let n3 = pick::<{ order(1, 2, 2, 0) }>(e, f); // 8 11 5 14
            [n0, n1, n2, n3]
        }

        /// All rounds; the rows of the state afterwards.
        ///
        /// For the diagonals, `a`, `c` and `d` are turned by a lane each and `b` stays: `b` is
        /// what the next step waits for.
        #[inline]
        #[target_feature(enable = $features)]
        fn rounds([a, b]: [V; 2], block: &[u8; BLOCK_LEN], last_row: V) -> [V; 4] {
            let (parts, _) = block.as_chunks::<16>();
            let [w0, w1, w2, w3] = [
                from_bytes(&parts[0]),
                from_bytes(&parts[1]),
                from_bytes(&parts[2]),
                from_bytes(&parts[3]),
            ];
            let (even, odd) =
                (pick::<{ order(0, 2, 0, 2) }>(w2, w3), pick::<{ order(1, 3, 1, 3) }>(w2, w3));
            let mut m = [
                pick::<{ order(0, 2, 0, 2) }>(w0, w1),
                pick::<{ order(1, 3, 1, 3) }>(w0, w1),
                _mm_shuffle_epi32::<{ order(3, 0, 1, 2) }>(even),
                _mm_shuffle_epi32::<{ order(3, 0, 1, 2) }>(odd),
            ];
            let mut v = [a, b, from_words(&[IV[0], IV[1], IV[2], IV[3]]), last_row];
            let turns = shuffles();
            for round in 0..ROUNDS {
                v = mix(v, m[0], m[1], &turns);
                v[0] = _mm_shuffle_epi32::<{ order(3, 0, 1, 2) }>(v[0]);
                v[2] = _mm_shuffle_epi32::<{ order(1, 2, 3, 0) }>(v[2]);
                v[3] = _mm_shuffle_epi32::<{ order(2, 3, 0, 1) }>(v[3]);
                v = mix(v, m[2], m[3], &turns);
                v[0] = _mm_shuffle_epi32::<{ order(1, 2, 3, 0) }>(v[0]);
                v[2] = _mm_shuffle_epi32::<{ order(3, 0, 1, 2) }>(v[2]);
                v[3] = _mm_shuffle_epi32::<{ order(2, 3, 0, 1) }>(v[3]);
                if round + 1 < ROUNDS {
                    m = permute(m);
                }
            }
            v
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn halves(words: &[u32; 8]) -> [V; 2] {
            let (halves, _) = words.as_chunks::<4>();
            [from_words(&halves[0]), from_words(&halves[1])]
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn last_row(len: u32, counter: u64, flags: u32) -> V {
            from_words(&[counter as u32, (counter >> 32) as u32, len, flags])
        }

        /// As [`crate::backend::Backend::compress`].
        #[target_feature(enable = $features)]
        pub(crate) fn compress(node: &Node) -> [u32; 16] {
            let h = halves(&node.cv);
            let row = last_row(node.len, node.counter, node.flags);
            let [a, b, c, d] = rounds(h, &node.block, row);
            let mut bytes = [0; BLOCK_LEN];
            let out = [xor(a, c), xor(b, d), xor(c, h[0]), xor(d, h[1])];
            for (part, words) in out.into_iter().enumerate() {
                store_at(words, part, &mut bytes);
            }
            let mut words = [0; 16];
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*bytes);
            }
            words
        }

        /// Whole blocks that follow each other, the value kept in registers.
        #[inline]
        #[target_feature(enable = $features)]
        fn blocks(mut h: [V; 2], blocks: &[[u8; BLOCK_LEN]], counter: u64, flags: u32) -> [V; 2] {
            let mut start = CHUNK_START;
            for block in blocks {
                let row = last_row(BLOCK_LEN as u32, counter, flags | start);
                let [a, b, c, d] = rounds(h, block, row);
                h = [xor(a, c), xor(b, d)];
                start = 0;
            }
            h
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn bytes_of(h: [V; 2]) -> Cv {
            let mut out = [0; 32];
            store_at(h[0], 0, &mut out);
            store_at(h[1], 1, &mut out);
            out
        }

        /// As [`crate::backend::Backend::chunk_start`].
        #[target_feature(enable = $features)]
        pub(crate) fn chunk_start(
            mode: &Mode,
            whole: &[[u8; BLOCK_LEN]],
            counter: u64,
        ) -> [u32; 8] {
            let bytes = bytes_of(blocks(halves(mode.key()), whole, counter, mode.flags()));
            let mut words = [0; 8];
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*bytes);
            }
            words
        }

        /// The value of one chunk.
        #[target_feature(enable = $features)]
        pub(crate) fn chunk(mode: &Mode, lane: &Lane<'_>) -> Cv {
            let (whole, tail) = split_last_block(lane.bytes);
            let h = blocks(halves(mode.key()), whole, lane.counter, mode.flags());
            let start = if whole.is_empty() { CHUNK_START } else { 0 };
            let flags = mode.flags() | start | CHUNK_END | lane.end;
            let row = last_row(tail.len() as u32, lane.counter, flags);
            let [a, b, c, d] = match tail.try_into() {
                Ok(block) => rounds(h, block, row),
                Err(_) => rounds(h, &padded(tail), row),
            };
            bytes_of([xor(a, c), xor(b, d)])
        }

        /// The value of one parent.
        #[target_feature(enable = $features)]
        pub(crate) fn parent(mode: &Mode, pair: &[Cv; 2], flags: u32) -> Cv {
            let (blocks, _) = pair.as_flattened().as_chunks();
            let row = last_row(BLOCK_LEN as u32, 0, flags);
            let [a, b, c, d] = rounds(halves(mode.key()), &blocks[0], row);
            bytes_of([xor(a, c), xor(b, d)])
        }
    };
}

pub(super) use row_kernels;
