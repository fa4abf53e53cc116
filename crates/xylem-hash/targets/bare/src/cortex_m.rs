//! A Cortex-M4 in QEMU (mps2-an386), with output by Arm semihosting: it goes to QEMU's standard error, and QEMU exits
//! with 0 only if every check passed.

use core::arch::{asm, global_asm};
use core::fmt::{self, Write};

global_asm!(
    ".section .vectors, \"a\"",
    ".word stack_top",
    ".word reset",
    // Vectors of NMI and the faults.
    ".rept 14",
    ".word fault",
    ".endr",
);

// Semihosting operations (Arm, "Semihosting for AArch32 and AArch64", section 6).
const SYS_WRITE0: u32 = 0x04;
const SYS_EXIT: u32 = 0x18;
/// `ADP_Stopped_ApplicationExit`.
const SUCCESS: u32 = 0x20026;
/// `ADP_Stopped_RunTimeErrorUnknown`.
const FAILURE: u32 = 0x20023;

/// Requests an operation from the debugger, here QEMU.
fn semihost(operation: u32, argument: u32) {
    // SAFETY: QEMU runs with semihosting enabled and takes this instruction as a call. It reads a string of this
    // program that outlives the call, or nothing.
    unsafe {
        asm!("bkpt 0xab", inout("r0") operation => _, in("r1") argument, options(nostack));
    }
}

pub fn exit(success: bool) -> ! {
    loop {
        semihost(SYS_EXIT, if success { SUCCESS } else { FAILURE });
    }
}

pub struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.as_bytes().chunks(63) {
            let mut terminated = [0; 64];
            terminated[..piece.len()].copy_from_slice(piece);
            semihost(SYS_WRITE0, terminated.as_ptr() as u32);
        }
        Ok(())
    }
}

#[unsafe(no_mangle)]
extern "C" fn fault() -> ! {
    let _ = Console.write_str("a processor fault\n");
    exit(false)
}

#[unsafe(no_mangle)]
extern "C" fn reset() -> ! {
    crate::run()
}
