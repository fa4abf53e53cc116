//! The rounds of states as rows, and the ways to have the words of a block in the order of each round.

/// Rounds of `n` states of vectors `v`. `b` comes last in a sum: it is what everybody waits for. For
/// the diagonals, `a`, `c` and `d` are turned by a lane each and `b` stays, likewise.
macro_rules! rounds {
    () => {
        r"
        .macro x_both op v n d s
        .ifc \op\v, pxorzmm
        vpxord zmm\d, zmm\d, zmm\s
        .else
        x2 \op, \v\d, \v\s
        .endif
        .if \n == 2
        x2 \op, \v\()1\d, \v\()1\s
        .endif
        .endm
        .macro x_turn v n r order
        xi pshufd, \v\r, \v\r, \order
        .if \n == 2
        xi pshufd, \v\()1\r, \v\()1\r, \order
        .endif
        .endm
        .macro x_right v n r count
        x_right_one \v\r, \v\()8, \count
        .if \n == 2
        x_right_one \v\()1\r, \v\()9, \count
        .endif
        .endm
        .macro x_half v n half
        x_words \v, \n, \half
        x_first \v, \n, \half
        x_both paddd, \v, \n, 0, 1
        x_both pxor, \v, \n, 3, 0
        x_right \v, \n, 3, 16
        x_both paddd, \v, \n, 2, 3
        x_both pxor, \v, \n, 1, 2
        x_right \v, \n, 1, 12
        x_second \v, \n, \half
        x_both paddd, \v, \n, 0, 1
        x_both pxor, \v, \n, 3, 0
        x_right \v, \n, 3, 8
        x_both paddd, \v, \n, 2, 3
        x_both pxor, \v, \n, 1, 2
        x_right \v, \n, 1, 7
        .endm
        .macro x_round v n
        x_half \v, \n, 0
        x_turn \v, \n, 0, 0x93
        x_turn \v, \n, 2, 0x39
        x_turn \v, \n, 3, 0x4e
        x_half \v, \n, 1
        x_turn \v, \n, 0, 0x39
        x_turn \v, \n, 2, 0x93
        x_turn \v, \n, 3, 0x4e
        .endm
        .macro x_rounds v n
        .if \n == 1
        mov {round:e}, 6
        .else
        mov {round:e}, 7
        .endif
        .p2align 4
        5:
        x_round \v, \n
        x_next \v, \n
        dec {round:e}
        jnz 5b
        .if \n == 1
        x_round \v, \n
        .endif
        .endm
        "
    };
    (end) => {
        r"
        .irp name, x_both, x_turn, x_right, x_half, x_round, x_rounds
        .purgem \name
        .endr
        "
    };
}

/// Words in the order of each round by shuffles inside four words, where there are 16 registers: of
/// one state in registers 4 to 7, of two in memory. A round's words stand in the order
/// (0 2 4 6), (1 3 5 7), (14 8 10 12), (15 9 11 13).
macro_rules! shuffled {
    () => {
        r"
        .macro x_words v n half
        .endm
        .macro x_leave
        .endm
        .macro x_add v n first second
        .if \n == 1
        x2 paddd, \v\()0, \v\first
        .else
        x2 paddd, \v\()0, [{frame}+32*(\first-4)]
        x2 paddd, \v\()10, [{frame}+32*\first]
        .endif
        .endm
        .macro x_first v n half
        .if \half == 0
        x_add \v, \n, 4
        .else
        x_add \v, \n, 6
        .endif
        .endm
        .macro x_second v n half
        .if \half == 0
        x_add \v, \n, 5
        .else
        x_add \v, \n, 7
        .endif
        .endm
        .macro x_order v
        x3i shufps, \v\()9, \v\()4, \v\()5, 0xd9
        xblend \v\()14, \v\()6, \v\()7, 3
        x2i shufps, \v\()4, \v\()14, 0xe3
        xblend \v\()15, \v\()6, \v\()7, 2
        xblend \v\()14, \v\()6, \v\()5, 2
        x2i shufps, \v\()15, \v\()14, 0x29
        x3 punpckldq, \v\()14, \v\()7, \v\()5
        xblend \v\()6, \v\()6, \v\()7, 1
        x2i shufps, \v\()14, \v\()6, 0x74
        xi pshufd, \v\()5, \v\()4, 0xd8
        xi pshufd, \v\()4, \v\()9, 0x78
        .endm
        .macro x_keep at
        xmv [{frame}+\at], ymm4
        xmv [{frame}+\at+32], ymm5
        xmv [{frame}+\at+64], ymm6
        xmv [{frame}+\at+96], ymm7
        .endm
        .macro x_next_of v at
        xmv \v\()4, [{frame}+\at]
        xmv \v\()5, [{frame}+\at+32]
        xmv \v\()6, [{frame}+\at+64]
        xmv \v\()7, [{frame}+\at+96]
        x_order \v
        xmv [{frame}+\at], \v\()4
        xmv [{frame}+\at+32], \v\()5
        xmv [{frame}+\at+64], \v\()14
        xmv [{frame}+\at+96], \v\()15
        .endm
        .macro x_next v n
        .if \n == 1
        x_order \v
        xmv \v\()6, \v\()14
        xmv \v\()7, \v\()15
        .else
        x_next_of \v, 0
        x_next_of \v, 128
        .endif
        .endm
        .macro x_begin v
        x3i shufps, \v\()9, \v\()4, \v\()5, 0x88
        x2i shufps, \v\()4, \v\()5, 0xdd
        xmv \v\()5, \v\()4
        xmv \v\()4, \v\()9
        x3i shufps, \v\()9, \v\()6, \v\()7, 0x88
        x2i shufps, \v\()6, \v\()7, 0xdd
        xi pshufd, \v\()7, \v\()6, 0x93
        xi pshufd, \v\()6, \v\()9, 0x93
        .endm
        "
    };
    (end) => {
        r"
        .irp name, x_words, x_leave, x_add, x_first, x_second, x_order, x_keep, x_next_of, x_next, x_begin
        .purgem \name
        .endr
        "
    };
}

/// Words in the order of each round by a permutation of a whole block of one message, or of the blocks
/// of two: 16 and 17, and 18 and 19 of the second state. Blocks are read sixteen bytes at a time, as what
/// was written just before: a longer read would wait until that has left the store queue.
macro_rules! permuted {
    () => {
        r"
        .macro x_leave
        vzeroupper
        .endm
        .macro x_block r at
        vmovdqu32 xmm\r, [\at]
        vinserti32x4 zmm\r, zmm\r, [\at+16], 1
        vinserti32x4 zmm\r, zmm\r, [\at+32], 2
        vinserti32x4 zmm\r, zmm\r, [\at+48], 3
        .endm
        .macro x_permute v to source other number half
        vmovdqa32 \v\to, [{orders}+\number*\half]
        vpermi2d \v\to, \v\source, \v\other
        .endm
        .macro x_words v n half
        .ifc \v, xmm
        x_permute ymm, 6, 16, 17, 32, \half
        .else
        x_permute zmm, 6, 16, 17, 64, \half
        .ifc \v, zmm
        x_permute zmm, 7, 18, 19, 64, \half
        .endif
        .if \n == 2
        x_permute zmm, 14, 18, 19, 64, \half
        .endif
        .endif
        .endm
        .macro x_first v n half
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
        .macro x_second v n half
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
        .macro x_next v n
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
        .irp name, x_leave, x_block, x_permute, x_words, x_first, x_second, x_next
        .purgem \name
        .endr
        "
    };
}
