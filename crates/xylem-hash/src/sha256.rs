//! [`sha256_many`]: SHA-256 of unrelated messages side by side, as NDN packets are signed with it.
//!
//! SHA-256 allows no parallelism within one message; sixteen messages have it. docs/hash-engine.md, "SHA-256", has the
//! figures. This does not replace other implementations: on processors without sixteen lanes the caller uses its own.

/// Messages of one run.
pub const SHA256_LANES: usize = 16;

/// Section 5.3.3 of FIPS 180-4.
const INITIAL: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// Returns whether [`sha256_many`] works here: on an x86-64 processor with AVX-512 F and BW.
#[inline]
#[must_use]
pub fn has_sha256_many() -> bool {
    #[cfg(all(target_arch = "x86_64", target_pointer_width = "64", target_feature = "sse2"))]
    return crate::kernels::sha256::is_supported();
    #[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64", target_feature = "sse2")))]
    false
}

/// Writes the SHA-256 of each of `messages` to the same place of `out`. Returns false and writes nothing if [the
/// processor has no lanes](has_sha256_many).
///
/// A run takes as long for one message as for [`SHA256_LANES`], and as long as its longest message. It is worth it from
/// six messages of about one length on.
///
/// # Panics
/// If there are more messages than lanes, or not one place for each.
#[inline]
#[must_use]
pub fn sha256_many(messages: &[&[u8]], out: &mut [[u8; 32]]) -> bool {
    assert!(messages.len() <= SHA256_LANES && messages.len() == out.len(), "one place for each");
    if messages.is_empty() || !has_sha256_many() {
        return false;
    }
    let mut lanes = [Lane::default(); SHA256_LANES];
    let mut tails = [[0; 128]; SHA256_LANES];
    for ((lane, message), tail) in lanes.iter_mut().zip(messages).zip(&mut tails) {
        *lane = Lane::new(message, tail);
    }
    let mut states = [[0; SHA256_LANES]; 8];
    for i in 0..8 {
        states[i] = [INITIAL[i]; SHA256_LANES];
    }
    loop {
        // `step` blocks are contiguous in every lane that has not ended. Ended lanes follow along with another lane's
        // blocks and keep their state.
        let mut step = usize::MAX;
        let mut longest = 0;
        let mut mask = 0;
        for i in 0..SHA256_LANES {
            if let Some(blocks) = lanes[i].front() {
                step = step.min(blocks.len());
                longest = i;
                mask |= 1 << i;
            }
        }
        let Some(other) = lanes[longest].front() else { break };
        let mut run = [&other[..step]; SHA256_LANES];
        for i in 0..SHA256_LANES {
            if let Some(blocks) = lanes[i].front() {
                run[i] = &blocks[..step];
            }
        }
        compress(&mut states, &run, mask);
        for i in 0..SHA256_LANES {
            lanes[i].advance(step);
        }
    }
    for i in 0..out.len() {
        for word in 0..8 {
            out[i].as_chunks_mut::<4>().0[word] = states[word][i].to_be_bytes();
        }
    }
    true
}

#[inline]
fn compress(states: &mut [[u32; 16]; 8], lanes: &[&[[u8; 64]]; 16], mask: u16) {
    #[cfg(all(target_arch = "x86_64", target_pointer_width = "64", target_feature = "sse2"))]
    // SAFETY: `sha256_many` calls this only if the processor has the instructions.
    unsafe {
        crate::kernels::sha256::compress(states, lanes, mask);
    }
    #[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64", target_feature = "sse2")))]
    let _ = (states, lanes, mask);
}

/// The rest of a message: its own blocks, then those that padding completes.
#[derive(Clone, Copy, Default)]
struct Lane<'a> {
    whole: &'a [[u8; 64]],
    tail: &'a [[u8; 64]],
}

impl<'a> Lane<'a> {
    /// Pads a message (section 5.1.1) into `room`.
    #[inline]
    fn new(message: &'a [u8], room: &'a mut [u8; 128]) -> Self {
        let (whole, rest) = message.as_chunks::<64>();
        room[..rest.len()].copy_from_slice(rest);
        room[rest.len()] = 0x80;
        let end = if rest.len() < 56 { 64 } else { 128 };
        room[end - 8..end].copy_from_slice(&(message.len() as u64 * 8).to_be_bytes());
        Self { whole, tail: room[..end].as_chunks().0 }
    }

    /// The contiguous blocks at the front; `None` at the end.
    #[inline]
    fn front(&self) -> Option<&'a [[u8; 64]]> {
        [self.whole, self.tail].into_iter().find(|blocks| !blocks.is_empty())
    }

    /// Advances by at most the length of [`Self::front`].
    #[inline]
    fn advance(&mut self, blocks: usize) {
        let front = if self.whole.is_empty() { &mut self.tail } else { &mut self.whole };
        *front = front.get(blocks..).unwrap_or_default();
    }
}
