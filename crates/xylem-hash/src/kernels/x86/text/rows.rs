//! One, two and four messages as rows: a vector holds four words of each message, so a state is four vectors. Four
//! messages are two interleaved states, as a single one waits for its own results half of the time.
//!
//! Registers 0 to 3 are the rows of the first state, 10 to 13 those of the second; `rounds.rs` mixes them.

use core::arch::asm;
use core::mem::{MaybeUninit, offset_of};

use super::{CONSTANTS, Constants};
use crate::batch::Batch;
use crate::constants::BLOCK_LEN;
use crate::kernels::One;

/// Makes the function for one message, for vectors of registers with these names.
macro_rules! one {
    ($(#[$doc:meta])* $name:ident $features:literal, $set:ident, $words:ident, $load:expr, [$($also:tt)*]) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The processor has the instruction set, the pointers of `one` are as its documentation requires, and `out`
        /// is valid for writing.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $name(one: &One, out: *mut [u8; BLOCK_LEN]) {
            // SAFETY: it reads `one`, what that points to, and constants, writes `out`, and names every register that
            // it changes.
            unsafe {
                asm!(
                    $set!(), rounds!(), $words!(),
                    r"
                    mov {at}, [{one}+{CV}]
                    xylem_ld xmm0, [{at}]
                    xylem_ld xmm1, [{at}+16]
                    mov {at}, [{one}+{AT}]
                    mov {left}, [{one}+{BLOCKS}]
                    lea {ends}, [{one}+{ENDS}]
                    2:
                    dec {left}
                    jnz 3f
                    mov {at}, [{one}+{LAST}]
                    lea {ends}, [{one}+{ENDS}+16]
                    3:
                    xylem_mv xmm12, xmm0
                    xylem_mv xmm13, xmm1
                    xylem_mv xmm2, [{k}+64]
                    xylem_q xmm3, [{one}+{COUNTER}]
                    xylem_q xmm8, [{ends}]
                    xylem_2 punpcklqdq, xmm3, xmm8
                    ",
                    $load,
                    r"
                    xylem_rounds xmm, 1
                    test {left}, {left}
                    jz 4f
                    xylem_2 pxor, xmm0, xmm2
                    xylem_2 pxor, xmm1, xmm3
                    add {at}, 64
                    lea {ends}, [{one}+{ENDS}+8]
                    jmp 2b
                    4:
                    xylem_2 pxor, xmm0, xmm2
                    xylem_2 pxor, xmm1, xmm3
                    xylem_2 pxor, xmm2, xmm12
                    xylem_2 pxor, xmm3, xmm13
                    xylem_st [{frame}], xmm0
                    xylem_st [{frame}+16], xmm1
                    xylem_st [{frame}+32], xmm2
                    xylem_st [{frame}+48], xmm3
                    xylem_leave
                    ",
                    $words!(end), rounds!(end), $set!(end),
                    one = in(reg) one,
                    // Two states keep words here; one state needs only its output.
                    frame = in(reg) out,
                    k = in(reg) &CONSTANTS,
                    at = out(reg) _,
                    left = out(reg) _,
                    ends = out(reg) _,
                    round = out(reg) _,
                    CV = const offset_of!(One, cv),
                    AT = const offset_of!(One, at),
                    LAST = const offset_of!(One, last),
                    BLOCKS = const offset_of!(One, blocks),
                    COUNTER = const offset_of!(One, counter),
                    ENDS = const offset_of!(One, ends),
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    $($also)*
                    options(nostack),
                );
            }
        }
    };
}

macro_rules! load_shuffled {
    () => {
        r"
        xylem_ld xmm4, [{at}]
        xylem_ld xmm5, [{at}+16]
        xylem_ld xmm6, [{at}+32]
        xylem_ld xmm7, [{at}+48]
        xylem_begin xmm
        "
    };
}

macro_rules! load_permuted {
    () => {
        r"
        lea {orders}, [{k}+{ORDERS}]
        vmovdqu32 xmm16, [{at}]
        vinserti32x4 ymm16, ymm16, [{at}+16], 1
        vmovdqu32 xmm17, [{at}+32]
        vinserti32x4 ymm17, ymm17, [{at}+48], 1
        "
    };
}

one! {
    /// One message, SSE4.1.
    sse_one "sse4.1", sse, shuffled, load_shuffled!(), []
}
one! {
    /// One message, AVX2.
    avx2_one "avx2", vex, shuffled, load_shuffled!(), []
}
one! {
    /// One message, AVX-512VL.
    avx512_one "avx2,avx512f,avx512vl", evex, permuted, load_permuted!(), [
        orders = out(reg) _,
        ORDERS = const offset_of!(Constants, one),
        out("xmm16") _, out("xmm17") _,
    ]
}

/// Words of four messages for the current round, if registers are few.
#[repr(C, align(64))]
struct Frame(MaybeUninit<[[[u32; 8]; 4]; 2]>);

/// Loads sixteen bytes of each of two lanes, from these places, into a register.
macro_rules! joins {
    () => {
        r"
        .macro xylem_join r low high at
        vmovdqu xmm\r, [\low+\at]
        vinserti128 ymm\r, ymm\r, [\high+\at], 1
        .endm
        .macro xylem_end r lane lens flags
        vmovd xmm\r, dword ptr [{batch}+{COUNTERS}+4*(\lane)]
        vpinsrd xmm\r, xmm\r, dword ptr [{batch}+{COUNTERS}+4*(\lane)+64], 1
        vpinsrd xmm\r, xmm\r, dword ptr [\lens], 2
        vpinsrd xmm\r, xmm\r, dword ptr [\flags], 3
        .endm
        .macro xylem_ends r lane
        xylem_end \r, \lane, {batch}+{ENDS}+4*\lane, {batch}+{ENDS}+64+4*\lane
        xylem_end 8, \lane+1, {batch}+{ENDS}+4*\lane+4, {batch}+{ENDS}+68+4*\lane
        vinserti128 ymm\r, ymm\r, xmm8, 1
        .endm
        .macro xylem_same r lane
        xylem_end \r, \lane, {k}+{FULL}, {flags}
        xylem_end 8, \lane+1, {k}+{FULL}, {flags}
        vinserti128 ymm\r, ymm\r, xmm8, 1
        .endm
        .macro xylem_widen low high
        .if {STATES} < {N}
        vinserti64x4 zmm\low, zmm\low, ymm\high, 1
        .endif
        .endm
        .macro xylem_narrow high all
        .if {STATES} < {N}
        vextracti64x4 ymm\high, zmm\all, 1
        .endif
        .endm
        .macro xylem_put r at
        vmovdqu [{c}+\at], xmm\r
        vextracti128 [{c}+\at+32], ymm\r, 1
        .endm
        "
    };
    (end) => {
        r"
        .irp name, xylem_join, xylem_end, xylem_ends, xylem_same, xylem_widen, xylem_narrow, xylem_put
        .purgem \name
        .endr
        "
    };
}

macro_rules! load_two {
    () => {
        r"
        xylem_join 4, {round}+{offset}, {b}+{offset}, 0
        xylem_join 5, {round}+{offset}, {b}+{offset}, 16
        xylem_join 6, {round}+{offset}, {b}+{offset}, 32
        xylem_join 7, {round}+{offset}, {b}+{offset}, 48
        xylem_begin ymm
        "
    };
}

macro_rules! load_four {
    () => {
        concat!(
            load_two!(),
            r"
        xylem_keep 0
        xylem_join 4, {c}+{offset}, {d}+{offset}, 0
        xylem_join 5, {c}+{offset}, {d}+{offset}, 16
        xylem_join 6, {c}+{offset}, {d}+{offset}, 32
        xylem_join 7, {c}+{offset}, {d}+{offset}, 48
        xylem_begin ymm
        xylem_keep 128
        "
        )
    };
}

macro_rules! permute_two {
    () => {
        r"
        lea {orders}, [{k}+{ORDERS}]
        xylem_block 16, {round}+{offset}
        xylem_block 17, {b}+{offset}
        "
    };
}

macro_rules! permute_four {
    () => {
        concat!(
            permute_two!(),
            r"
        xylem_block 18, {c}+{offset}
        xylem_block 19, {d}+{offset}
        "
        )
    };
}

/// Makes a [`crate::batch::Run`].
macro_rules! run {
    ($(#[$doc:meta])* $name:ident $features:literal, $set:ident, $words:ident, $v:literal, $n:literal, $states:literal, $load:expr, [$($also:tt)*]) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The processor has the instruction set, and the pointers of `batch` are as its documentation requires.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $name(batch: &mut Batch<'_>, blocks: usize) {
            let (cv, step): (_, usize) = match batch.key {
                Some(key) => (key.as_ptr(), 0),
                None => (batch.cvs.cast::<u32>().cast_const(), 32),
            };
            // SAFETY: it reads `batch`, the initial value of the lanes, and the blocks to which the batch's pointers
            // lead, as the caller guarantees. It writes `frame` and the lanes' places at `batch.cvs`, and names every
            // register that it changes.
            unsafe {
                asm!(
                    $set!(), rounds!(), $words!(), joins!(),
                    r"
                    lea {b}, [{round}+{c}]
                    xylem_join 0, {round}, {b}, 0
                    xylem_join 1, {round}, {b}, 16
                    .if {N} == 2
                    lea {b}, [{b}+{c}]
                    add {c}, {b}
                    xylem_join 10, {b}, {c}, 0
                    xylem_join 11, {b}, {c}, 16
                    .endif
                    xylem_widen 0, 10
                    xylem_widen 1, 11
                    lea {flags}, [{batch}+{FLAGS}]
                    xor {offset:e}, {offset:e}
                    2:
                    lea {orders}, [{batch}+{AT}]
                    dec {left}
                    jnz 3f
                    lea {orders}, [{batch}+{LAST}]
                    xor {offset:e}, {offset:e}
                    3:
                    mov {round}, [{orders}]
                    mov {b}, [{orders}+8]
                    .if {N} == 2
                    mov {c}, [{orders}+16]
                    mov {d}, [{orders}+24]
                    .endif
                    xylem_mv ymm2, [{k}+64]
                    .if {N} == 2
                    xylem_mv ymm12, ymm2
                    .endif
                    xylem_widen 2, 12
                    test {left}, {left}
                    jz 6f
                    xylem_same 3, 0
                    .if {N} == 2
                    xylem_same 13, 2
                    .endif
                    jmp 7f
                    6:
                    xylem_ends 3, 0
                    .if {N} == 2
                    xylem_ends 13, 2
                    .endif
                    7:
                    xylem_widen 3, 13
                    ",
                    $load,
                    concat!("xylem_rounds ", $v, ", {STATES}"),
                    concat!("xylem_both pxor, ", $v, ", {STATES}, 0, 2"),
                    concat!("xylem_both pxor, ", $v, ", {STATES}, 1, 3"),
                    r"
                    add {offset}, 64
                    lea {flags}, [{batch}+{FLAGS}+4]
                    test {left}, {left}
                    jnz 2b
                    mov {c}, [{batch}+{CVS}]
                    xylem_put 0, 0
                    xylem_put 1, 16
                    .if {N} == 2
                    xylem_narrow 10, 0
                    xylem_narrow 11, 1
                    xylem_put 10, 64
                    xylem_put 11, 80
                    .endif
                    vzeroupper
                    ",
                    joins!(end), $words!(end), rounds!(end), $set!(end),
                    batch = in(reg) batch,
                    k = in(reg) &CONSTANTS,
                    left = inout(reg) blocks => _,
                    round = inout(reg) cv => _,
                    b = out(reg) _,
                    c = inout(reg) step => _,
                    d = out(reg) _,
                    offset = out(reg) _,
                    orders = out(reg) _,
                    flags = out(reg) _,
                    N = const $n,
                    STATES = const $states,
                    COUNTERS = const offset_of!(Batch<'_>, counters),
                    ENDS = const offset_of!(Batch<'_>, ends),
                    FLAGS = const offset_of!(Batch<'_>, flags),
                    FULL = const offset_of!(Constants, full),
                    CVS = const offset_of!(Batch<'_>, cvs),
                    AT = const offset_of!(Batch<'_>, at),
                    LAST = const offset_of!(Batch<'_>, last),
                    out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
                    out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
                    out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
                    out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
                    $($also)*
                    options(nostack),
                );
            }
        }
    };
}

run! {
    /// Advances the first two lanes of `batch` by that many blocks, AVX2.
    avx2_two "avx2", vex, shuffled, "ymm", 1, 1, load_two!(), [
        frame = in(reg) Frame(MaybeUninit::uninit()).0.as_mut_ptr(),
    ]
}
run! {
    /// Advances the first four lanes of `batch` by that many blocks, AVX2.
    avx2_four "avx2", vex, shuffled, "ymm", 2, 2, load_four!(), [
        frame = in(reg) Frame(MaybeUninit::uninit()).0.as_mut_ptr(),
    ]
}
run! {
    /// Advances the first two lanes of `batch` by that many blocks, AVX-512VL.
    avx512_two "avx2,avx512f,avx512vl", evex, permuted, "ymm", 1, 1, permute_two!(), [
        ORDERS = const offset_of!(Constants, two), out("zmm16") _, out("zmm17") _,
    ]
}
run! {
    /// Advances the first four lanes of `batch` by that many blocks, AVX-512VL: two states of 256 bits.
    avx512_two_pairs "avx2,avx512f,avx512vl", evex, permuted, "ymm", 2, 2, permute_four!(), [
        ORDERS = const offset_of!(Constants, two),
        out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
    ]
}
run! {
    /// Advances the first four lanes of `batch` by that many blocks, AVX-512: one state of 512 bits.
    avx512_four "avx2,avx512f,avx512vl", evex, permuted, "zmm", 2, 1, permute_four!(), [
        ORDERS = const offset_of!(Constants, two),
        out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
    ]
}
