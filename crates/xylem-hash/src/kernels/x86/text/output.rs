//! Extendable output, sixteen or thirty-two blocks at a time: one state, or two side by side. All
//! lanes have the same words, which additions take straight from the node.

use core::arch::asm;
use core::mem::{MaybeUninit, offset_of};

use super::super::words512::{V, counters, store_blocks};
use crate::backend::Node;
use crate::constants::{BLOCK_LEN, IV};

/// What the text works on beside the node.
#[repr(C, align(64))]
struct Frame {
    /// Lower and upper halves of the counters of each state.
    counters: [[V; 2]; 2],
    /// The sixteen words of all lanes, state by state.
    out: MaybeUninit<[[V; 16]; 2]>,
}

macro_rules! round {
    ([$x0:tt $y0:tt $x1:tt $y1:tt $x2:tt $y2:tt $x3:tt $y3:tt
      $x4:tt $y4:tt $x5:tt $y5:tt $x6:tt $y6:tt $x7:tt $y7:tt] 2) => { concat!(
        half_round!(["zmm" (same "{node} + {BLOCK}") [0 1 2 3] [4 5 6 7] [8 9 10 11] [12 13 14 15]
                [$x0 $x1 $x2 $x3] [$y0 $y1 $y2 $y3]]
            beside ["zmm" (same "{node} + {BLOCK}") [16 17 18 19] [20 21 22 23] [24 25 26 27] [28 29 30 31]
                [$x0 $x1 $x2 $x3] [$y0 $y1 $y2 $y3]]),
        half_round!(["zmm" (same "{node} + {BLOCK}") [0 1 2 3] [5 6 7 4] [10 11 8 9] [15 12 13 14]
                [$x4 $x5 $x6 $x7] [$y4 $y5 $y6 $y7]]
            beside ["zmm" (same "{node} + {BLOCK}") [16 17 18 19] [21 22 23 20] [26 27 24 25] [31 28 29 30]
                [$x4 $x5 $x6 $x7] [$y4 $y5 $y6 $y7]])
    ) };
    ([$x0:tt $y0:tt $x1:tt $y1:tt $x2:tt $y2:tt $x3:tt $y3:tt
      $x4:tt $y4:tt $x5:tt $y5:tt $x6:tt $y6:tt $x7:tt $y7:tt] 1) => { concat!(
        half_round!(["zmm" (same "{node} + {BLOCK}") [0 1 2 3] [4 5 6 7] [8 9 10 11] [12 13 14 15]
            [$x0 $x1 $x2 $x3] [$y0 $y1 $y2 $y3]]; "", "", "", "", "", "", "", "", "", "", "", "", "", ""),
        half_round!(["zmm" (same "{node} + {BLOCK}") [0 1 2 3] [5 6 7 4] [10 11 8 9] [15 12 13 14]
            [$x4 $x5 $x6 $x7] [$y4 $y5 $y6 $y7]]; "", "", "", "", "", "", "", "", "", "", "", "", "", "")
    ) };
}

/// The rows of a state, the `$number`-th, before the first round.
macro_rules! start {
    ($number:tt [$($cv:tt $i:tt),*] [$($iv:tt $j:tt),*] $low:tt $high:tt $len:tt $flags:tt) => { concat!(
        $("vpbroadcastd zmm", $cv, ", [{node} + {CV} + 4*", $i, "]\n",)*
        $("vpbroadcastd zmm", $iv, ", [{iv} + 4*", $j, "]\n",)*
        "vmovdqa32 zmm", $low, ", [{frame} + {COUNTERS} + 128*", $number, "]\n",
        "vmovdqa32 zmm", $high, ", [{frame} + {COUNTERS} + 128*", $number, " + 64]\n",
        "vpbroadcastd zmm", $len, ", [{node} + {LEN}]\n",
        "vpbroadcastd zmm", $flags, ", [{node} + {FLAGS}]\n"
    ) };
}

/// The words of a compression out of the rows after the last round.
macro_rules! finish {
    ($number:tt $($low:tt $high:tt $i:tt),*) => { concat!($(
        op!("vpxord" "zmm" $low $low $high),
        "vpxord zmm", $high, ", zmm", $high, ", dword ptr [{node} + {CV} + 4*", $i, "]{{1to16}}\n",
        "vmovdqa32 [{frame} + {OUT} + 1024*", $number, " + 64*", $i, "], zmm", $low, "\n",
        "vmovdqa32 [{frame} + {OUT} + 1024*", $number, " + 64*", $i, " + 512], zmm", $high, "\n"
    ),*) };
}

/// Makes `root_blocks` (see [`crate::backend::Kernels`]) of so many states.
macro_rules! output {
    ($name:ident $states:tt, $start:expr, $finish:expr) => {
        /// Extendable output: so many compressions of `node`, with its counter and those after it.
        ///
        /// # Safety
        /// The processor has the instruction set, and `out` is valid for as many blocks.
        #[target_feature(enable = "avx2,avx512f,avx512vl")]
        pub(crate) unsafe fn $name(node: &Node, out: *mut [u8; BLOCK_LEN]) {
            let next = node.counter.wrapping_add(16);
            let counters = [counters(node.counter), counters(next)];
            let mut frame = Frame { counters, out: MaybeUninit::uninit() };
            // SAFETY: it reads `node`, `IV` and `frame`, writes `frame.out`, and names every register
            // that it changes.
            unsafe {
                asm!(
                    $start,
                    in_round!(0 round! $states), in_round!(1 round! $states), in_round!(2 round! $states),
                    in_round!(3 round! $states), in_round!(4 round! $states), in_round!(5 round! $states),
                    in_round!(6 round! $states),
                    $finish,
                    // The compiler writes none for registers of text.
                    "vzeroupper",
                    node = in(reg) node,
                    iv = in(reg) &IV,
                    frame = in(reg) &raw mut frame,
                    CV = const offset_of!(Node, cv),
                    BLOCK = const offset_of!(Node, block),
                    LEN = const offset_of!(Node, len),
                    FLAGS = const offset_of!(Node, flags),
                    COUNTERS = const offset_of!(Frame, counters),
                    OUT = const offset_of!(Frame, out),
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
            for i in 0..$states {
                // SAFETY: the text has written the words of this many states, and `out` is valid for
                // sixteen blocks for each.
                unsafe {
                    let words = frame.out.as_ptr().cast::<[V; 16]>().add(i).read();
                    store_blocks(words, &mut *out.add(16 * i).cast());
                }
            }
        }
    };
}

macro_rules! start_first {
    () => { start!(0 [0 0, 1 1, 2 2, 3 3, 4 4, 5 5, 6 6, 7 7] [8 0, 9 1, 10 2, 11 3] 12 13 14 15) };
}

macro_rules! finish_first {
    () => { finish!(0 0 8 0, 1 9 1, 2 10 2, 3 11 3, 4 12 4, 5 13 5, 6 14 6, 7 15 7) };
}

output!(sixteen_blocks 1, start_first!(), finish_first!());
output!(thirty_two_blocks 2,
    concat!(start_first!(),
        start!(1 [16 0, 17 1, 18 2, 19 3, 20 4, 21 5, 22 6, 23 7] [24 0, 25 1, 26 2, 27 3] 28 29 30 31)),
    concat!(finish_first!(),
        finish!(1 16 24 0, 17 25 1, 18 26 2, 19 27 3, 20 28 4, 21 29 5, 22 30 6, 23 31 7)));
