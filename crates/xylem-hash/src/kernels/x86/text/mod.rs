//! Kernels as assembly text, made by assembler macros. The compiler spills registers when states fill all of them,
//! orders instructions for other processors, and takes long over both.
//!
//! `rows` and `lanes` are for SSE4.1 and AVX2 (`rows` for AVX-512VL too), `batch`, `chunks` and `output` for AVX-512.
//! This module has what they share: constants, steps of AVX-512's states (`xylem_z_`), and common instruction names
//! that stand for those of SSE, AVX or AVX-512 (`xylem_2` for two operands, and so on).
//!
//! All macro names share one table in a compilation. They have this crate's prefix, and a text undefines what it
//! defines, as another version of the crate may be in the same program.

use crate::constants::{BLOCK_LEN, IV, ROUNDS, SCHEDULE};

/// The constants that the texts read.
#[repr(C, align(64))]
struct Constants {
    /// Byte shuffles that rotate words right by 16 and by 8.
    right: [[[u8; 4]; 8]; 2],
    /// The third row of the initial state.
    iv: [[u32; 4]; 4],
    /// Offsets of the words of each round among vectors of sixteen bytes.
    places: [[u16; 16]; ROUNDS],
    /// The length of a block.
    full: [u32; 8],
    /// Offsets of the lanes' counters from the first one's; of two times eight lanes.
    steps: [[u32; 16]; 2],
    /// Indices of words for AVX-512's permutations: for the columns of a round, then for its diagonals, the first and
    /// the second words. The diagonals' rows are rotated so that they begin with the last one.
    one: [[[u32; 8]; 2]; ROUNDS],
    /// As `one`, for two messages side by side.
    two: [[[u32; 16]; 2]; ROUNDS],
    /// Offsets of the words of each round in a block.
    in_block: [[u8; 16]; ROUNDS],
}

static CONSTANTS: Constants = {
    const PLACES: [[usize; 8]; 2] = [[0, 2, 4, 6, 1, 3, 5, 7], [14, 8, 10, 12, 15, 9, 11, 13]];
    let iv = [[IV[0], IV[1], IV[2], IV[3]]; 4];
    let mut all = Constants {
        right: [[[0; 4]; 8]; 2],
        iv,
        places: [[0; 16]; ROUNDS],
        in_block: [[0; 16]; ROUNDS],
        full: [BLOCK_LEN as u32; 8],
        steps: [[0; 16]; 2],
        one: [[[0; 8]; 2]; ROUNDS],
        two: [[[0; 16]; 2]; ROUNDS],
    };
    let mut i = 0;
    while i < 8 {
        let from = 4 * (i % 4) as u8;
        all.right[0][i] = [from + 2, from + 3, from, from + 1];
        all.right[1][i] = [from + 1, from + 2, from + 3, from];
        i += 1;
    }
    i = 0;
    while i < 16 {
        (all.steps[0][i], all.steps[1][i]) = (i as u32, i as u32 % 8);
        i += 1;
    }
    i = 0;
    while i < 16 * ROUNDS {
        let (round, half, place) = (i / 16, i / 8 % 2, i % 8);
        all.in_block[round][i % 16] = 4 * SCHEDULE[round][i % 16] as u8;
        all.places[round][i % 16] = 16 * SCHEDULE[round][i % 16] as u16;
        let word = SCHEDULE[round][PLACES[half][place]];
        all.one[round][half][place] = word;
        let place = place / 4 * 8 + place % 4;
        all.two[round][half][place] = word;
        all.two[round][half][place + 4] = word + 16;
        i += 1;
    }
    all
};

/// Steps of states of vectors `v` in 32 registers: registers 0 to 15 are the first state, row by row, 16 to 31 the
/// second. A kernel defines what `xylem_z_word v set r word` adds.
macro_rules! wide {
    () => {
        r#"
        .macro xylem_z_four op v t0 t1 t2 t3 w0 w1 w2 w3
        \op \v\t0, \v\t0, \v\w0
        \op \v\t1, \v\t1, \v\w1
        \op \v\t2, \v\t2, \v\w2
        \op \v\t3, \v\t3, \v\w3
        .endm
        .macro xylem_z_right v r0 r1 r2 r3 count
        vprord \v\r0, \v\r0, \count
        vprord \v\r1, \v\r1, \count
        vprord \v\r2, \v\r2, \count
        vprord \v\r3, \v\r3, \count
        .endm
        .macro xylem_z_steps set half v a0 a1 a2 a3 b0 b1 b2 b3 c0 c1 c2 c3 d0 d1 d2 d3
        .macro xylem_z_words_\set\half w0 w1 w2 w3
        xylem_z_word \v, \set, \a0, \w0
        xylem_z_word \v, \set, \a1, \w1
        xylem_z_word \v, \set, \a2, \w2
        xylem_z_word \v, \set, \a3, \w3
        .endm
        .macro xylem_z_ab_\set\half
        xylem_z_four vpaddd, \v, \a0, \a1, \a2, \a3, \b0, \b1, \b2, \b3
        .endm
        .macro xylem_z_da_\set\half
        xylem_z_four vpxord, \v, \d0, \d1, \d2, \d3, \a0, \a1, \a2, \a3
        .endm
        .macro xylem_z_cd_\set\half
        xylem_z_four vpaddd, \v, \c0, \c1, \c2, \c3, \d0, \d1, \d2, \d3
        .endm
        .macro xylem_z_bc_\set\half
        xylem_z_four vpxord, \v, \b0, \b1, \b2, \b3, \c0, \c1, \c2, \c3
        .endm
        .macro xylem_z_d_\set\half count
        xylem_z_right \v, \d0, \d1, \d2, \d3, \count
        .endm
        .macro xylem_z_b_\set\half count
        xylem_z_right \v, \b0, \b1, \b2, \b3, \count
        .endm
        .endm
        .macro xylem_z_states v
        xylem_z_steps 0, 0, \v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        xylem_z_steps 0, 1, \v, 0, 1, 2, 3, 5, 6, 7, 4, 10, 11, 8, 9, 15, 12, 13, 14
        xylem_z_steps 1, 0, \v, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
        xylem_z_steps 1, 1, \v, 16, 17, 18, 19, 21, 22, 23, 20, 26, 27, 24, 25, 31, 28, 29, 30
        .endm
        .macro xylem_z_half set half beside x0 x1 x2 x3 y0 y1 y2 y3
        xylem_z_words_\set\half \x0, \x1, \x2, \x3
        \beside 0, \half
        xylem_z_ab_\set\half
        \beside 1, \half
        xylem_z_da_\set\half
        \beside 2, \half
        xylem_z_d_\set\half 16
        \beside 3, \half
        xylem_z_cd_\set\half
        \beside 4, \half
        xylem_z_bc_\set\half
        \beside 5, \half
        xylem_z_b_\set\half 12
        \beside 6, \half
        xylem_z_words_\set\half \y0, \y1, \y2, \y3
        \beside 7, \half
        xylem_z_ab_\set\half
        \beside 8, \half
        xylem_z_da_\set\half
        \beside 9, \half
        xylem_z_d_\set\half 8
        \beside 10, \half
        xylem_z_cd_\set\half
        \beside 11, \half
        xylem_z_bc_\set\half
        \beside 12, \half
        xylem_z_b_\set\half 7
        \beside 13, \half
        .endm
        .macro xylem_z_one set beside x0 y0 x1 y1 x2 y2 x3 y3 x4 y4 x5 y5 x6 y6 x7 y7
        xylem_z_half \set, 0, "\beside", \x0, \x1, \x2, \x3, \y0, \y1, \y2, \y3
        xylem_z_half \set, 1, "\beside", \x4, \x5, \x6, \x7, \y4, \y5, \y6, \y7
        .endm
        .macro xylem_z_halves half u0 u1 u2 u3 v0 v1 v2 v3 x0 x1 x2 x3 y0 y1 y2 y3
        xylem_z_words_0\half \u0, \u1, \u2, \u3
        xylem_z_words_1\half \x0, \x1, \x2, \x3
        xylem_z_ab_0\half
        xylem_z_ab_1\half
        xylem_z_da_0\half
        xylem_z_da_1\half
        xylem_z_d_0\half 16
        xylem_z_d_1\half 16
        xylem_z_cd_0\half
        xylem_z_cd_1\half
        xylem_z_bc_0\half
        xylem_z_bc_1\half
        xylem_z_b_0\half 12
        xylem_z_b_1\half 12
        xylem_z_words_0\half \v0, \v1, \v2, \v3
        xylem_z_words_1\half \y0, \y1, \y2, \y3
        xylem_z_ab_0\half
        xylem_z_ab_1\half
        xylem_z_da_0\half
        xylem_z_da_1\half
        xylem_z_d_0\half 8
        xylem_z_d_1\half 8
        xylem_z_cd_0\half
        xylem_z_cd_1\half
        xylem_z_bc_0\half
        xylem_z_bc_1\half
        xylem_z_b_0\half 7
        xylem_z_b_1\half 7
        .endm
        .macro xylem_z_both u0 v0 u1 v1 u2 v2 u3 v3 u4 v4 u5 v5 u6 v6 u7 v7 x0 y0 x1 y1 x2 y2 x3 y3 x4 y4 x5 y5 x6 y6 x7 y7
        xylem_z_halves 0, \u0, \u1, \u2, \u3, \v0, \v1, \v2, \v3, \x0, \x1, \x2, \x3, \y0, \y1, \y2, \y3
        xylem_z_halves 1, \u4, \u5, \u6, \u7, \v4, \v5, \v6, \v7, \x4, \x5, \x6, \x7, \y4, \y5, \y6, \y7
        .endm
        .macro xylem_z_nothing k half
        .endm
        .macro xylem_z_0 name rest:vararg
        \name \rest, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        .endm
        .macro xylem_z_1 name rest:vararg
        \name \rest, 2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8
        .endm
        .macro xylem_z_2 name rest:vararg
        \name \rest, 3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1
        .endm
        .macro xylem_z_3 name rest:vararg
        \name \rest, 10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6
        .endm
        .macro xylem_z_4 name rest:vararg
        \name \rest, 12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4
        .endm
        .macro xylem_z_5 name rest:vararg
        \name \rest, 9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7
        .endm
        .macro xylem_z_6 name rest:vararg
        \name \rest, 11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13
        .endm
        .macro xylem_z_pairs_of_words v t0 t1 t2 t3 a b c d
        vpunpckldq \v\t0, \v\a, \v\b
        vpunpckhdq \v\t1, \v\a, \v\b
        vpunpckldq \v\t2, \v\c, \v\d
        vpunpckhdq \v\t3, \v\c, \v\d
        .endm
        .macro xylem_z_fours_of_words v a b c d t0 t1 t2 t3
        vpunpcklqdq \v\a, \v\t0, \v\t2
        vpunpckhqdq \v\b, \v\t0, \v\t2
        vpunpcklqdq \v\c, \v\t1, \v\t3
        vpunpckhqdq \v\d, \v\t1, \v\t3
        .endm
        .macro xylem_z_put_one v to r
        vmovdqu32 [\to], xmm\r
        vextracti32x4 [\to+128], ymm\r, 1
        .ifc \v, zmm
        vextracti32x4 [\to+256], zmm\r, 2
        vextracti32x4 [\to+384], zmm\r, 3
        .endif
        .endm
        .macro xylem_z_put v to a b c d t0 t1 t2 t3
        xylem_z_four vpxord, \v, \a, \b, \c, \d, \t0, \t1, \t2, \t3
        xylem_z_pairs_of_words \v, \t0, \t1, \t2, \t3, \a, \b, \c, \d
        xylem_z_fours_of_words \v, \a, \b, \c, \d, \t0, \t1, \t2, \t3
        xylem_z_put_one \v, \to, \a
        xylem_z_put_one \v, \to+32, \b
        xylem_z_put_one \v, \to+64, \c
        xylem_z_put_one \v, \to+96, \d
        .endm
        "#
    };
    (end) => {
        r"
        .irp name, xylem_z_four, xylem_z_right, xylem_z_steps, xylem_z_states, xylem_z_half, xylem_z_one, xylem_z_halves, xylem_z_both, xylem_z_nothing, xylem_z_word
        .purgem \name
        .endr
        .irp name, xylem_z_words, xylem_z_ab, xylem_z_da, xylem_z_cd, xylem_z_bc, xylem_z_d, xylem_z_b
        .irp state, 00, 01, 10, 11
        .purgem \name\()_\state
        .endr
        .endr
        .irp name, xylem_z_0, xylem_z_1, xylem_z_2, xylem_z_3, xylem_z_4, xylem_z_5, xylem_z_6, xylem_z_pairs_of_words, xylem_z_fours_of_words, xylem_z_put_one, xylem_z_put
        .purgem \name
        .endr
        "
    };
}

/// Counters of sixteen lanes: lower halves get their steps, upper halves the carries.
macro_rules! count {
    () => {
        r"
        .macro xylem_z_count low high steps
        vmovdqa64 zmm30, zmm\low
        vpaddd zmm\low, zmm\low, [{k}+\steps]
        vpcmpltud k1, zmm\low, zmm30
        vpaddd zmm\high {{k1}}, zmm\high, dword ptr [{k}+{STEPS}+4]{{1to16}}
        .endm
        "
    };
    (end) => {
        "\n.purgem xylem_z_count\n"
    };
}

/// Common names for SSE instructions, which have the first operand as the target: `xylem_2 op to with`, `xylem_3 op to
/// a b`, and with a number at the end.
macro_rules! sse {
    () => {
        r"
        .macro xylem_2 op d s
        \op \d, \s
        .endm
        .macro xylem_3 op d a b
        movdqa \d, \a
        \op \d, \b
        .endm
        .macro xylem_i op d s i
        \op \d, \s, \i
        .endm
        .macro xylem_2i op d s i
        \op \d, \s, \i
        .endm
        .macro xylem_3i op d a b i
        movdqa \d, \a
        \op \d, \b, \i
        .endm
        .macro xylem_mv d s
        movdqa \d, \s
        .endm
        .macro xylem_ld d s
        movdqu \d, \s
        .endm
        .macro xylem_st d s
        movdqu \d, \s
        .endm
        .macro xylem_q d s
        movq \d, \s
        .endm
        .macro xylem_blend d a b word
        movdqa \d, \a
        pblendw \d, \b, 3<<(2*\word)
        .endm
        .macro xylem_right_one r t count
        .if (\count == 16) || (\count == 8)
        pshufb \r, [{k}+(16-\count)*4]
        .else
        movdqa \t, \r
        psrld \t, \count
        pslld \r, 32-\count
        por \r, \t
        .endif
        .endm
        "
    };
    (end) => {
        r"
        .irp name, xylem_2, xylem_3, xylem_i, xylem_2i, xylem_3i, xylem_mv, xylem_ld, xylem_st, xylem_q, xylem_blend, xylem_right_one
        .purgem \name
        .endr
        "
    };
}

/// The same names for AVX instructions, which have a separate target.
macro_rules! vex {
    (plain) => {
        r"
        .macro xylem_2 op d s
        v\op \d, \d, \s
        .endm
        .macro xylem_3 op d a b
        v\op \d, \a, \b
        .endm
        .macro xylem_i op d s i
        v\op \d, \s, \i
        .endm
        .macro xylem_2i op d s i
        v\op \d, \d, \s, \i
        .endm
        .macro xylem_3i op d a b i
        v\op \d, \a, \b, \i
        .endm
        .macro xylem_mv d s
        vmovdqa \d, \s
        .endm
        .macro xylem_ld d s
        vmovdqu \d, \s
        .endm
        .macro xylem_st d s
        vmovdqu \d, \s
        .endm
        .macro xylem_q d s
        vmovq \d, \s
        .endm
        .macro xylem_blend d a b word
        vpblendd \d, \a, \b, 0x11<<\word
        .endm
        "
    };
    () => {
        concat!(
            vex!(plain),
            r"
            .macro xylem_right_one r t count
            .if (\count == 16) || (\count == 8)
            vpshufb \r, \r, [{k}+(16-\count)*4]
            .else
            vpsrld \t, \r, \count
            vpslld \r, \r, 32-\count
            vpor \r, \r, \t
            .endif
            .endm
            "
        )
    };
    (end) => {
        sse!(end)
    };
}

/// The same names for AVX-512, which has a rotate instruction.
macro_rules! evex {
    () => {
        concat!(
            vex!(plain),
            r"
            .macro xylem_right_one r t count
            vprord \r, \r, \count
            .endm
            "
        )
    };
    (end) => {
        sse!(end)
    };
}

mod batch;
mod chunks;
mod lanes;
mod output;
#[macro_use]
mod rounds;
mod rows;

pub(super) use batch::{eight, sixteen};
pub(super) use chunks::chunks;
pub(super) use lanes::{avx2_blocks, avx2_eight, sse_blocks, sse_four};
pub(super) use output::{sixteen_blocks, thirty_two_blocks};
pub(super) use rows::{
    avx2_four, avx2_one, avx2_two, avx512_four, avx512_one, avx512_two, avx512_two_pairs, sse_one,
};
