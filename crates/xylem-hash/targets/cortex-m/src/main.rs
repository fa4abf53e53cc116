//! The official vectors on a Cortex-M4: no operating system, no std, no allocator.
//!
//! Runs in QEMU (mps2-an386) and speaks through Arm semihosting: what it prints goes to QEMU's
//! standard error, and QEMU exits with 0 only if every vector came out right.
#![no_std]
#![no_main]

use core::arch::{asm, global_asm};
use core::fmt::{self, Write};
use core::panic::PanicInfo;

use xylem_hash::{Hash, Hasher, hash_many, keyed_hash, platform};

const VECTORS: &str = include_str!("../../../tests/data/vectors.txt");

global_asm!(
    ".section .vectors, \"a\"",
    ".word stack_top",
    ".word reset",
    // NMI and the faults.
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

/// Asks the debugger, that is QEMU, to do something.
fn semihost(operation: u32, argument: u32) {
    // SAFETY: QEMU runs with semihosting on, and takes this instruction for a call; what it reads
    // is a string of ours that lives across the call, or nothing.
    unsafe {
        asm!("bkpt 0xab", inout("r0") operation => _, in("r1") argument, options(nostack));
    }
}

fn exit(code: u32) -> ! {
    loop {
        semihost(SYS_EXIT, code);
    }
}

struct Console;

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
    exit(FAILURE)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let _ = writeln!(Console, "{info}");
    exit(FAILURE)
}

#[unsafe(no_mangle)]
extern "C" fn reset() -> ! {
    let lengths = official_vectors();
    batches();
    let _ = writeln!(
        Console,
        "Cortex-M4, {}: {lengths} official lengths in 3 modes, batches",
        platform()
    );
    exit(SUCCESS)
}

/// Bytes that repeat with a period of 251, as in the official vectors.
fn fed(mut hasher: Hasher, len: usize, piece: usize) -> Hasher {
    let mut buffer = [0; 3_000];
    let mut at = 0;
    while at < len {
        let now = piece.min(len - at);
        for (i, byte) in buffer[..now].iter_mut().enumerate() {
            *byte = ((at + i) % 251) as u8;
        }
        hasher.update(&buffer[..now]);
        at += now;
    }
    hasher
}

fn official_vectors() -> usize {
    let mut lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    let key = lines.next().and_then(|line| line.strip_prefix("key ")).expect("a key");
    let key: &[u8; 32] = key.as_bytes().try_into().expect("32 bytes");
    let context = lines.next().and_then(|line| line.strip_prefix("context ")).expect("a context");
    let mut count = 0;
    for line in lines {
        let mut fields = line.split(' ');
        let len = fields.next().and_then(|len| len.parse().ok()).expect("a length");
        let hashers = [Hasher::new(), Hasher::new_keyed(key), Hasher::new_derive_key(context)];
        for hasher in hashers {
            let want = fields.next().expect("three outputs");
            for piece in [777, 3_000] {
                let hasher = fed(hasher.clone(), len, piece);
                let mut out = [0; 131];
                hasher.finalize_xof().fill(&mut out);
                for (i, byte) in out.iter().enumerate() {
                    let want = u8::from_str_radix(&want[2 * i..2 * i + 2], 16).expect("hex");
                    assert_eq!(*byte, want, "byte {i} of {len} bytes by {piece}");
                }
            }
        }
        assert!(fields.next().is_none());
        count += 1;
    }
    assert_eq!(count, 35);
    count
}

/// Several messages at once: each as a hasher makes it, fed byte by byte.
fn batches() {
    let mut bytes = [0; 2_500];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = (i % 253) as u8;
    }
    let messages = [&bytes[..0], &bytes[1..1_026], &bytes[3..], &bytes[..64], &bytes[7..2_055]];
    let mut hashes = [Hash::from_bytes([0; 32]); 5];
    hash_many(&messages, &mut hashes);
    for (message, hash) in messages.iter().zip(hashes) {
        let mut hasher = Hasher::new();
        for byte in *message {
            hasher.update(&[*byte]);
        }
        assert!(hasher.finalize() == hash, "{} bytes", message.len());
        assert!(keyed_hash(&[1; 32], message) != hash);
    }
}
