//! Eight and sixteen lanes of a [`Batch`]: one state, and in the other sixteen registers the next block
//! on its way from lines to columns, a little after every half round.

use core::arch::asm;
use core::mem::{MaybeUninit, offset_of};

use super::super::{words256, words512};
use crate::backend::MAX_LANES;
use crate::batch::Batch;
use crate::constants::{BLOCK_LEN, IV};

/// What the text works on beside the batch; vectors of eight words use the first half of each place.
#[repr(C, align(64))]
struct Frame<V> {
    /// Where all lanes begin.
    cv: [V; 8],
    /// The words of a block, and of the next one.
    words: [MaybeUninit<[V; 16]>; 2],
    /// `IV`, of which four words are used, and the length of a block.
    constants: [u32; 5],
}

macro_rules! lane_round {
    ([$x0:tt $y0:tt $x1:tt $y1:tt $x2:tt $y2:tt $x3:tt $y3:tt
      $x4:tt $y4:tt $x5:tt $y5:tt $x6:tt $y6:tt $x7:tt $y7:tt] $v:tt
     $e0:expr, $e1:expr, $e2:expr, $e3:expr) => { concat!(
        half_round!([$v "{words}" [0 1 2 3] [4 5 6 7] [8 9 10 11] [12 13 14 15]
            [$x0 $x1 $x2 $x3] [$y0 $y1 $y2 $y3]];
            "", "", "", "", "", "", $e0, "", "", "", "", "", "", $e1),
        half_round!([$v "{words}" [0 1 2 3] [5 6 7 4] [10 11 8 9] [15 12 13 14]
            [$x4 $x5 $x6 $x7] [$y4 $y5 $y6 $y7]];
            "", "", "", "", "", "", $e2, "", "", "", "", "", "", $e3)
    ) };
}

/// All rounds, and after each half of a half round another text.
macro_rules! rounds {
    ($v:tt; [$($r0:expr),*] [$($r1:expr),*] [$($r2:expr),*] [$($r3:expr),*] [$($r4:expr),*] [$($r5:expr),*] [$($r6:expr),*]) => {
        concat!(
            in_round!(0 lane_round! $v $($r0),*), in_round!(1 lane_round! $v $($r1),*),
            in_round!(2 lane_round! $v $($r2),*), in_round!(3 lane_round! $v $($r3),*),
            in_round!(4 lane_round! $v $($r4),*), in_round!(5 lane_round! $v $($r5),*),
            in_round!(6 lane_round! $v $($r6),*)
        )
    };
    ($v:tt) => {
        rounds!($v; ["", "", "", ""] ["", "", "", ""] ["", "", "", ""] ["", "", "", ""]
            ["", "", "", ""] ["", "", "", ""] ["", "", "", ""])
    };
    // Beside the transposition of the next block.
    ("zmm" beside) => { rounds!("zmm";
        [part!("zmm" 0 lines 0 1), part!("zmm" 0 lines 2 3), part!("zmm" 0 words 0), part!("zmm" 0 lines 8 9)]
        [part!("zmm" 0 pairs 0), part!("zmm" 0 lines 10 11), part!("zmm" 0 words 1), part!("zmm" 0 pairs 1)]
        [part!("zmm" 0 finish 0), part!("zmm" 0 finish 1), part!("zmm" 0 finish 2), part!("zmm" 0 finish 3)]
        ["", "", part!("zmm" 1 lines 0 1), part!("zmm" 1 lines 2 3)]
        [part!("zmm" 1 words 0), part!("zmm" 1 lines 8 9), part!("zmm" 1 pairs 0), part!("zmm" 1 lines 10 11)]
        [part!("zmm" 1 words 1), part!("zmm" 1 pairs 1), part!("zmm" 1 finish 0), part!("zmm" 1 finish 1)]
        [part!("zmm" 1 finish 2), part!("zmm" 1 finish 3), "", ""])
    };
    ("ymm" beside) => { rounds!("ymm";
        [part!("ymm" 0 lines 0 1), part!("ymm" 0 lines 2 3), part!("ymm" 0 words), ""]
        [part!("ymm" 0 pairs), part!("ymm" 1 lines 0 1), part!("ymm" 1 lines 2 3), part!("ymm" 1 words)]
        ["", part!("ymm" 1 pairs), part!("ymm" 2 lines 0 1), part!("ymm" 2 lines 2 3)]
        [part!("ymm" 2 words), "", part!("ymm" 2 pairs), part!("ymm" 3 lines 0 1)]
        [part!("ymm" 3 lines 2 3), part!("ymm" 3 words), "", part!("ymm" 3 pairs)]
        ["", "", "", ""]
        ["", "", "", ""])
    };
}

/// All texts of the transposition in a row.
macro_rules! transpose {
    ("zmm") => { concat!(transpose!("zmm" 0), transpose!("zmm" 1)) };
    ("zmm" $half:tt) => { concat!(
        part!("zmm" $half lines 0 1), part!("zmm" $half lines 2 3), part!("zmm" $half words 0),
        part!("zmm" $half lines 8 9), part!("zmm" $half lines 10 11), part!("zmm" $half pairs 0),
        part!("zmm" $half words 1), part!("zmm" $half pairs 1),
        part!("zmm" $half finish 0), part!("zmm" $half finish 1),
        part!("zmm" $half finish 2), part!("zmm" $half finish 3)
    ) };
    ("ymm") => {
        concat!(transpose!("ymm" 0), transpose!("ymm" 1), transpose!("ymm" 2), transpose!("ymm" 3))
    };
    ("ymm" $quarter:tt) => { concat!(
        part!("ymm" $quarter lines 0 1), part!("ymm" $quarter lines 2 3),
        part!("ymm" $quarter words), part!("ymm" $quarter pairs)
    ) };
}

/// Lines `$i` and `$i + 4` into one register: of sixteen lanes half a block of each, of eight a
/// quarter. The first call for a block also asks for what the next batch may want.
macro_rules! join {
    ("zmm" $half:tt $r:tt $i:tt) => { concat!(
        "mov {line}, [{at} + 8*", $i, "]\n",
        "vmovdqu32 ymm", $r, ", [{line} + {offset} + 32*", $half, "]\n", join!(@ask $half 16384),
        "mov {line}, [{at} + 8*", $i, " + 32]\n",
        "vinserti64x4 zmm", $r, ", zmm", $r, ", [{line} + {offset} + 32*", $half, "], 1\n", join!(@ask $half 16384)
    ) };
    ("ymm" $quarter:tt $r:tt $i:tt) => { concat!(
        "mov {line}, [{at} + 8*", $i, "]\n",
        "vmovdqu32 xmm", $r, ", [{line} + {offset} + 16*", $quarter, "]\n", join!(@ask $quarter 8192),
        "mov {line}, [{at} + 8*", $i, " + 32]\n",
        "vinserti32x4 ymm", $r, ", ymm", $r, ", [{line} + {offset} + 16*", $quarter, "], 1\n", join!(@ask $quarter 8192)
    ) };
    (@ask 0 $ahead:tt) => { concat!("prefetcht1 [{line} + {offset} + ", $ahead, "]\n") };
    (@ask $part:tt $ahead:tt) => { "" };
}

/// A part of the transposition of the next block.
macro_rules! part {
    ("zmm" $half:tt lines 0 1) => { concat!(join!("zmm" $half 16 0), join!("zmm" $half 17 1)) };
    ("zmm" $half:tt lines 2 3) => { concat!(join!("zmm" $half 18 2), join!("zmm" $half 19 3)) };
    ("zmm" $half:tt lines 8 9) => { concat!(join!("zmm" $half 20 8), join!("zmm" $half 21 9)) };
    ("zmm" $half:tt lines 10 11) => { concat!(join!("zmm" $half 22 10), join!("zmm" $half 23 11)) };
    ("zmm" $half:tt words 0) => { words!("zmm" 24 25 26 27, 16 17 18 19) };
    ("zmm" $half:tt words 1) => { words!("zmm" 28 29 30 31, 20 21 22 23) };
    ("zmm" $half:tt pairs 0) => { pairs!("zmm" 16 17 18 19, 24 25 26 27) };
    ("zmm" $half:tt pairs 1) => { pairs!("zmm" 20 21 22 23, 28 29 30 31) };
    ("zmm" $half:tt finish 0) => { part!(@finish $half 0 16 20 24 25) };
    ("zmm" $half:tt finish 1) => { part!(@finish $half 1 17 21 26 27) };
    ("zmm" $half:tt finish 2) => { part!(@finish $half 2 18 22 28 29) };
    ("zmm" $half:tt finish 3) => { part!(@finish $half 3 19 23 30 31) };
    (@finish $half:tt $i:tt $a:tt $b:tt $t0:tt $t1:tt) => { concat!(
        "vshufi32x4 zmm", $t0, ", zmm", $a, ", zmm", $b, ", 0x88\n",
        "vmovdqa32 [{next} + 512*", $half, " + 64*", $i, "], zmm", $t0, "\n",
        "vshufi32x4 zmm", $t1, ", zmm", $a, ", zmm", $b, ", 0xdd\n",
        "vmovdqa32 [{next} + 512*", $half, " + 64*", $i, " + 256], zmm", $t1, "\n"
    ) };
    ("ymm" 0 $($part:tt)*) => { part!(@ymm 0 16 17 18 19 20 21 22 23 $($part)*) };
    ("ymm" 1 $($part:tt)*) => { part!(@ymm 1 24 25 26 27 28 29 30 31 $($part)*) };
    ("ymm" 2 $($part:tt)*) => { part!(@ymm 2 16 17 18 19 20 21 22 23 $($part)*) };
    ("ymm" 3 $($part:tt)*) => { part!(@ymm 3 24 25 26 27 28 29 30 31 $($part)*) };
    (@ymm $q:tt $a:tt $b:tt $c:tt $d:tt $t0:tt $t1:tt $t2:tt $t3:tt lines 0 1) => {
        concat!(join!("ymm" $q $a 0), join!("ymm" $q $b 1))
    };
    (@ymm $q:tt $a:tt $b:tt $c:tt $d:tt $t0:tt $t1:tt $t2:tt $t3:tt lines 2 3) => {
        concat!(join!("ymm" $q $c 2), join!("ymm" $q $d 3))
    };
    (@ymm $q:tt $a:tt $b:tt $c:tt $d:tt $t0:tt $t1:tt $t2:tt $t3:tt words) => {
        words!("ymm" $t0 $t1 $t2 $t3, $a $b $c $d)
    };
    (@ymm $q:tt $a:tt $b:tt $c:tt $d:tt $t0:tt $t1:tt $t2:tt $t3:tt pairs) => { concat!(
        pairs!("ymm" $a $b $c $d, $t0 $t1 $t2 $t3),
        "vmovdqa32 [{next} + 128*", $q, "], ymm", $a, "\n",
        "vmovdqa32 [{next} + 128*", $q, " + 32], ymm", $b, "\n",
        "vmovdqa32 [{next} + 128*", $q, " + 64], ymm", $c, "\n",
        "vmovdqa32 [{next} + 128*", $q, " + 96], ymm", $d, "\n"
    ) };
}

/// Registers from memory at `$at`, as many bytes apart as one has.
macro_rules! load {
    ("zmm" $at:literal $($r:tt $i:tt),*) => {
        concat!($("vmovdqa32 zmm", $r, ", [", $at, " + 64*", $i, "]\n"),*)
    };
    ("ymm" $at:literal $($r:tt $i:tt),*) => {
        concat!($("vmovdqa32 ymm", $r, ", [", $at, " + 32*", $i, "]\n"),*)
    };
}

macro_rules! everywhere {
    ($v:tt $($r:tt $at:literal),*) => { concat!($("vpbroadcastd ", $v, $r, ", [", $at, "]\n"),*) };
}

/// Makes a [`crate::batch::Run`].
macro_rules! run {
    ($(#[$doc:meta])* $name:ident $v:tt $words:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The processor has the instruction set, and the pointers of `batch` are to what its
        /// documentation says.
        #[target_feature(enable = "avx2,avx512f,avx512vl")]
        pub(crate) unsafe fn $name(batch: &mut Batch<'_>, blocks: usize) {
            let cv = match batch.key {
                Some(key) => {
                    let mut cv = [$words::splat(0); 8];
                    for i in 0..8 {
                        cv[i] = $words::splat(key[i]);
                    }
                    cv
                }
                // SAFETY: the caller's promise: without a key, all lanes have a value.
                None => $words::load_cvs(unsafe { batch.cvs.assume_init_ref() }),
            };
            let mut frame = Frame {
                cv,
                words: [MaybeUninit::uninit(); 2],
                constants: [IV[0], IV[1], IV[2], IV[3], BLOCK_LEN as u32],
            };
            // SAFETY: it reads `frame`, `batch` and the blocks that its pointers are to, which is
            // the caller's promise, writes `frame.words` and the lanes' places in `batch.cvs`, and
            // names every register that it changes. What it prefetches need not be valid.
            unsafe {
                asm!(
                    "lea {at}, [{batch} + {AT}]",
                    "lea {line}, [{batch} + {LAST}]",
                    "lea {flags}, [{batch} + {FLAGS}]",
                    "xor {offset:e}, {offset:e}",
                    "cmp {left}, 1",
                    "cmove {at}, {line}",
                    transpose!($v),
                    "xchg {words}, {next}",
                    load!($v "{frame} + {CV}" 0 0, 1 1, 2 2, 3 3, 4 4, 5 5, 6 6, 7 7),
                    ".p2align 5",
                    "2:",
                    everywhere!($v 8 "{frame} + {CONSTANTS}", 9 "{frame} + {CONSTANTS} + 4",
                        10 "{frame} + {CONSTANTS} + 8", 11 "{frame} + {CONSTANTS} + 12"),
                    load!($v "{batch} + {COUNTERS}" 12 0),
                    load!($v "{batch} + {COUNTERS} + 64" 13 0),
                    "cmp {left}, 1",
                    "je 4f",
                    everywhere!($v 14 "{frame} + {CONSTANTS} + 16", 15 "{flags}"),
                    "lea {flags}, [{batch} + {FLAGS} + 4]",
                    "add {offset}, 64",
                    "cmp {left}, 2",
                    "jne 3f",
                    "lea {at}, [{batch} + {LAST}]",
                    "xor {offset:e}, {offset:e}",
                    "3:",
                    rounds!($v beside),
                    four!("vpxord" $v [0 1 2 3] [8 9 10 11]),
                    four!("vpxord" $v [4 5 6 7] [12 13 14 15]),
                    "xchg {words}, {next}",
                    "dec {left}",
                    "jmp 2b",
                    "4:",
                    load!($v "{batch} + {ENDS}" 14 0),
                    load!($v "{batch} + {ENDS} + 64" 15 0),
                    rounds!($v),
                    four!("vpxord" $v [0 1 2 3] [8 9 10 11]),
                    four!("vpxord" $v [4 5 6 7] [12 13 14 15]),
                    put!($v "{batch} + {CVS}" 0 [0 1 2 3] [8 9 10 11]),
                    put!($v "{batch} + {CVS}" 1 [4 5 6 7] [12 13 14 15]),
                    // The compiler writes none for registers of text.
                    "vzeroupper",
                    batch = in(reg) batch,
                    frame = in(reg) &raw mut frame,
                    words = inout(reg) &raw mut frame.words[1] => _,
                    next = inout(reg) &raw mut frame.words[0] => _,
                    left = inout(reg) blocks => _,
                    at = out(reg) _,
                    line = out(reg) _,
                    flags = out(reg) _,
                    offset = out(reg) _,
                    CV = const offset_of!(Frame<$words::V>, cv),
                    CONSTANTS = const offset_of!(Frame<$words::V>, constants),
                    CVS = const offset_of!(Batch<'_>, cvs),
                    COUNTERS = const offset_of!(Batch<'_>, counters),
                    ENDS = const offset_of!(Batch<'_>, ends),
                    AT = const offset_of!(Batch<'_>, at),
                    LAST = const offset_of!(Batch<'_>, last),
                    FLAGS = const offset_of!(Batch<'_>, flags),
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

// Counters and ends are read as far as 64 bytes apart, and values written for all lanes.
const _: () = assert!(MAX_LANES == 16);

run! {
    /// Takes the first sixteen lanes of `batch` that many blocks further.
    sixteen "zmm" words512
}
run! {
    /// Takes the first eight lanes of `batch` that many blocks further.
    eight "ymm" words256
}
