//! An x86-64 processor in Bochs, which emulates AVX-512. Output goes to Bochs's standard output by port 0xe9; the
//! script looks for the last line, which is printed only on success.
//!
//! The image is a disk. Its first sector, loaded by the BIOS, loads the rest right behind itself, enters 64-bit mode
//! with the first 2 MiB of memory identity-mapped, and enables the vector registers.

use core::arch::{asm, global_asm};
use core::fmt::{self, Write};

global_asm!(
    ".section .boot, \"ax\"",
    ".code16",
    ".global boot",
    "boot:",
    "cli",
    "xor ax, ax",
    "mov ds, ax",
    "mov es, ax",
    "mov ss, ax",
    "mov sp, 0x7c00",
    // Twelve reads of 64 sectors, by the BIOS (interrupt 0x13, function 0x42).
    "mov cx, 12",
    "2:",
    "push cx",
    "mov si, offset packet",
    "mov ah, 0x42",
    "mov dl, 0x80",
    "int 0x13",
    "jc 3f",
    "pop cx",
    "add word ptr [packet + 6], 0x800",
    "add word ptr [packet + 8], 64",
    "loop 2b",
    "jmp 4f",
    "3:",
    "hlt",
    "jmp 3b",
    "4:",
    // Page tables at 0x1000, 0x2000, 0x3000: one page of 2 MiB.
    "cld",
    "xor eax, eax",
    "mov edi, 0x1000",
    "mov ecx, 0xc00",
    "rep stosd",
    "mov dword ptr [0x1000], 0x2003",
    "mov dword ptr [0x2000], 0x3003",
    "mov dword ptr [0x3000], 0x83",
    "mov eax, 0x1000",
    "mov cr3, eax",
    // Enables physical address extension, SSE with its exceptions, XSAVE.
    "mov eax, 0x40620",
    "mov cr4, eax",
    // Long mode.
    "mov ecx, 0xc0000080",
    "rdmsr",
    "or eax, 0x100",
    "wrmsr",
    "lgdt [descriptors_at]",
    "mov eax, cr0",
    "and eax, 0xfffffffb",
    "or eax, 0x80000003",
    "mov cr0, eax",
    ".byte 0xea",
    ".word long, 8",
    ".align 4",
    "packet:",
    ".byte 16, 0",
    ".word 64, 0, 0x7e0",
    ".quad 1",
    ".align 8",
    "descriptors:",
    ".quad 0, 0x00209a0000000000, 0x0000920000000000",
    "descriptors_at:",
    ".word 23",
    ".long descriptors",
    ".code64",
    "long:",
    "mov ax, 16",
    "mov ds, ax",
    "mov es, ax",
    "mov ss, ax",
    // Enables all vector state: x87, SSE, AVX, and the three parts of AVX-512.
    "xor ecx, ecx",
    "xor edx, edx",
    "mov eax, 0xe7",
    "xsetbv",
    "mov esp, 0x90000",
    "call start",
    ".org 510",
    ".word 0xaa55",
);

// The compiler calls memcpy and similar functions; musl's need no start-up code.
#[link(name = "c", kind = "static")]
unsafe extern "C" {}

pub struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            out(0xe9, byte);
        }
        Ok(())
    }
}

fn out(port: u16, byte: u8) {
    // SAFETY: both ports are Bochs's own, and have no effect on memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") byte, options(nomem, nostack)) };
}

/// Stops Bochs. The printed output states whether the run succeeded.
pub fn exit(_success: bool) -> ! {
    loop {
        for byte in "Shutdown".bytes() {
            out(0x8900, byte);
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    crate::run()
}
