//! Thirty-two lanes of AVX-512F as assembly text, made by macros: two states of sixteen, which fill
//! all 32 registers.
//!
//! One state of sixteen lanes has four chains, and those leave the units of a processor waiting for
//! each other; eight chains don't. The second state is one round behind the first, so that the
//! transposition of either's next block goes beside rounds of the other. The compiler would spill
//! registers here, and order instructions by what it knows of other processors: hence text.
//!
//! Chunks come as eight that lie in a row, four times, wherever those lie: a message's, or segments' of 8 KiB.
//!
//! The words of a block lie in memory, as sixteen vectors for each state, transposed.

use core::arch::asm;
use core::mem::{MaybeUninit, offset_of};

use super::super::words512::{V, counters_of_eights};
use crate::backend::{Cv, EIGHT, Eight};
use crate::constants::{BLOCK_LEN, CHUNK_END, CHUNK_LEN, CHUNK_START, IV};
use crate::mode::Mode;

const LANES: usize = 4 * EIGHT;

/// Blocks of a chunk.
const BLOCKS: usize = CHUNK_LEN / BLOCK_LEN;

/// What the text reads beside the chunks, and writes last.
#[repr(C, align(64))]
struct Frame {
    /// Lower and upper halves of the counters of each state.
    counters: [[V; 2]; 2],
    /// `IV`, of which four words are used, and the length of a block.
    constants: [u32; 8],
    key: [u32; 8],
    /// Flags of each block.
    flags: [u32; BLOCKS],
    /// The words of a block, state by state; in the end the eight words of the values.
    words: MaybeUninit<[[[u32; 16]; 16]; 2]>,
}

/// A round of the first state beside one of the second, or of one of them beside other texts.
macro_rules! round {
    (first $a:tt, second $b:tt) => { in_round!($a round! @one $b) };
    ($words:tt @one $b:tt) => { in_round!($b round! @two $words) };
    ([$u0:tt $v0:tt $u1:tt $v1:tt $u2:tt $v2:tt $u3:tt $v3:tt
      $u4:tt $v4:tt $u5:tt $v5:tt $u6:tt $v6:tt $u7:tt $v7:tt] @two
     [$x0:tt $y0:tt $x1:tt $y1:tt $x2:tt $y2:tt $x3:tt $y3:tt
      $x4:tt $y4:tt $x5:tt $y5:tt $x6:tt $y6:tt $x7:tt $y7:tt]) => { concat!(
        half_round!(
            ["zmm" "{frame} + {WORDS}" [0 1 2 3] [4 5 6 7] [8 9 10 11] [12 13 14 15] [$x0 $x1 $x2 $x3] [$y0 $y1 $y2 $y3]]
            beside ["zmm" "{frame} + {WORDS} + 1024" [16 17 18 19] [20 21 22 23] [24 25 26 27] [28 29 30 31]
                [$u0 $u1 $u2 $u3] [$v0 $v1 $v2 $v3]]),
        half_round!(
            ["zmm" "{frame} + {WORDS}" [0 1 2 3] [5 6 7 4] [10 11 8 9] [15 12 13 14] [$x4 $x5 $x6 $x7] [$y4 $y5 $y6 $y7]]
            beside ["zmm" "{frame} + {WORDS} + 1024" [16 17 18 19] [21 22 23 20] [26 27 24 25] [31 28 29 30]
                [$u4 $u5 $u6 $u7] [$v4 $v5 $v6 $v7]])
    ) };
    (first $a:tt; $($beside:tt)*) => { in_round!($a round! @first $($beside)*) };
    (second $b:tt; $($beside:tt)*) => { in_round!($b round! @second $($beside)*) };
    ([$x0:tt $y0:tt $x1:tt $y1:tt $x2:tt $y2:tt $x3:tt $y3:tt
      $x4:tt $y4:tt $x5:tt $y5:tt $x6:tt $y6:tt $x7:tt $y7:tt] @first
     [$($columns:expr),*] [$($diagonals:expr),*]) => { concat!(
        half_round!(["zmm" "{frame} + {WORDS}" [0 1 2 3] [4 5 6 7] [8 9 10 11] [12 13 14 15]
            [$x0 $x1 $x2 $x3] [$y0 $y1 $y2 $y3]]; $($columns),*),
        half_round!(["zmm" "{frame} + {WORDS}" [0 1 2 3] [5 6 7 4] [10 11 8 9] [15 12 13 14]
            [$x4 $x5 $x6 $x7] [$y4 $y5 $y6 $y7]]; $($diagonals),*)
    ) };
    ([$x0:tt $y0:tt $x1:tt $y1:tt $x2:tt $y2:tt $x3:tt $y3:tt
      $x4:tt $y4:tt $x5:tt $y5:tt $x6:tt $y6:tt $x7:tt $y7:tt] @second
     [$($columns:expr),*] [$($diagonals:expr),*]) => { concat!(
        half_round!(["zmm" "{frame} + {WORDS} + 1024" [16 17 18 19] [20 21 22 23] [24 25 26 27] [28 29 30 31]
            [$x0 $x1 $x2 $x3] [$y0 $y1 $y2 $y3]]; $($columns),*),
        half_round!(["zmm" "{frame} + {WORDS} + 1024" [16 17 18 19] [21 22 23 20] [26 27 24 25] [31 28 29 30]
            [$x4 $x5 $x6 $x7] [$y4 $y5 $y6 $y7]]; $($diagonals),*)
    ) };
}

/// Where a line is, of those that are the first four of an eight.
macro_rules! line {
    (0 0) => {
        "{eight_0}"
    };
    (0 1) => {
        "{eight_0} + 1024"
    };
    (0 2) => {
        "{eight_0} + 2048"
    };
    (0 3) => {
        "{eight_0} + 3072"
    };
    (0 8) => {
        "{eight_1}"
    };
    (0 9) => {
        "{eight_1} + 1024"
    };
    (0 10) => {
        "{eight_1} + 2048"
    };
    (0 11) => {
        "{eight_1} + 3072"
    };
    (16 0) => {
        "{eight_2}"
    };
    (16 1) => {
        "{eight_2} + 1024"
    };
    (16 2) => {
        "{eight_2} + 2048"
    };
    (16 3) => {
        "{eight_2} + 3072"
    };
    (16 8) => {
        "{eight_3}"
    };
    (16 9) => {
        "{eight_3} + 1024"
    };
    (16 10) => {
        "{eight_3} + 2048"
    };
    (16 11) => {
        "{eight_3} + 3072"
    };
}

/// Lines `$first` and `$first + 4` of the state's lanes, 32 bytes of each, into one vector; the
/// first half of a block also asks for what the next call may want.
macro_rules! join {
    ($lane:tt $half:tt $r:tt $first:tt) => { concat!(
        "vmovdqu32 ymm", $r, ", [", line!($lane $first), " + 32*", $half, "]\n",
        "vinserti64x4 zmm", $r, ", zmm", $r, ", [", line!($lane $first), " + 4096 + 32*", $half, "], 1\n",
        join!(@ask $half $lane $first)
    ) };
    (@ask 0 $lane:tt $first:tt) => { concat!(
        "prefetcht1 [", line!($lane $first), " + {ahead}]\n",
        "prefetcht1 [", line!($lane $first), " + {ahead} + 4096]\n"
    ) };
    (@ask 1 $lane:tt $first:tt) => { "" };
}

/// Sixteen words of two lanes, four by four, to and from the place of vector `$i` of a block.
macro_rules! keep {
    ($m:literal $i:literal $half:literal $r:tt) => {
        concat!("vmovdqa32 [{frame} + {WORDS} + ", $m, " + 64*", $i, " + 512*", $half, "], zmm", $r, "\n")
    };
}

/// Vectors `$i` and `$i + 4` of half a block: of the lower eight lanes (`$r`) and the upper ones, which
/// are in memory.
macro_rules! finish {
    ($m:literal $i:literal $half:literal $r:tt $free:tt) => { concat!(
        "vshufi32x4 zmm", $free, ", zmm", $r,
            ", [{frame} + {WORDS} + ", $m, " + 64*", $i, " + 256 + 512*", $half, "], 0x88\n",
        "vshufi32x4 zmm", $r, ", zmm", $r,
            ", [{frame} + {WORDS} + ", $m, " + 64*", $i, " + 256 + 512*", $half, "], 0xdd\n",
        keep!($m $i $half $free),
        "vmovdqa32 [{frame} + {WORDS} + ", $m, " + 64*", $i, " + 256 + 512*", $half, "], zmm", $r, "\n"
    ) };
}

/// The 28 texts between two blocks of a state: its value out of the last rounds, the words of its
/// next block transposed into memory, and the lower half of its state before the first round. They
/// use the registers of that half: `$beside!(arguments [fourteen] [fourteen])`.
macro_rules! between {
    (first $($then:tt)*) => { between!(@ 0 0 [0 1 2 3 4 5 6 7] [8 9 10 11 12 13 14 15] $($then)*) };
    (second $($then:tt)*) => {
        between!(@ 1024 16 [16 17 18 19 20 21 22 23] [24 25 26 27 28 29 30 31] $($then)*)
    };
    (@ $m:tt $lane:tt [$h0:tt $h1:tt $h2:tt $h3:tt $h4:tt $h5:tt $h6:tt $h7:tt]
     [$r0:tt $r1:tt $r2:tt $r3:tt $r4:tt $r5:tt $r6:tt $r7:tt] $beside:ident! $($more:tt)*) => {
        $beside!($($more)*
            [four!("vpxord" "zmm" [$h0 $h1 $h2 $h3] [$r0 $r1 $r2 $r3]),
             four!("vpxord" "zmm" [$h4 $h5 $h6 $h7] [$r4 $r5 $r6 $r7]),
             between!(@load $m $lane 0 8 $r0 $r1), between!(@load $m $lane 0 10 $r2 $r3),
             words!("zmm" $r4 $r0 $r1 $r2, $r0 $r1 $r2 $r3), pairs!("zmm" $r3 $r4 $r1 $r0, $r4 $r0 $r1 $r2),
             concat!(keep!($m 4 0 $r3), keep!($m 5 0 $r4), keep!($m 6 0 $r1), keep!($m 7 0 $r0)),
             between!(@load $m $lane 0 0 $r0 $r1), between!(@load $m $lane 0 2 $r2 $r3),
             words!("zmm" $r4 $r0 $r1 $r2, $r0 $r1 $r2 $r3), pairs!("zmm" $r3 $r4 $r1 $r0, $r4 $r0 $r1 $r2),
             concat!(finish!($m 0 0 $r3 $r2), finish!($m 1 0 $r4 $r3)),
             concat!(finish!($m 2 0 $r1 $r4), finish!($m 3 0 $r0 $r1)),
             ""]
            [between!(@load $m $lane 1 8 $r0 $r1), between!(@load $m $lane 1 10 $r2 $r3),
             words!("zmm" $r4 $r0 $r1 $r2, $r0 $r1 $r2 $r3), pairs!("zmm" $r3 $r4 $r1 $r0, $r4 $r0 $r1 $r2),
             concat!(keep!($m 4 1 $r3), keep!($m 5 1 $r4), keep!($m 6 1 $r1), keep!($m 7 1 $r0)),
             between!(@load $m $lane 1 0 $r0 $r1), between!(@load $m $lane 1 2 $r2 $r3),
             words!("zmm" $r4 $r0 $r1 $r2, $r0 $r1 $r2 $r3), pairs!("zmm" $r3 $r4 $r1 $r0, $r4 $r0 $r1 $r2),
             concat!(finish!($m 0 1 $r3 $r2), finish!($m 1 1 $r4 $r3)),
             concat!(finish!($m 2 1 $r1 $r4), finish!($m 3 1 $r0 $r1)),
             concat!(
                "vpbroadcastd zmm", $r0, ", [{frame} + {CONSTANTS}]\n",
                "vpbroadcastd zmm", $r1, ", [{frame} + {CONSTANTS} + 4]\n",
                "vpbroadcastd zmm", $r2, ", [{frame} + {CONSTANTS} + 8]\n",
                "vpbroadcastd zmm", $r3, ", [{frame} + {CONSTANTS} + 12]\n"),
             concat!(
                "vmovdqa32 zmm", $r4, ", [{frame} + {COUNTERS} + 8*", $lane, "]\n",
                "vmovdqa32 zmm", $r5, ", [{frame} + {COUNTERS} + 64 + 8*", $lane, "]\n"),
             concat!(
                "vpbroadcastd zmm", $r6, ", [{frame} + {CONSTANTS} + 16]\n",
                "vpbroadcastd zmm", $r7, ", [{frame} + {FLAGS} + 4*{block}]\n")])
    };
    (@load $m:tt $lane:tt $half:tt $first:tt $r0:tt $r1:tt) => {
        concat!(join!($lane $half $r0 $first), between!(@next $lane $half $first $r1))
    };
    (@next $lane:tt $half:tt 0 $r:tt) => { join!($lane $half $r 1) };
    (@next $lane:tt $half:tt 2 $r:tt) => { join!($lane $half $r 3) };
    (@next $lane:tt $half:tt 8 $r:tt) => { join!($lane $half $r 9) };
    (@next $lane:tt $half:tt 10 $r:tt) => { join!($lane $half $r 11) };
}

/// The texts of [`between`] in a row, less the first two: before the first block there is no value.
macro_rules! begin {
    ([$e0:expr, $e1:expr, $($columns:expr),*] [$($diagonals:expr),*]) => {
        concat!($($columns,)* $($diagonals),*)
    };
}

/// A round beside the texts of [`between`] less the first two.
macro_rules! without_value {
    ($which:ident $round:tt; [$e0:expr, $e1:expr, $($columns:expr),*] $diagonals:tt) => {
        round!($which $round; ["", "", $($columns),*] $diagonals)
    };
}

/// To the next block of every chunk.
macro_rules! forth {
    () => {
        "add {eight_0}, 64\nadd {eight_1}, 64\nadd {eight_2}, 64\nadd {eight_3}, 64\n"
    };
}

macro_rules! key {
    ($($r:tt $i:tt),*) => { concat!($("vpbroadcastd zmm", $r, ", [{frame} + {KEY} + 4*", $i, "]\n"),*) };
}

/// The values of four times eight whole chunks, into as many places.
///
/// # Safety
/// The processor has the instruction set; `out` is valid for writing 32 values.
#[target_feature(enable = "avx2,avx512f,avx512vl")]
pub(crate) unsafe fn chunks(mode: &Mode, eights: &[Eight<'_>; 4], out: *mut Cv) {
    let at = |i: usize| eights[i].chunks.as_ptr();
    // Where all follow each other, those after them are wanted next as a rule; else nobody knows.
    let in_a_row = at(0).wrapping_add(3 * EIGHT) == at(3);
    let mut frame = Frame {
        counters: [
            counters_of_eights(eights[0].first, eights[1].first),
            counters_of_eights(eights[2].first, eights[3].first),
        ],
        constants: [IV[0], IV[1], IV[2], IV[3], BLOCK_LEN as u32, 0, 0, 0],
        key: *mode.key(),
        flags: [mode.flags(); BLOCKS],
        words: MaybeUninit::uninit(),
    };
    frame.flags[0] |= CHUNK_START;
    frame.flags[BLOCKS - 1] |= CHUNK_END;
    // SAFETY: it reads the 8 KiB of each of `eights` (block after block: each pointer moves on by one
    // sixteen times and is not read from after that), writes the 1,024 bytes at `out`, reads `frame` and writes
    // its `words`, and names every register that it changes. What it prefetches need not be valid.
    unsafe {
        asm!(
            key!(0 0, 1 1, 2 2, 3 3, 4 4, 5 5, 6 6, 7 7),
            key!(16 0, 17 1, 18 2, 19 3, 20 4, 21 5, 22 6, 23 7),
            between!(first begin!),
            between!(second without_value! first 0;),
            forth!(),
            "inc {block:e}",
            ".p2align 5",
            "2:",
            round!(first 1, second 0),
            round!(first 2, second 1),
            round!(first 3, second 2),
            round!(first 4, second 3),
            round!(first 5, second 4),
            round!(first 6, second 5),
            "cmp {block:e}, 16",
            "je 3f",
            between!(first round! second 6;),
            between!(second round! first 0;),
            forth!(),
            "inc {block:e}",
            "jmp 2b",
            "3:",
            round!(second 6;
                [four!("vpxord" "zmm" [0 1 2 3] [8 9 10 11]), four!("vpxord" "zmm" [4 5 6 7] [12 13 14 15]),
                 "", "", "", "", "", "", "", "", "", "", "", ""]
                ["", "", "", "", "", "", "", "", "", "", "", "", "", ""]),
            four!("vpxord" "zmm" [16 17 18 19] [24 25 26 27]),
            four!("vpxord" "zmm" [20 21 22 23] [28 29 30 31]),
            put!("zmm" "{out}" 0 [0 1 2 3] [8 9 10 11]),
            put!("zmm" "{out}" 1 [4 5 6 7] [12 13 14 15]),
            put!("zmm" "{out} + 512" 0 [16 17 18 19] [24 25 26 27]),
            put!("zmm" "{out} + 512" 1 [20 21 22 23] [28 29 30 31]),
            // The compiler writes none for registers of text.
            "vzeroupper",
            eight_0 = inout(reg) at(0) => _,
            eight_1 = inout(reg) at(1) => _,
            eight_2 = inout(reg) at(2) => _,
            eight_3 = inout(reg) at(3) => _,
            ahead = in(reg) if in_a_row { LANES * CHUNK_LEN } else { 0 },
            block = inout(reg) 0usize => _,
            frame = in(reg) &raw mut frame,
            out = in(reg) out,
            COUNTERS = const offset_of!(Frame, counters),
            CONSTANTS = const offset_of!(Frame, constants),
            KEY = const offset_of!(Frame, key),
            FLAGS = const offset_of!(Frame, flags),
            WORDS = const offset_of!(Frame, words),
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
