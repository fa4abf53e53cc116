//! Thirty-two lanes of AVX-512F: two states of sixteen, which fill all 32 registers.
//!
//! One state of sixteen lanes has four dependency chains, for which a processor's units wait; eight chains keep them
//! busy. The second state is one round behind the first, so that each transposes its next block beside rounds of the
//! other. It is assembly text because the compiler would spill registers here, and order instructions for other
//! processors.
//!
//! The input is four runs of eight contiguous chunks, each anywhere: a message's, or segments of 8 KiB.
//!
//! The words of a block are kept in memory, transposed, as sixteen vectors for each state.

use core::arch::asm;
use core::mem::{MaybeUninit, offset_of};

use super::{CONSTANTS, Constants};
use crate::backend::{Cv, EIGHT, Eight};
use crate::constants::{BLOCK_LEN, CHUNK_END, CHUNK_LEN, CHUNK_START};
use crate::mode::Mode;

const LANES: usize = 4 * EIGHT;

/// Blocks of a chunk.
const BLOCKS: usize = CHUNK_LEN / BLOCK_LEN;

/// The memory of the text, besides the chunks.
#[repr(C, align(64))]
struct Frame {
    /// Lower and upper halves of the counters of each state.
    counters: MaybeUninit<[[[u32; 16]; 2]; 2]>,
    /// The words of a block, state by state.
    words: MaybeUninit<[[[u32; 16]; 16]; 2]>,
    /// Flags of each block.
    flags: [u32; BLOCKS],
    /// The counter of the first chunk of each eight.
    firsts: [u64; 4],
}

/// Sixteen texts, in the order of `k`, between two blocks of a state and beside steps of the other one. They take its
/// value from the last rounds, transpose the words of its next block into memory, half a block at a time, and set up
/// the lower half of its state before the first round. They use the registers of that half.
macro_rules! between {
    () => {
        r"
        .macro xylem_z_line half r at
        vmovdqu32 ymm\r, [\at+32*\half]
        vinserti64x4 zmm\r, zmm\r, [\at+4096+32*\half], 1
        .if \half == 0
        prefetcht1 [\at+{ahead}]
        prefetcht1 [\at+{ahead}+4096]
        .endif
        .endm
        .macro xylem_z_keep m half i r
        vmovdqa32 [{frame}+{WORDS}+\m+512*\half+64*\i], zmm\r
        .endm
        .macro xylem_z_finish m half i r free
        vshufi32x4 zmm\free, zmm\r, [{frame}+{WORDS}+\m+512*\half+64*\i+256], 0x88
        vshufi32x4 zmm\r, zmm\r, [{frame}+{WORDS}+\m+512*\half+64*\i+256], 0xdd
        vmovdqa32 [{frame}+{WORDS}+\m+512*\half+64*\i], zmm\free
        vmovdqa32 [{frame}+{WORDS}+\m+512*\half+64*\i+256], zmm\r
        .endm
        .macro xylem_z_text k half m n low high h0 h1 h2 h3 h4 h5 h6 h7 r0 r1 r2 r3 r4 r5 r6 r7
        .if \k == 0
        xylem_z_four vpxord, zmm, \h0, \h1, \h2, \h3, \r0, \r1, \r2, \r3
        .elseif \k == 1
        xylem_z_four vpxord, zmm, \h4, \h5, \h6, \h7, \r4, \r5, \r6, \r7
        .elseif \k == 2
        xylem_z_line \half, \r0, \high
        xylem_z_line \half, \r1, \high+1024
        .elseif \k == 3
        xylem_z_line \half, \r2, \high+2048
        xylem_z_line \half, \r3, \high+3072
        .elseif (\k == 4) || (\k == 9)
        xylem_z_pairs_of_words zmm, \r4, \r0, \r1, \r2, \r0, \r1, \r2, \r3
        .elseif (\k == 5) || (\k == 10)
        xylem_z_fours_of_words zmm, \r3, \r4, \r1, \r0, \r4, \r0, \r1, \r2
        .elseif \k == 6
        xylem_z_keep \m, \half, 4, \r3
        xylem_z_keep \m, \half, 5, \r4
        xylem_z_keep \m, \half, 6, \r1
        xylem_z_keep \m, \half, 7, \r0
        .elseif \k == 7
        xylem_z_line \half, \r0, \low
        xylem_z_line \half, \r1, \low+1024
        .elseif \k == 8
        xylem_z_line \half, \r2, \low+2048
        xylem_z_line \half, \r3, \low+3072
        .elseif \k == 11
        xylem_z_finish \m, \half, 0, \r3, \r2
        xylem_z_finish \m, \half, 1, \r4, \r3
        .elseif \k == 12
        xylem_z_finish \m, \half, 2, \r1, \r4
        xylem_z_finish \m, \half, 3, \r0, \r1
        .elseif \k == 13
        vpbroadcastd zmm\r0, dword ptr [{k}+{IV_AT}]
        vpbroadcastd zmm\r1, dword ptr [{k}+{IV_AT}+4]
        vpbroadcastd zmm\r2, dword ptr [{k}+{IV_AT}+8]
        vpbroadcastd zmm\r3, dword ptr [{k}+{IV_AT}+12]
        .elseif \k == 14
        vmovdqa32 zmm\r4, [{frame}+{COUNTERS}+\n]
        vmovdqa32 zmm\r5, [{frame}+{COUNTERS}+\n+64]
        .elseif \k == 15
        vpbroadcastd zmm\r6, dword ptr [{k}+{FULL}]
        vpbroadcastd zmm\r7, dword ptr [{frame}+{FLAGS}+4*{block}]
        .endif
        .endm
        .macro xylem_z_between set k half
        .if \set == 0
        xylem_z_text \k, \half, 0, 0, {eight_0}, {eight_1}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        .else
        xylem_z_text \k, \half, 1024, 128, {eight_2}, {eight_3}, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
        .endif
        .endm
        .macro xylem_z_beside set k half
        .if (\half == 0) && (\k < 13)
        xylem_z_between \set, \k, 0
        .elseif \half == 1
        xylem_z_between \set, (\k+2), 1
        .endif
        .endm
        .macro xylem_z_begin set k half
        .if (\half == 1) || (\k > 1)
        xylem_z_beside \set, \k, \half
        .endif
        .endm
        .macro xylem_z_start low at
        vpbroadcastd zmm0, dword ptr [{frame}+{FIRSTS}+\at]
        vpbroadcastd ymm1, dword ptr [{frame}+{FIRSTS}+\at+8]
        vinserti64x4 zmm0, zmm0, ymm1, 1
        vpbroadcastd zmm2, dword ptr [{frame}+{FIRSTS}+\at+4]
        vpbroadcastd ymm1, dword ptr [{frame}+{FIRSTS}+\at+12]
        vinserti64x4 zmm2, zmm2, ymm1, 1
        xylem_z_count 0, 2, {STEPS}+64
        vmovdqa32 [{frame}+{COUNTERS}+\low], zmm0
        vmovdqa32 [{frame}+{COUNTERS}+\low+64], zmm2
        .endm
        .macro xylem_z_forth
        add {eight_0}, 64
        add {eight_1}, 64
        add {eight_2}, 64
        add {eight_3}, 64
        inc {block:e}
        .endm
        .macro xylem_z_16 name rest:vararg
        \name \rest, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
        .endm
        .macro xylem_z_word v set r word
        .if \word < 16
        vpaddd \v\r, \v\r, [{frame}+{WORDS}+1024*\set+64*\word]
        .else
        movzx {place:e}, word ptr [{round}+2*(\word-16)+32*(1-\set)]
        vpaddd \v\r, \v\r, [{frame}+{WORDS}+1024*\set+{place}*4]
        .endif
        .endm
        "
    };
    (end) => {
        r"
        .irp name, xylem_z_16, xylem_z_line, xylem_z_keep, xylem_z_finish, xylem_z_text, xylem_z_between, xylem_z_beside, xylem_z_begin, xylem_z_start, xylem_z_forth
        .purgem \name
        .endr
        "
    };
}

/// The values of four times eight whole chunks, into as many places.
///
/// # Safety
/// The processor has the instruction set; `out` is valid for writing 32 values.
#[target_feature(enable = "avx2,avx512f,avx512vl")]
pub(crate) unsafe fn chunks(mode: &Mode, eights: &[Eight<'_>; 4], out: *mut Cv) {
    let at = |i: usize| eights[i].chunks.as_ptr();
    // If all runs are contiguous, the chunks after them are usually next; otherwise the next ones are unknown.
    let in_a_row = at(0).wrapping_add(3 * EIGHT) == at(3);
    let mut frame = Frame {
        counters: MaybeUninit::uninit(),
        words: MaybeUninit::uninit(),
        flags: [mode.flags(); BLOCKS],
        firsts: [eights[0].first, eights[1].first, eights[2].first, eights[3].first],
    };
    frame.flags[0] |= CHUNK_START;
    frame.flags[BLOCKS - 1] |= CHUNK_END;
    // SAFETY: it reads the 8 KiB of each of `eights` (block after block: each pointer advances sixteen times and is not
    // read after that) and the key, writes the 1,024 bytes at `out`, reads and writes `frame`, and names every register
    // that it changes. Prefetched addresses need not be valid.
    unsafe {
        asm!(
            wide!(),
            count!(),
            between!(),
            r#"
            xylem_z_states zmm
            xylem_z_start 0, 0
            xylem_z_start 128, 16
            .irp i, 0, 1, 2, 3, 4, 5, 6, 7
            vpbroadcastd zmm\i, dword ptr [{key}+4*\i]
            .endr
            vmovdqa64 zmm16, zmm0
            vmovdqa64 zmm17, zmm1
            vmovdqa64 zmm18, zmm2
            vmovdqa64 zmm19, zmm3
            vmovdqa64 zmm20, zmm4
            vmovdqa64 zmm21, zmm5
            vmovdqa64 zmm22, zmm6
            vmovdqa64 zmm23, zmm7
            .irp k, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
            xylem_z_begin 0, \k, 0
            .endr
            .irp k, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
            xylem_z_begin 0, \k, 1
            .endr
            xylem_z_0 xylem_z_one, 0, "xylem_z_begin 1,"
            xylem_z_forth
            .p2align 5
            2:
            lea {round}, [{k}+{PLACES}]
            4:
            xylem_z_16 xylem_z_16, xylem_z_both
            add {round}, 32
            lea {place}, [{k}+{PLACES}+192]
            cmp {round}, {place}
            jne 4b
            cmp {block:e}, 16
            je 3f
            xylem_z_6 xylem_z_one, 1, "xylem_z_beside 0,"
            xylem_z_0 xylem_z_one, 0, "xylem_z_beside 1,"
            xylem_z_forth
            jmp 2b
            3:
            xylem_z_6 xylem_z_one, 1, xylem_z_nothing
            xylem_z_put zmm, {out}, 0, 1, 2, 3, 8, 9, 10, 11
            xylem_z_put zmm, {out}+16, 4, 5, 6, 7, 12, 13, 14, 15
            xylem_z_put zmm, {out}+512, 16, 17, 18, 19, 24, 25, 26, 27
            xylem_z_put zmm, {out}+528, 20, 21, 22, 23, 28, 29, 30, 31
            vzeroupper
            "#,
            between!(end),
            count!(end),
            wide!(end),
            eight_0 = inout(reg) at(0) => _,
            eight_1 = inout(reg) at(1) => _,
            eight_2 = inout(reg) at(2) => _,
            eight_3 = inout(reg) at(3) => _,
            ahead = in(reg) if in_a_row { LANES * CHUNK_LEN } else { 0 },
            block = inout(reg) 0usize => _,
            round = out(reg) _,
            place = out(reg) _,
            frame = in(reg) &raw mut frame,
            key = in(reg) mode.key(),
            k = in(reg) &CONSTANTS,
            out = in(reg) out,
            COUNTERS = const offset_of!(Frame, counters),
            FIRSTS = const offset_of!(Frame, firsts),
            FLAGS = const offset_of!(Frame, flags),
            WORDS = const offset_of!(Frame, words),
            IV_AT = const offset_of!(Constants, iv),
            PLACES = const offset_of!(Constants, places),
            STEPS = const offset_of!(Constants, steps),
            FULL = const offset_of!(Constants, full),
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
