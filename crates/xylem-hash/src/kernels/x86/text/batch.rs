//! Eight and sixteen lanes of a [`Batch`] with AVX-512. One state uses sixteen registers. In the other sixteen the next
//! block is transposed from lines to columns, a little after every half of a half round. With the last block, the last
//! one is transposed once more: separate rounds without it would double the text.

use core::arch::asm;
use core::mem::{MaybeUninit, offset_of};

use super::{CONSTANTS, Constants};
use crate::backend::MAX_LANES;
use crate::batch::Batch;

/// The words of a block, and of the next one; vectors of eight words use the first half.
#[repr(C, align(64))]
struct Frame(MaybeUninit<[[[u32; 16]; 16]; 2]>);

/// Loads lines `i` and `i + 4` into one register: half a block of each for sixteen lanes, a quarter for eight. Also the
/// part of the transposition after the `n`-th half of a half round. A block's first part also prefetches what the next
/// batch may need.
macro_rules! sixteen {
    () => {
        r"
        .macro xylem_z_line half r i
        mov {line}, [{at}+8*\i]
        vmovdqu32 ymm\r, [{line}+{offset}+32*\half]
        .if \half == 0
        prefetcht1 [{line}+{offset}+16384]
        .endif
        mov {line}, [{at}+8*\i+32]
        vinserti64x4 zmm\r, zmm\r, [{line}+{offset}+32*\half], 1
        .if \half == 0
        prefetcht1 [{line}+{offset}+16384]
        .endif
        .endm
        .macro xylem_z_finish half i a b t0 t1
        vshufi32x4 zmm\t0, zmm\a, zmm\b, 0x88
        vmovdqa32 [{next}+512*\half+64*\i], zmm\t0
        vshufi32x4 zmm\t1, zmm\a, zmm\b, 0xdd
        vmovdqa32 [{next}+512*\half+64*\i+256], zmm\t1
        .endm
        .macro xylem_z_part_of half i
        .if \i == 0
        xylem_z_line \half, 16, 0
        xylem_z_line \half, 17, 1
        .elseif \i == 1
        xylem_z_line \half, 18, 2
        xylem_z_line \half, 19, 3
        .elseif \i == 2
        xylem_z_pairs_of_words zmm, 24, 25, 26, 27, 16, 17, 18, 19
        .elseif \i == 3
        xylem_z_line \half, 20, 8
        xylem_z_line \half, 21, 9
        .elseif \i == 4
        xylem_z_fours_of_words zmm, 16, 17, 18, 19, 24, 25, 26, 27
        .elseif \i == 5
        xylem_z_line \half, 22, 10
        xylem_z_line \half, 23, 11
        .elseif \i == 6
        xylem_z_pairs_of_words zmm, 28, 29, 30, 31, 20, 21, 22, 23
        .elseif \i == 7
        xylem_z_fours_of_words zmm, 20, 21, 22, 23, 28, 29, 30, 31
        .elseif \i == 8
        xylem_z_finish \half, 0, 16, 20, 24, 25
        .elseif \i == 9
        xylem_z_finish \half, 1, 17, 21, 26, 27
        .elseif \i == 10
        xylem_z_finish \half, 2, 18, 22, 28, 29
        .elseif \i == 11
        xylem_z_finish \half, 3, 19, 23, 30, 31
        .endif
        .endm
        .macro xylem_z_part n
        .if \n < 14
        xylem_z_part_of 0, (\n)
        .else
        xylem_z_part_of 1, (\n-14)
        .endif
        .endm
        .macro xylem_z_lane_line v r half i
        vmovdqu32 xmm\r, [{line}+16*\half+32*\i]
        vinserti32x4 ymm\r, ymm\r, [{line}+16*\half+32*\i+128], 1
        vinserti32x4 zmm\r, zmm\r, [{line}+16*\half+32*\i+256], 2
        vinserti32x4 zmm\r, zmm\r, [{line}+16*\half+32*\i+384], 3
        .endm
        "
    };
}

macro_rules! eight {
    () => {
        r"
        .macro xylem_z_line quarter r i
        mov {line}, [{at}+8*\i]
        vmovdqu32 xmm\r, [{line}+{offset}+16*\quarter]
        .if \quarter == 0
        prefetcht1 [{line}+{offset}+8192]
        .endif
        mov {line}, [{at}+8*\i+32]
        vinserti32x4 ymm\r, ymm\r, [{line}+{offset}+16*\quarter], 1
        .if \quarter == 0
        prefetcht1 [{line}+{offset}+8192]
        .endif
        .endm
        .macro xylem_z_finish at a b c d
        vmovdqa32 [{next}+\at], ymm\a
        vmovdqa32 [{next}+\at+32], ymm\b
        vmovdqa32 [{next}+\at+64], ymm\c
        vmovdqa32 [{next}+\at+96], ymm\d
        .endm
        .macro xylem_z_part_of quarter i
        .if \i == 0
        xylem_z_line \quarter, 16, 0
        xylem_z_line \quarter, 17, 1
        .elseif \i == 1
        xylem_z_line \quarter, 18, 2
        xylem_z_line \quarter, 19, 3
        .elseif \i == 2
        xylem_z_pairs_of_words ymm, 20, 21, 22, 23, 16, 17, 18, 19
        .elseif \i == 4
        xylem_z_fours_of_words ymm, 16, 17, 18, 19, 20, 21, 22, 23
        xylem_z_finish 128*(\quarter), 16, 17, 18, 19
        .endif
        .endm
        .macro xylem_z_part n
        .if \n < 5
        xylem_z_part_of 0, (\n)
        .elseif \n < 10
        xylem_z_part_of 1, (\n-5)
        .elseif \n < 15
        xylem_z_part_of 2, (\n-10)
        .elseif \n < 20
        xylem_z_part_of 3, (\n-15)
        .endif
        .endm
        .macro xylem_z_lane_line v r half i
        vmovdqu32 xmm\r, [{line}+16*\half+32*\i]
        vinserti32x4 ymm\r, ymm\r, [{line}+16*\half+32*\i+128], 1
        .endm
        "
    };
}

/// Makes a [`crate::batch::Run`].
macro_rules! run {
    ($(#[$doc:meta])* $name:ident $v:literal $bytes:literal $lanes:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The processor has the instruction set, and the pointers of `batch` are as its documentation requires.
        #[target_feature(enable = "avx2,avx512f,avx512vl")]
        pub(crate) unsafe fn $name(batch: &mut Batch<'_>, blocks: usize) {
            let mut frame = Frame(MaybeUninit::uninit());
            // SAFETY: it reads `batch`, the key if there is one, and the blocks to which the batch's pointers lead, as
            // the caller guarantees. It writes `frame` and the lanes' places at `batch.cvs`, and names every register
            // that it changes. Prefetched addresses need not be valid.
            unsafe {
                asm!(
                    wide!(), $lanes!(),
                    r#"
                    .macro xylem_z_word v set r word
                    vpaddd \v\r, \v\r, [{words}+{B}*\word]
                    .endm
                    .macro xylem_z_beside round k half
                    .if \k == 6
                    xylem_z_part (\round*4+\half*2)
                    .elseif \k == 13
                    xylem_z_part (\round*4+\half*2+1)
                    .endif
                    .endm
                    .macro xylem_z_body v
                    xylem_z_states \v
                    mov {line}, [{batch}+{KEY}]
                    test {line}, {line}
                    jz 2f
                    .irp i, 0, 1, 2, 3, 4, 5, 6, 7
                    vpbroadcastd \v\i, dword ptr [{line}+4*\i]
                    .endr
                    jmp 3f
                    2:
                    mov {line}, [{batch}+{CVS}]
                    .irp i, 0, 1, 2, 3
                    xylem_z_lane_line \v, 2\i, 0, \i
                    xylem_z_lane_line \v, 1\i, 1, \i
                    .endr
                    xylem_z_pairs_of_words \v, 24, 25, 26, 27, 20, 21, 22, 23
                    xylem_z_fours_of_words \v, 0, 1, 2, 3, 24, 25, 26, 27
                    xylem_z_pairs_of_words \v, 24, 25, 26, 27, 10, 11, 12, 13
                    xylem_z_fours_of_words \v, 4, 5, 6, 7, 24, 25, 26, 27
                    3:
                    lea {at}, [{batch}+{AT}]
                    lea {line}, [{batch}+{LAST}]
                    lea {flags}, [{batch}+{FLAGS}]
                    xor {offset:e}, {offset:e}
                    cmp {left}, 1
                    cmove {at}, {line}
                    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
                    xylem_z_part \n
                    .endr
                    .irp n, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25
                    xylem_z_part \n
                    .endr
                    xchg {words}, {next}
                    .p2align 5
                    4:
                    .irp i, 8, 9, 10, 11
                    vpbroadcastd \v\i, dword ptr [{k}+32+4*\i]
                    .endr
                    vmovdqa32 \v\()12, [{batch}+{COUNTERS}]
                    vmovdqa32 \v\()13, [{batch}+{COUNTERS}+64]
                    vpbroadcastd \v\()14, dword ptr [{k}+{FULL}]
                    vpbroadcastd \v\()15, dword ptr [{flags}]
                    lea {flags}, [{batch}+{FLAGS}+4]
                    add {offset}, 64
                    cmp {left}, 2
                    ja 6f
                    lea {at}, [{batch}+{LAST}]
                    mov {offset:e}, 0
                    je 6f
                    vmovdqa32 \v\()14, [{batch}+{ENDS}]
                    vmovdqa32 \v\()15, [{batch}+{ENDS}+64]
                    6:
                    xylem_z_0 xylem_z_one, 0, "xylem_z_beside 0,"
                    xylem_z_1 xylem_z_one, 0, "xylem_z_beside 1,"
                    xylem_z_2 xylem_z_one, 0, "xylem_z_beside 2,"
                    xylem_z_3 xylem_z_one, 0, "xylem_z_beside 3,"
                    xylem_z_4 xylem_z_one, 0, "xylem_z_beside 4,"
                    xylem_z_5 xylem_z_one, 0, "xylem_z_beside 5,"
                    xylem_z_6 xylem_z_one, 0, "xylem_z_beside 6,"
                    xchg {words}, {next}
                    dec {left}
                    jz 7f
                    xylem_z_four vpxord, \v, 0, 1, 2, 3, 8, 9, 10, 11
                    xylem_z_four vpxord, \v, 4, 5, 6, 7, 12, 13, 14, 15
                    jmp 4b
                    7:
                    mov {line}, [{batch}+{CVS}]
                    xylem_z_put \v, {line}, 0, 1, 2, 3, 8, 9, 10, 11
                    xylem_z_put \v, {line}+16, 4, 5, 6, 7, 12, 13, 14, 15
                    vzeroupper
                    .endm
                    "#,
                    concat!("xylem_z_body ", $v),
                    wide!(end),
                    r"
                    .irp name, xylem_z_line, xylem_z_finish, xylem_z_part_of, xylem_z_part, xylem_z_lane_line, xylem_z_beside, xylem_z_body
                    .purgem \name
                    .endr
                    ",
                    batch = in(reg) batch,
                    k = in(reg) &CONSTANTS,
                    words = inout(reg) frame.0.as_mut_ptr().cast::<[u32; 256]>().wrapping_add(1) => _,
                    next = inout(reg) frame.0.as_mut_ptr() => _,
                    left = inout(reg) blocks => _,
                    line = out(reg) _,
                    at = out(reg) _,
                    flags = out(reg) _,
                    offset = out(reg) _,
                    B = const $bytes,
                    FULL = const offset_of!(Constants, full),
                    CVS = const offset_of!(Batch<'_>, cvs),
                    COUNTERS = const offset_of!(Batch<'_>, counters),
                    ENDS = const offset_of!(Batch<'_>, ends),
                    AT = const offset_of!(Batch<'_>, at),
                    LAST = const offset_of!(Batch<'_>, last),
                    KEY = const offset_of!(Batch<'_>, key),
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

// Counters and ends are read 64 bytes apart, and values are written for all lanes.
const _: () = assert!(MAX_LANES == 16);

run! {
    /// Advances the first sixteen lanes of `batch` by that many blocks.
    sixteen "zmm" 64 sixteen
}
run! {
    /// Advances the first eight lanes of `batch` by that many blocks.
    eight "ymm" 32 eight
}
