//! Kernels of AVX-512 as assembly text, made by macros: the compiler spills registers where a state
//! and what is transposed beside it fill all 32 of them, and orders instructions by what it knows of
//! other processors.
//!
//! The words of a block lie in memory, transposed: vector i has word i of every lane.

use crate::constants::{BLOCK_LEN, IV, ROUNDS, SCHEDULE};

/// What the texts read.
#[repr(C, align(64))]
struct Constants {
    /// Byte shuffles that turn words right by 16 and by 8.
    right: [[[u8; 4]; 8]; 2],
    /// The third row.
    iv: [[u32; 4]; 4],
    /// Where the words of each round lie among vectors of sixteen bytes.
    places: [[u16; 16]; ROUNDS],
    /// The length of a block.
    full: [u32; 8],
    /// Numbers of words for AVX-512's permutations: for the columns of a round, then for its diagonals,
    /// what is taken first and what second. The diagonals' rows are turned so that they begin with the
    /// last one.
    one: [[[u32; 8]; 2]; ROUNDS],
    /// The same for two messages side by side.
    two: [[[u32; 16]; 2]; ROUNDS],
}

static CONSTANTS: Constants = {
    const PLACES: [[usize; 8]; 2] = [[0, 2, 4, 6, 1, 3, 5, 7], [14, 8, 10, 12, 15, 9, 11, 13]];
    let iv = [[IV[0], IV[1], IV[2], IV[3]]; 4];
    let mut all = Constants {
        right: [[[0; 4]; 8]; 2],
        iv,
        places: [[0; 16]; ROUNDS],
        full: [BLOCK_LEN as u32; 8],
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
    while i < 16 * ROUNDS {
        let (round, half, place) = (i / 16, i / 8 % 2, i % 8);
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

/// One instruction of three registers.
macro_rules! op {
    ($op:literal $v:tt $to:tt $a:tt $b:tt) => {
        concat!($op, " ", $v, $to, ", ", $v, $a, ", ", $v, $b, "\n")
    };
}

/// The same instruction for the four columns: `$to` becomes what it makes of `$to` and `$with`.
macro_rules! four {
    ($op:literal $v:tt [$t0:tt $t1:tt $t2:tt $t3:tt] [$w0:tt $w1:tt $w2:tt $w3:tt]) => {
        concat!(
            op!($op $v $t0 $t0 $w0),
            op!($op $v $t1 $t1 $w1),
            op!($op $v $t2 $t2 $w2),
            op!($op $v $t3 $t3 $w3)
        )
    };
}

macro_rules! right {
    ($count:literal $v:tt [$($r:tt)*]) => {
        concat!($("vprord ", $v, $r, ", ", $v, $r, ", ", $count, "\n"),*)
    };
}

/// Adds words of a block, transposed, that begins at `$m`; or where all lanes have the same block, of
/// that.
macro_rules! add_words {
    ("zmm" (same $m:tt) [$($r:tt)*] [$($x:tt)*]) => {
        concat!($("vpaddd zmm", $r, ", zmm", $r, ", dword ptr [", $m, " + 4*", $x, "]{{1to16}}\n"),*)
    };
    ("zmm" $m:tt [$($r:tt)*] [$($x:tt)*]) => {
        concat!($("vpaddd zmm", $r, ", zmm", $r, ", [", $m, " + 64*", $x, "]\n"),*)
    };
    ("ymm" $m:tt [$($r:tt)*] [$($x:tt)*]) => {
        concat!($("vpaddd ymm", $r, ", ymm", $r, ", [", $m, " + 32*", $x, "]\n"),*)
    };
}

/// `in_round!(round f! arguments)` is `f!([words of the round in order] arguments)`.
macro_rules! in_round {
    (0 $f:ident! $($more:tt)*) => { $f!([0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15] $($more)*) };
    (1 $f:ident! $($more:tt)*) => { $f!([2 6 3 10 7 0 4 13 1 11 12 5 9 14 15 8] $($more)*) };
    (2 $f:ident! $($more:tt)*) => { $f!([3 4 10 12 13 2 7 14 6 5 9 0 11 15 8 1] $($more)*) };
    (3 $f:ident! $($more:tt)*) => { $f!([10 7 12 9 14 3 13 15 4 0 11 2 5 8 1 6] $($more)*) };
    (4 $f:ident! $($more:tt)*) => { $f!([12 13 9 11 15 10 14 8 7 2 5 3 0 1 6 4] $($more)*) };
    (5 $f:ident! $($more:tt)*) => { $f!([9 14 11 5 8 12 15 1 13 3 0 10 2 6 4 7] $($more)*) };
    (6 $f:ident! $($more:tt)*) => { $f!([11 15 5 0 1 9 8 6 14 10 2 12 3 4 7 13] $($more)*) };
}

/// One of the fourteen steps of a half round, for its four columns at once: of vectors of this name,
/// a block at this place, rows of the state, words. The sum of `a` and the
/// word comes first, because `b` is what everybody waits for.
macro_rules! step {
    (0 [$v:tt $m:tt $a:tt $b:tt $c:tt $d:tt $x:tt $y:tt]) => { add_words!($v $m $a $x) };
    (1 [$v:tt $m:tt $a:tt $b:tt $c:tt $d:tt $x:tt $y:tt]) => { four!("vpaddd" $v $a $b) };
    (2 [$v:tt $m:tt $a:tt $b:tt $c:tt $d:tt $x:tt $y:tt]) => { four!("vpxord" $v $d $a) };
    (3 [$v:tt $m:tt $a:tt $b:tt $c:tt $d:tt $x:tt $y:tt]) => { right!(16 $v $d) };
    (4 [$v:tt $m:tt $a:tt $b:tt $c:tt $d:tt $x:tt $y:tt]) => { four!("vpaddd" $v $c $d) };
    (5 [$v:tt $m:tt $a:tt $b:tt $c:tt $d:tt $x:tt $y:tt]) => { four!("vpxord" $v $b $c) };
    (6 [$v:tt $m:tt $a:tt $b:tt $c:tt $d:tt $x:tt $y:tt]) => { right!(12 $v $b) };
    (7 [$v:tt $m:tt $a:tt $b:tt $c:tt $d:tt $x:tt $y:tt]) => { add_words!($v $m $a $y) };
    (8 $half:tt) => { step!(1 $half) };
    (9 $half:tt) => { step!(2 $half) };
    (10 [$v:tt $m:tt $a:tt $b:tt $c:tt $d:tt $x:tt $y:tt]) => { right!(8 $v $d) };
    (11 $half:tt) => { step!(4 $half) };
    (12 $half:tt) => { step!(5 $half) };
    (13 [$v:tt $m:tt $a:tt $b:tt $c:tt $d:tt $x:tt $y:tt]) => { right!(7 $v $b) };
}

/// A half round, and another text after each of its steps.
macro_rules! half_round {
    ($half:tt; $e0:expr, $e1:expr, $e2:expr, $e3:expr, $e4:expr, $e5:expr, $e6:expr,
     $e7:expr, $e8:expr, $e9:expr, $e10:expr, $e11:expr, $e12:expr, $e13:expr) => { concat!(
        step!(0 $half), $e0, step!(1 $half), $e1, step!(2 $half), $e2, step!(3 $half), $e3,
        step!(4 $half), $e4, step!(5 $half), $e5, step!(6 $half), $e6, step!(7 $half), $e7,
        step!(8 $half), $e8, step!(9 $half), $e9, step!(10 $half), $e10, step!(11 $half), $e11,
        step!(12 $half), $e12, step!(13 $half), $e13
    ) };
    ($half:tt beside $other:tt) => { half_round!($half;
        step!(0 $other), step!(1 $other), step!(2 $other), step!(3 $other), step!(4 $other),
        step!(5 $other), step!(6 $other), step!(7 $other), step!(8 $other), step!(9 $other),
        step!(10 $other), step!(11 $other), step!(12 $other), step!(13 $other)
    ) };
}

/// The first half of exchanging rows and columns of the 4 by 4 matrix of words in each quarter.
macro_rules! words {
    ($v:tt $t0:tt $t1:tt $t2:tt $t3:tt, $a:tt $b:tt $c:tt $d:tt) => { concat!(
        op!("vpunpckldq" $v $t0 $a $b), op!("vpunpckhdq" $v $t1 $a $b),
        op!("vpunpckldq" $v $t2 $c $d), op!("vpunpckhdq" $v $t3 $c $d)
    ) };
}

/// The second half, of what the first one made.
macro_rules! pairs {
    ($v:tt $a:tt $b:tt $c:tt $d:tt, $t0:tt $t1:tt $t2:tt $t3:tt) => { concat!(
        op!("vpunpcklqdq" $v $a $t0 $t2), op!("vpunpckhqdq" $v $b $t0 $t2),
        op!("vpunpcklqdq" $v $c $t1 $t3), op!("vpunpckhqdq" $v $d $t1 $t3)
    ) };
}

/// The values of a state's lanes from `$out` on, four words of four lanes at a time.
macro_rules! put {
    ($v:tt $out:tt $half:tt [$a:tt $b:tt $c:tt $d:tt] [$t0:tt $t1:tt $t2:tt $t3:tt]) => { concat!(
        words!($v $t0 $t1 $t2 $t3, $a $b $c $d),
        pairs!($v $a $b $c $d, $t0 $t1 $t2 $t3),
        put!(@ $v $out $half 0 $a), put!(@ $v $out $half 1 $b),
        put!(@ $v $out $half 2 $c), put!(@ $v $out $half 3 $d)
    ) };
    (@ "zmm" $out:tt $half:tt $row:tt $r:tt) => { concat!(
        put!(@ "ymm" $out $half $row $r),
        "vextracti32x4 [", $out, " + 32*", $row, " + 16*", $half, " + 256], zmm", $r, ", 2\n",
        "vextracti32x4 [", $out, " + 32*", $row, " + 16*", $half, " + 384], zmm", $r, ", 3\n"
    ) };
    (@ "ymm" $out:tt $half:tt $row:tt $r:tt) => { concat!(
        "vmovdqu32 [", $out, " + 32*", $row, " + 16*", $half, "], xmm", $r, "\n",
        "vextracti32x4 [", $out, " + 32*", $row, " + 16*", $half, " + 128], ymm", $r, ", 1\n"
    ) };
}

/// Instructions by their names in SSE, in which a first operand is also the target; `x2 op to with`,
/// `x3 op to a b`, and with a number in the end.
macro_rules! sse {
    () => {
        r"
        .macro x2 op d s
        \op \d, \s
        .endm
        .macro x3 op d a b
        movdqa \d, \a
        \op \d, \b
        .endm
        .macro xi op d s i
        \op \d, \s, \i
        .endm
        .macro x2i op d s i
        \op \d, \s, \i
        .endm
        .macro x3i op d a b i
        movdqa \d, \a
        \op \d, \b, \i
        .endm
        .macro xmv d s
        movdqa \d, \s
        .endm
        .macro xld d s
        movdqu \d, \s
        .endm
        .macro xst d s
        movdqu \d, \s
        .endm
        .macro xq d s
        movq \d, \s
        .endm
        .macro xblend d a b word
        movdqa \d, \a
        pblendw \d, \b, 3<<(2*\word)
        .endm
        .macro x_right_one r t count
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
        .irp name, x2, x3, xi, x2i, x3i, xmv, xld, xst, xq, xblend, x_right_one
        .purgem \name
        .endr
        "
    };
}

/// The same names for instructions of AVX, whose target is apart.
macro_rules! vex {
    (plain) => {
        r"
        .macro x2 op d s
        v\op \d, \d, \s
        .endm
        .macro x3 op d a b
        v\op \d, \a, \b
        .endm
        .macro xi op d s i
        v\op \d, \s, \i
        .endm
        .macro x2i op d s i
        v\op \d, \d, \s, \i
        .endm
        .macro x3i op d a b i
        v\op \d, \a, \b, \i
        .endm
        .macro xmv d s
        vmovdqa \d, \s
        .endm
        .macro xld d s
        vmovdqu \d, \s
        .endm
        .macro xst d s
        vmovdqu \d, \s
        .endm
        .macro xq d s
        vmovq \d, \s
        .endm
        .macro xblend d a b word
        vpblendd \d, \a, \b, 0x11<<\word
        .endm
        "
    };
    () => {
        concat!(
            vex!(plain),
            r"
            .macro x_right_one r t count
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

/// The same names, where there is an instruction that rotates.
macro_rules! evex {
    () => {
        concat!(
            vex!(plain),
            r"
            .macro x_right_one r t count
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
mod rows;

pub(super) use batch::{eight, sixteen};
pub(super) use chunks::chunks;
pub(super) use lanes::{avx2_blocks, avx2_eight, sse_blocks, sse_four};
pub(super) use output::{sixteen_blocks, thirty_two_blocks};
pub(super) use rows::{
    avx2_four, avx2_one, avx2_two, avx512_four, avx512_one, avx512_two, sse_one,
};
