//! Extendable output with AVX-512, sixteen or thirty-two blocks at a time: one state, or two side by side. All lanes
//! have the same words, which additions take directly from the node.

use core::arch::asm;
use core::mem::{MaybeUninit, offset_of};

use super::{CONSTANTS, Constants};
use crate::backend::Node;
use crate::constants::BLOCK_LEN;

/// The sixteen words of the lanes of each state.
#[repr(C, align(64))]
struct Frame(MaybeUninit<[[[u32; 16]; 16]; 2]>);

/// Makes an [`crate::backend::Output`] of that many states.
macro_rules! output {
    ($(#[$doc:meta])* $name:ident $states:literal) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The processor has the instruction set, and `out` is valid for as many blocks.
        #[target_feature(enable = "avx2,avx512f,avx512vl")]
        pub(crate) unsafe fn $name(node: &Node, out: *mut [u8; BLOCK_LEN]) {
            let mut frame = Frame(MaybeUninit::uninit());
            // SAFETY: it reads `node`, writes `frame` and as many blocks, and names every register that it
            // changes.
            unsafe {
                asm!(
                    wide!(), count!(),
                    r"
                    .macro xylem_z_word v set r word
                    movzx {place:e}, byte ptr [{round}+\word]
                    vpaddd \v\r, \v\r, dword ptr [{node}+{BLOCK}+{place}]{{1to16}}
                    .endm
                    .macro xylem_z_broadcast r from
                    vpbroadcastd zmm\r, dword ptr [\from]
                    .endm
                    .macro xylem_z_start c0 c1 c2 c3 low high len flags
                    xylem_z_broadcast \c0, {k}+{IV_AT}
                    xylem_z_broadcast \c1, {k}+{IV_AT}+4
                    xylem_z_broadcast \c2, {k}+{IV_AT}+8
                    xylem_z_broadcast \c3, {k}+{IV_AT}+12
                    vpbroadcastd zmm\low, {count:e}
                    shr {count}, 32
                    vpbroadcastd zmm\high, {count:e}
                    xylem_z_count \low, \high, {STEPS}
                    xylem_z_broadcast \len, {node}+{LEN}
                    xylem_z_broadcast \flags, {node}+{FLAGS}
                    .endm
                    .macro xylem_z_word_out at i low high
                    vpxord zmm\low, zmm\low, zmm\high
                    vpxord zmm\high, zmm\high, dword ptr [{node}+{CV}+4*\i]{{1to16}}
                    vmovdqa32 [{frame}+\at+64*\i], zmm\low
                    vmovdqa32 [{frame}+\at+64*\i+512], zmm\high
                    .endm
                    .macro xylem_z_four_rows at i a b c d
                    vmovdqa32 zmm16, [{frame}+\at+256*\i]
                    vmovdqa32 zmm17, [{frame}+\at+256*\i+64]
                    vmovdqa32 zmm18, [{frame}+\at+256*\i+128]
                    vmovdqa32 zmm19, [{frame}+\at+256*\i+192]
                    xylem_z_pairs_of_words zmm, 20, 21, 22, 23, 16, 17, 18, 19
                    xylem_z_fours_of_words zmm, \a, \b, \c, \d, 20, 21, 22, 23
                    .endm
                    .macro xylem_z_four_lanes at i a b c d
                    vshufi32x4 zmm16, zmm\a, zmm\b, 0x88
                    vshufi32x4 zmm17, zmm\a, zmm\b, 0xdd
                    vshufi32x4 zmm18, zmm\c, zmm\d, 0x88
                    vshufi32x4 zmm19, zmm\c, zmm\d, 0xdd
                    vshufi32x4 zmm20, zmm16, zmm18, 0x88
                    vshufi32x4 zmm21, zmm17, zmm19, 0x88
                    vshufi32x4 zmm22, zmm16, zmm18, 0xdd
                    vshufi32x4 zmm23, zmm17, zmm19, 0xdd
                    vmovdqu32 [{out}+\at+64*\i], zmm20
                    vmovdqu32 [{out}+\at+64*\i+256], zmm21
                    vmovdqu32 [{out}+\at+64*\i+512], zmm22
                    vmovdqu32 [{out}+\at+64*\i+768], zmm23
                    .endm
                    .macro xylem_z_lines at
                    xylem_z_four_rows \at, 0, 0, 1, 2, 3
                    xylem_z_four_rows \at, 1, 4, 5, 6, 7
                    xylem_z_four_rows \at, 2, 8, 9, 10, 11
                    xylem_z_four_rows \at, 3, 12, 13, 14, 15
                    xylem_z_four_lanes \at, 0, 0, 4, 8, 12
                    xylem_z_four_lanes \at, 1, 1, 5, 9, 13
                    xylem_z_four_lanes \at, 2, 2, 6, 10, 14
                    xylem_z_four_lanes \at, 3, 3, 7, 11, 15
                    .endm
                    xylem_z_states zmm
                    mov {count}, [{node}+{COUNTER}]
                    xylem_z_start 8, 9, 10, 11, 12, 13, 14, 15
                    .irp i, 0, 1, 2, 3, 4, 5, 6, 7
                    xylem_z_broadcast \i, {node}+{CV}+4*\i
                    .endr
                    .if {STATES} == 2
                    mov {count}, [{node}+{COUNTER}]
                    add {count}, 16
                    xylem_z_start 24, 25, 26, 27, 28, 29, 30, 31
                    .irp i, 6, 7, 8, 9
                    xylem_z_broadcast 1\i, {node}+{CV}+4*(\i-6)
                    .endr
                    .irp i, 0, 1, 2, 3
                    xylem_z_broadcast 2\i, {node}+{CV}+16+4*\i
                    .endr
                    .endif
                    ",
                    r"
                    lea {round}, [{k}+{IN_BLOCK}]
                    .p2align 5
                    2:
                    .if {STATES} == 2
                    xylem_z_0 xylem_z_0, xylem_z_both
                    .else
                    xylem_z_0 xylem_z_one, 0, xylem_z_nothing
                    .endif
                    add {round}, 16
                    lea {place}, [{k}+{IN_BLOCK}+112]
                    cmp {round}, {place}
                    jne 2b
                    xylem_z_word_out 0, 0, 0, 8
                    xylem_z_word_out 0, 1, 1, 9
                    xylem_z_word_out 0, 2, 2, 10
                    xylem_z_word_out 0, 3, 3, 11
                    xylem_z_word_out 0, 4, 4, 12
                    xylem_z_word_out 0, 5, 5, 13
                    xylem_z_word_out 0, 6, 6, 14
                    xylem_z_word_out 0, 7, 7, 15
                    .if {STATES} == 2
                    xylem_z_word_out 1024, 0, 16, 24
                    xylem_z_word_out 1024, 1, 17, 25
                    xylem_z_word_out 1024, 2, 18, 26
                    xylem_z_word_out 1024, 3, 19, 27
                    xylem_z_word_out 1024, 4, 20, 28
                    xylem_z_word_out 1024, 5, 21, 29
                    xylem_z_word_out 1024, 6, 22, 30
                    xylem_z_word_out 1024, 7, 23, 31
                    .endif
                    xylem_z_lines 0
                    .if {STATES} == 2
                    xylem_z_lines 1024
                    .endif
                    vzeroupper
                    .irp name, xylem_z_broadcast, xylem_z_start, xylem_z_word_out, xylem_z_four_rows, xylem_z_four_lanes, xylem_z_lines
                    .purgem \name
                    .endr
                    ",
                    count!(end), wide!(end),
                    node = in(reg) node,
                    out = in(reg) out,
                    frame = in(reg) &raw mut frame,
                    k = in(reg) &CONSTANTS,
                    count = out(reg) _,
                    round = out(reg) _,
                    place = out(reg) _,
                    STATES = const $states,
                    CV = const offset_of!(Node, cv),
                    BLOCK = const offset_of!(Node, block),
                    LEN = const offset_of!(Node, end),
                    COUNTER = const offset_of!(Node, counter),
                    FLAGS = const offset_of!(Node, end) + 4,
                    IV_AT = const offset_of!(Constants, iv),
                    IN_BLOCK = const offset_of!(Constants, in_block),
                    STEPS = const offset_of!(Constants, steps),
                    out("k1") _,
                    out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _,
                    out("zmm4") _, out("zmm5") _, out("zmm6") _, out("zmm7") _,
                    out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
                    out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _,
                    out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
                    out("zmm20") _, out("zmm21") _, out("zmm22") _, out("zmm23") _,
                    out("zmm24") _, out("zmm25") _, out("zmm26") _, out("zmm27") _,
                    out("zmm28") _, out("zmm29") _, out("zmm30") _, out("zmm31") _,
                    options(nostack),
                );
            }
        }
    };
}

output! {
    /// Sixteen blocks of extendable output.
    sixteen_blocks 1
}
output! {
    /// Thirty-two blocks of extendable output.
    thirty_two_blocks 2
}
