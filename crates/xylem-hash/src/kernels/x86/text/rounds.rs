//! The rounds of states as rows, and the ways to bring a block's words into the order of each round.

/// Rounds of `n` states of vectors `v`. `b` is added last, as all other steps wait for it. For the diagonals, `a`, `c`
/// and `d` are rotated by a lane each and `b` is not, for the same reason.
macro_rules! rounds {
    () => {
        r"
        .macro xylem_both op v n d s
        .ifc \op\v, pxorzmm
        vpxord zmm\d, zmm\d, zmm\s
        .else
        xylem_2 \op, \v\d, \v\s
        .endif
        .if \n == 2
        xylem_2 \op, \v\()1\d, \v\()1\s
        .endif
        .endm
        .macro xylem_turn v n r order
        xylem_i pshufd, \v\r, \v\r, \order
        .if \n == 2
        xylem_i pshufd, \v\()1\r, \v\()1\r, \order
        .endif
        .endm
        .macro xylem_right v n r count
        xylem_right_one \v\r, \v\()8, \count
        .if \n == 2
        xylem_right_one \v\()1\r, \v\()9, \count
        .endif
        .endm
        .macro xylem_half v n half
        xylem_words \v, \n, \half
        xylem_first \v, \n, \half
        xylem_both paddd, \v, \n, 0, 1
        xylem_both pxor, \v, \n, 3, 0
        xylem_right \v, \n, 3, 16
        xylem_both paddd, \v, \n, 2, 3
        xylem_both pxor, \v, \n, 1, 2
        xylem_right \v, \n, 1, 12
        xylem_second \v, \n, \half
        xylem_both paddd, \v, \n, 0, 1
        xylem_both pxor, \v, \n, 3, 0
        xylem_right \v, \n, 3, 8
        xylem_both paddd, \v, \n, 2, 3
        xylem_both pxor, \v, \n, 1, 2
        xylem_right \v, \n, 1, 7
        .endm
        .macro xylem_round v n
        xylem_half \v, \n, 0
        xylem_turn \v, \n, 0, 0x93
        xylem_turn \v, \n, 2, 0x39
        xylem_turn \v, \n, 3, 0x4e
        xylem_half \v, \n, 1
        xylem_turn \v, \n, 0, 0x39
        xylem_turn \v, \n, 2, 0x93
        xylem_turn \v, \n, 3, 0x4e
        .endm
        .macro xylem_rounds v n
        .if \n == 1
        mov {round:e}, 6
        .else
        mov {round:e}, 7
        .endif
        .p2align 4
        5:
        xylem_round \v, \n
        xylem_next \v, \n
        dec {round:e}
        jnz 5b
        .if \n == 1
        xylem_round \v, \n
        .endif
        .endm
        "
    };
    (end) => {
        r"
        .irp name, xylem_both, xylem_turn, xylem_right, xylem_half, xylem_round, xylem_rounds
        .purgem \name
        .endr
        "
    };
}

/// Brings words into the order of each round by shuffles inside four words, for 16 registers: of one state in registers
/// 4 to 7, of two in memory. A round's words have the order (0 2 4 6), (1 3 5 7), (14 8 10 12), (15 9 11 13).
macro_rules! shuffled {
    () => {
        r"
        .macro xylem_words v n half
        .endm
        .macro xylem_leave
        .endm
        .macro xylem_add v n first second
        .if \n == 1
        xylem_2 paddd, \v\()0, \v\first
        .else
        xylem_2 paddd, \v\()0, [{frame}+32*(\first-4)]
        xylem_2 paddd, \v\()10, [{frame}+32*\first]
        .endif
        .endm
        .macro xylem_first v n half
        .if \half == 0
        xylem_add \v, \n, 4
        .else
        xylem_add \v, \n, 6
        .endif
        .endm
        .macro xylem_second v n half
        .if \half == 0
        xylem_add \v, \n, 5
        .else
        xylem_add \v, \n, 7
        .endif
        .endm
        .macro xylem_order v
        xylem_3i shufps, \v\()9, \v\()4, \v\()5, 0xd9
        xylem_blend \v\()14, \v\()6, \v\()7, 3
        xylem_2i shufps, \v\()4, \v\()14, 0xe3
        xylem_blend \v\()15, \v\()6, \v\()7, 2
        xylem_blend \v\()14, \v\()6, \v\()5, 2
        xylem_2i shufps, \v\()15, \v\()14, 0x29
        xylem_3 punpckldq, \v\()14, \v\()7, \v\()5
        xylem_blend \v\()6, \v\()6, \v\()7, 1
        xylem_2i shufps, \v\()14, \v\()6, 0x74
        xylem_i pshufd, \v\()5, \v\()4, 0xd8
        xylem_i pshufd, \v\()4, \v\()9, 0x78
        .endm
        .macro xylem_keep at
        xylem_mv [{frame}+\at], ymm4
        xylem_mv [{frame}+\at+32], ymm5
        xylem_mv [{frame}+\at+64], ymm6
        xylem_mv [{frame}+\at+96], ymm7
        .endm
        .macro xylem_next_of v at
        xylem_mv \v\()4, [{frame}+\at]
        xylem_mv \v\()5, [{frame}+\at+32]
        xylem_mv \v\()6, [{frame}+\at+64]
        xylem_mv \v\()7, [{frame}+\at+96]
        xylem_order \v
        xylem_mv [{frame}+\at], \v\()4
        xylem_mv [{frame}+\at+32], \v\()5
        xylem_mv [{frame}+\at+64], \v\()14
        xylem_mv [{frame}+\at+96], \v\()15
        .endm
        .macro xylem_next v n
        .if \n == 1
        xylem_order \v
        xylem_mv \v\()6, \v\()14
        xylem_mv \v\()7, \v\()15
        .else
        xylem_next_of \v, 0
        xylem_next_of \v, 128
        .endif
        .endm
        .macro xylem_begin v
        xylem_3i shufps, \v\()9, \v\()4, \v\()5, 0x88
        xylem_2i shufps, \v\()4, \v\()5, 0xdd
        xylem_mv \v\()5, \v\()4
        xylem_mv \v\()4, \v\()9
        xylem_3i shufps, \v\()9, \v\()6, \v\()7, 0x88
        xylem_2i shufps, \v\()6, \v\()7, 0xdd
        xylem_i pshufd, \v\()7, \v\()6, 0x93
        xylem_i pshufd, \v\()6, \v\()9, 0x93
        .endm
        "
    };
    (end) => {
        r"
        .irp name, xylem_words, xylem_leave, xylem_add, xylem_first, xylem_second, xylem_order, xylem_keep, xylem_next_of, xylem_next, xylem_begin
        .purgem \name
        .endr
        "
    };
}

/// Brings words into the order of each round by permuting the whole block of one message, or the blocks of two:
/// registers 16 and 17, and 18 and 19 for the second state. Blocks are read sixteen bytes at a time, as they may just
/// have been written in that way: a longer read would wait until the writes have left the store queue.
macro_rules! permuted {
    () => {
        r"
        .macro xylem_leave
        vzeroupper
        .endm
        .macro xylem_block r at
        vmovdqu32 xmm\r, [\at]
        vinserti32x4 zmm\r, zmm\r, [\at+16], 1
        vinserti32x4 zmm\r, zmm\r, [\at+32], 2
        vinserti32x4 zmm\r, zmm\r, [\at+48], 3
        .endm
        .macro xylem_permute v to source other number half
        vmovdqa32 \v\to, [{orders}+\number*\half]
        vpermi2d \v\to, \v\source, \v\other
        .endm
        .macro xylem_words v n half
        .ifc \v, xmm
        xylem_permute ymm, 6, 16, 17, 32, \half
        .else
        xylem_permute zmm, 6, 16, 17, 64, \half
        .ifc \v, zmm
        xylem_permute zmm, 7, 18, 19, 64, \half
        .endif
        .if \n == 2
        xylem_permute zmm, 14, 18, 19, 64, \half
        .endif
        .endif
        .endm
        .macro xylem_first v n half
        .ifc \v, zmm
        vinserti64x4 zmm8, zmm6, ymm7, 1
        vpaddd zmm0, zmm0, zmm8
        .else
        vpaddd \v\()0, \v\()0, \v\()6
        .endif
        .if \n == 2
        vpaddd \v\()10, \v\()10, \v\()14
        .endif
        .endm
        .macro xylem_second v n half
        .ifc \v, xmm
        vextracti128 xmm7, ymm6, 1
        .else
        .ifc \v, zmm
        vshufi64x2 zmm7, zmm6, zmm7, 0xee
        .else
        vextracti64x4 ymm7, zmm6, 1
        .endif
        .if \n == 2
        vextracti64x4 ymm15, zmm14, 1
        vpaddd \v\()10, \v\()10, \v\()15
        .endif
        .endif
        vpaddd \v\()0, \v\()0, \v\()7
        .endm
        .macro xylem_next v n
        .ifc \v, xmm
        add {orders}, 64
        .else
        add {orders}, 128
        .endif
        .endm
        "
    };
    (end) => {
        r"
        .irp name, xylem_leave, xylem_block, xylem_permute, xylem_words, xylem_first, xylem_second, xylem_next
        .purgem \name
        .endr
        "
    };
}
