//! Four lanes of SSE4.1 and eight of AVX2: a state in twelve of 16 registers, with its third row in memory when four
//! more registers are needed for sums and rotations.
//!
//! Registers 0 to 3 are `a`, 4 to 7 `b`, 8 to 11 `d`, 12 to 15 free.

use core::arch::asm;
use core::mem::{MaybeUninit, offset_of};

use super::{CONSTANTS, Constants};
use crate::backend::Node;
use crate::batch::Batch;
use crate::constants::{BLOCK_LEN, CHUNK_LEN};

/// The memory of the texts; vectors of four words use the first half.
#[repr(C, align(64))]
struct Frame {
    /// The words of a block, transposed.
    words: MaybeUninit<[[u32; 8]; 16]>,
    /// The third row of the state.
    c: MaybeUninit<[[u32; 8]; 4]>,
    /// Lower and upper halves of the counters of output.
    counters: [[u32; 8]; 2],
}

/// A half round in two parts, each of which adds a word to every column; all rounds; and the transpositions from lines
/// to columns.
macro_rules! lanes {
    () => {
        r"
        .macro xylem_four op v t0 t1 t2 t3 s0 s1 s2 s3
        xylem_2 \op, \v\t0, \v\s0
        xylem_2 \op, \v\t1, \v\s1
        xylem_2 \op, \v\t2, \v\s2
        xylem_2 \op, \v\t3, \v\s3
        .endm
        .macro xylem_column v first second a b c d word t
        xylem_word \v\a, \word
        xylem_2 paddd, \v\a, \v\b
        xylem_2 pxor, \v\d, \v\a
        xylem_right_one \v\d, \v\t, \first
        .if \c < 2
        xylem_3 paddd, \v\t, \v\d, [{frame}+{C}+{B}*\c]
        xylem_mv [{frame}+{C}+{B}*\c], \v\t
        xylem_2 pxor, \v\b, \v\t
        .else
        xylem_2 paddd, \v\()1\c, \v\d
        xylem_2 pxor, \v\b, \v\()1\c
        .endif
        xylem_right_one \v\b, \v\t, \second
        .endm
        .macro xylem_part v first second b0 b1 b2 b3 c0 c1 c2 c3 d0 d1 d2 d3 w0 w1 w2 w3
        xylem_column \v, \first, \second, 0, \b0, \c0, \d0, \w0, 14
        xylem_column \v, \first, \second, 1, \b1, \c1, \d1, \w1, 15
        xylem_column \v, \first, \second, 2, \b2, \c2, \d2, \w2, 14
        xylem_column \v, \first, \second, 3, \b3, \c3, \d3, \w3, 15
        .endm
        .macro xylem_round v w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15
        xylem_part \v, 16, 12, 4, 5, 6, 7, 0, 1, 2, 3, 8, 9, 10, 11, \w0, \w2, \w4, \w6
        xylem_part \v, 8, 7, 4, 5, 6, 7, 0, 1, 2, 3, 8, 9, 10, 11, \w1, \w3, \w5, \w7
        xylem_part \v, 16, 12, 5, 6, 7, 4, 2, 3, 0, 1, 11, 8, 9, 10, \w8, \w10, \w12, \w14
        xylem_part \v, 8, 7, 5, 6, 7, 4, 2, 3, 0, 1, 11, 8, 9, 10, \w9, \w11, \w13, \w15
        .endm
        .macro xylem_third_row v
        .irp i, 0, 1
        xylem_splat \v, 12, {k}+64+4*\i
        xylem_mv [{frame}+{C}+{B}*\i], \v\()12
        .endr
        xylem_splat \v, 12, {k}+64+8
        xylem_splat \v, 13, {k}+64+12
        .endm
        .macro xylem_exchange v a b c d t0 t1
        xylem_3 punpckldq, \v\t0, \v\a, \v\b
        xylem_2 punpckhdq, \v\a, \v\b
        xylem_3 punpckldq, \v\t1, \v\c, \v\d
        xylem_2 punpckhdq, \v\c, \v\d
        xylem_3 punpcklqdq, \v\b, \v\t0, \v\t1
        xylem_2 punpckhqdq, \v\t0, \v\t1
        xylem_3 punpcklqdq, \v\d, \v\a, \v\c
        xylem_2 punpckhqdq, \v\a, \v\c
        .endm
        .macro xylem_put v to apart a b c d t
        xylem_exchange \v, \a, \b, \c, \d, \t, 13
        xylem_store \b, \to, \apart
        xylem_store \t, \to+\apart, \apart
        xylem_store \d, \to+2*\apart, \apart
        xylem_store \a, \to+3*\apart, \apart
        .endm
        "
    };
    (end) => {
        r"
        .irp name, xylem_four, xylem_column, xylem_part, xylem_round, xylem_third_row, xylem_exchange, xylem_put
        .purgem \name
        .endr
        .irp name, xylem_word, xylem_all_rounds, xylem_splat, xylem_store, xylem_join, xylem_line, xylem_leave
        .purgem \name
        .endr
        "
    };
}

/// Unrolled rounds: words at fixed places, more text.
macro_rules! in_a_row {
    () => {
        r"
        .macro xylem_word r word
        xylem_2 paddd, \r, [{frame}+{B}*\word]
        .endm
        .macro xylem_all_rounds v
        xylem_round \v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        xylem_round \v, 2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8
        xylem_round \v, 3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1
        xylem_round \v, 10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6
        xylem_round \v, 12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4
        xylem_round \v, 9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7
        xylem_round \v, 11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13
        .endm
        "
    };
}

/// Rounds in a loop: words at places from a table.
macro_rules! looped {
    () => {
        r"
        .macro xylem_word r word
        movzx {place:e}, word ptr [{round}+2*\word]
        .if {B} == 16
        xylem_2 paddd, \r, [{frame}+{place}]
        .else
        xylem_2 paddd, \r, [{frame}+{place}*2]
        .endif
        .endm
        .macro xylem_all_rounds v
        lea {round}, [{k}+{PLACES}]
        .p2align 4
        7:
        xylem_round \v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        add {round}, 32
        lea {place}, [{k}+{PLACES}+224]
        cmp {round}, {place}
        jne 7b
        .endm
        "
    };
}

/// The differences between four lanes of SSE4.1 and eight of AVX2, besides the instructions: with eight, lanes 0 to 3
/// are in lower halves and 4 to 7 in upper ones.
macro_rules! xmm {
    () => {
        concat!(
            sse!(),
            r"
            .macro xylem_splat v r at
            movd xmm\r, dword ptr [\at]
            pshufd xmm\r, xmm\r, 0
            .endm
            .macro xylem_store r to apart
            movdqu [\to], xmm\r
            .endm
            .macro xylem_join r from apart
            movdqu xmm\r, [\from]
            .endm
            .macro xylem_line r lane quarter
            mov {line}, [{at}+8*\lane]
            movdqu xmm\r, [{line}+{offset}+16*\quarter]
            .if \quarter == 0
            prefetcht1 [{line}+{offset}+{AHEAD}]
            .endif
            .endm
            .macro xylem_leave
            .endm
            "
        )
    };
}

macro_rules! ymm {
    () => {
        concat!(
            vex!(),
            r"
            .macro xylem_splat v r at
            vpbroadcastd ymm\r, dword ptr [\at]
            .endm
            .macro xylem_store r to apart
            vmovdqu [\to], xmm\r
            vextracti128 [\to+4*\apart], ymm\r, 1
            .endm
            .macro xylem_join r from apart
            vmovdqu xmm\r, [\from]
            vinserti128 ymm\r, ymm\r, [\from+4*\apart], 1
            .endm
            .macro xylem_line r lane quarter
            mov {line}, [{at}+8*\lane]
            vmovdqu xmm\r, [{line}+{offset}+16*\quarter]
            .if \quarter == 0
            prefetcht1 [{line}+{offset}+{AHEAD}]
            .endif
            mov {line}, [{at}+8*\lane+32]
            vinserti128 ymm\r, ymm\r, [{line}+{offset}+16*\quarter], 1
            .if \quarter == 0
            prefetcht1 [{line}+{offset}+{AHEAD}]
            .endif
            .endm
            .macro xylem_leave
            vzeroupper
            .endm
            "
        )
    };
}

/// Makes a [`crate::batch::Run`] for vectors with these names.
macro_rules! run {
    ($(#[$doc:meta])* $name:ident $features:literal, $v:ident, $v_name:literal, $bytes:literal, $rounds:ident, [$($also:tt)*]) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The processor has the instruction set, and the pointers of `batch` are as its documentation requires.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $name(batch: &mut Batch<'_>, blocks: usize) {
            let mut frame = MaybeUninit::<Frame>::uninit();
            // SAFETY: it reads `batch`, the key if there is one, and the blocks to which the batch's pointers lead, as
            // the caller guarantees. It writes `frame` and the lanes' places at `batch.cvs`, and names every register
            // that it changes. Prefetched addresses need not be valid.
            unsafe {
                asm!(
                    $v!(), lanes!(), $rounds!(),
                    r"
                    .macro xylem_body v
                    mov {line}, [{batch}+{KEY}]
                    test {line}, {line}
                    jz 2f
                    .irp i, 0, 1, 2, 3, 4, 5, 6, 7
                    xylem_splat \v, \i, {line}+4*\i
                    .endr
                    jmp 3f
                    2:
                    mov {line}, [{batch}+{CVS}]
                    .irp half, 1, 0
                    xylem_join 12, {line}+16*\half, 32
                    xylem_join 13, {line}+16*\half+32, 32
                    xylem_join 14, {line}+16*\half+64, 32
                    xylem_join 15, {line}+16*\half+96, 32
                    xylem_exchange \v, 12, 13, 14, 15, 8, 9
                    .if \half == 1
                    xylem_mv \v\()4, \v\()13
                    xylem_mv \v\()5, \v\()8
                    xylem_mv \v\()6, \v\()15
                    xylem_mv \v\()7, \v\()12
                    .else
                    xylem_mv \v\()0, \v\()13
                    xylem_mv \v\()1, \v\()8
                    xylem_mv \v\()2, \v\()15
                    xylem_mv \v\()3, \v\()12
                    .endif
                    .endr
                    3:
                    xor {offset:e}, {offset:e}
                    lea {flags}, [{batch}+{FLAGS}]
                    4:
                    lea {at}, [{batch}+{AT}]
                    dec {left}
                    jnz 5f
                    lea {at}, [{batch}+{LAST}]
                    xor {offset:e}, {offset:e}
                    5:
                    .irp quarter, 0, 1, 2, 3
                    xylem_line 12, 0, \quarter
                    xylem_line 13, 1, \quarter
                    xylem_line 14, 2, \quarter
                    xylem_line 15, 3, \quarter
                    xylem_exchange \v, 12, 13, 14, 15, 8, 9
                    xylem_mv [{frame}+{B}*4*\quarter], \v\()13
                    xylem_mv [{frame}+{B}*4*\quarter+{B}], \v\()8
                    xylem_mv [{frame}+{B}*4*\quarter+{B}*2], \v\()15
                    xylem_mv [{frame}+{B}*4*\quarter+{B}*3], \v\()12
                    .endr
                    xylem_third_row \v
                    xylem_mv \v\()8, [{batch}+{COUNTERS}]
                    xylem_mv \v\()9, [{batch}+{COUNTERS}+64]
                    xylem_mv \v\()10, [{batch}+{ENDS}]
                    xylem_mv \v\()11, [{batch}+{ENDS}+64]
                    test {left}, {left}
                    jz 6f
                    xylem_mv \v\()10, [{k}+{FULL}]
                    xylem_splat \v, 11, {flags}
                    lea {flags}, [{batch}+{FLAGS}+4]
                    6:
                    xylem_all_rounds \v
                    xylem_2 pxor, \v\()0, [{frame}+{C}]
                    xylem_2 pxor, \v\()1, [{frame}+{C}+{B}]
                    xylem_2 pxor, \v\()2, \v\()12
                    xylem_2 pxor, \v\()3, \v\()13
                    xylem_four pxor, \v, 4, 5, 6, 7, 8, 9, 10, 11
                    add {offset}, 64
                    test {left}, {left}
                    jnz 4b
                    mov {line}, [{batch}+{CVS}]
                    xylem_put \v, {line}, 32, 0, 1, 2, 3, 12
                    xylem_put \v, {line}+16, 32, 4, 5, 6, 7, 12
                    xylem_leave
                    .endm
                    ",
                    concat!("xylem_body ", $v_name, "\n.purgem xylem_body"),
                    lanes!(end), sse!(end),
                    batch = in(reg) batch,
                    frame = in(reg) &raw mut frame,
                    k = in(reg) &CONSTANTS,
                    left = inout(reg) blocks => _,
                    line = out(reg) _,
                    at = out(reg) _,
                    flags = out(reg) _,
                    offset = out(reg) _,
                    B = const $bytes,
                    C = const offset_of!(Frame, c),
                    FULL = const offset_of!(Constants, full),
                    AHEAD = const $bytes / 4 * CHUNK_LEN,
                    CVS = const offset_of!(Batch<'_>, cvs),
                    COUNTERS = const offset_of!(Batch<'_>, counters),
                    ENDS = const offset_of!(Batch<'_>, ends),
                    AT = const offset_of!(Batch<'_>, at),
                    LAST = const offset_of!(Batch<'_>, last),
                    KEY = const offset_of!(Batch<'_>, key),
                    FLAGS = const offset_of!(Batch<'_>, flags),
                    $($also)*
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack),
                );
            }
        }
    };
}

run! {
    /// Advances the first four lanes of `batch` by that many blocks, SSE4.1.
    sse_four "sse4.1", xmm, "xmm", 16, looped, [
        round = out(reg) _,
        place = out(reg) _,
        PLACES = const offset_of!(Constants, places),
    ]
}
run! {
    /// Advances the first eight lanes of `batch` by that many blocks, AVX2.
    avx2_eight "avx2", ymm, "ymm", 32, in_a_row, []
}

/// Makes an [`crate::backend::Output`] for vectors with these names.
macro_rules! output {
    ($(#[$doc:meta])* $name:ident $features:literal, $v:ident, $v_name:literal, $bytes:literal) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The processor has the instruction set, and `out` is valid for as many blocks.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $name(node: &Node, out: *mut [u8; BLOCK_LEN]) {
            let mut counters = [[0; 8]; 2];
            for i in 0..$bytes / 4 {
                let counter = node.counter.wrapping_add(i as u64);
                (counters[0][i], counters[1][i]) = (counter as u32, (counter >> 32) as u32);
            }
            let (words, c) = (MaybeUninit::uninit(), MaybeUninit::uninit());
            let mut frame = Frame { words, c, counters };
            // SAFETY: it reads `node` and `frame`, writes `frame` and as many blocks, and names every
            // register that it changes.
            unsafe {
                asm!(
                    $v!(), lanes!(), looped!(),
                    r"
                    .macro xylem_body v
                    .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
                    xylem_splat \v, 12, {node}+{BLOCK}+4*\i
                    xylem_mv [{frame}+{B}*\i], \v\()12
                    .endr
                    .irp i, 0, 1, 2, 3, 4, 5, 6, 7
                    xylem_splat \v, \i, {node}+{CV}+4*\i
                    .endr
                    xylem_third_row \v
                    xylem_mv \v\()8, [{frame}+{COUNTERS}]
                    xylem_mv \v\()9, [{frame}+{COUNTERS}+32]
                    xylem_splat \v, 10, {node}+{LEN}
                    xylem_splat \v, 11, {node}+{FLAGS}
                    xylem_all_rounds \v
                    xylem_mv [{frame}+{C}+{B}*2], \v\()12
                    xylem_mv [{frame}+{C}+{B}*3], \v\()13
                    .irp i, 0, 1, 2, 3
                    xylem_2 pxor, \v\i, [{frame}+{C}+{B}*\i]
                    .endr
                    xylem_put \v, {out}, 64, 0, 1, 2, 3, 12
                    xylem_four pxor, \v, 4, 5, 6, 7, 8, 9, 10, 11
                    xylem_put \v, {out}+16, 64, 4, 5, 6, 7, 12
                    .irp i, 0, 1, 2, 3
                    xylem_splat \v, \i, {node}+{CV}+4*\i
                    xylem_2 pxor, \v\i, [{frame}+{C}+{B}*\i]
                    .endr
                    xylem_put \v, {out}+32, 64, 0, 1, 2, 3, 12
                    .irp i, 0, 1, 2, 3
                    xylem_splat \v, \i, {node}+{CV}+16+4*\i
                    .endr
                    xylem_four pxor, \v, 0, 1, 2, 3, 8, 9, 10, 11
                    xylem_put \v, {out}+48, 64, 0, 1, 2, 3, 12
                    xylem_leave
                    .endm
                    ",
                    concat!("xylem_body ", $v_name, "\n.purgem xylem_body"),
                    lanes!(end), sse!(end),
                    node = in(reg) node,
                    out = in(reg) out,
                    frame = in(reg) &raw mut frame,
                    k = in(reg) &CONSTANTS,
                    round = out(reg) _,
                    place = out(reg) _,
                    // For the transpositions of a batch.
                    line = out(reg) _,
                    at = out(reg) _,
                    offset = out(reg) _,
                    AHEAD = const 0,
                    B = const $bytes,
                    C = const offset_of!(Frame, c),
                    COUNTERS = const offset_of!(Frame, counters),
                    PLACES = const offset_of!(Constants, places),
                    CV = const offset_of!(Node, cv),
                    BLOCK = const offset_of!(Node, block),
                    LEN = const offset_of!(Node, end),
                    FLAGS = const offset_of!(Node, end) + 4,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack),
                );
            }
        }
    };
}

output! {
    /// Four blocks of extendable output, SSE4.1.
    sse_blocks "sse4.1", xmm, "xmm", 16
}
output! {
    /// Eight blocks of extendable output, AVX2.
    avx2_blocks "avx2", ymm, "ymm", 32
}
