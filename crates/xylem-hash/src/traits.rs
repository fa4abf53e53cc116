//! Implements the traits of the RustCrypto project's [`digest`] crate, for code that is generic over hashes.
//!
//! `digest` is not at version 1 yet: with the feature `traits-preview`, its version is part of this crate's interface.

pub use digest;

use digest::array::Array;
use digest::array::typenum::{U32, U64};
use digest::common::{BlockSizeUser, KeySizeUser};

use crate::hasher::Hasher;
use crate::output::OutputReader;

impl digest::HashMarker for Hasher {}
impl digest::MacMarker for Hasher {}

impl digest::OutputSizeUser for Hasher {
    type OutputSize = U32;
}

impl BlockSizeUser for Hasher {
    type BlockSize = U64;
}

impl KeySizeUser for Hasher {
    type KeySize = U32;
}

impl digest::KeyInit for Hasher {
    #[inline]
    fn new(key: &digest::Key<Self>) -> Self {
        Self::new_keyed(&key.0)
    }
}

impl digest::Update for Hasher {
    #[inline]
    fn update(&mut self, data: &[u8]) {
        Hasher::update(self, data);
    }
}

impl digest::Reset for Hasher {
    #[inline]
    fn reset(&mut self) {
        Hasher::reset(self);
    }
}

impl digest::FixedOutput for Hasher {
    #[inline]
    fn finalize_into(self, out: &mut Array<u8, U32>) {
        out.0 = self.finalize().into();
    }
}

impl digest::FixedOutputReset for Hasher {
    #[inline]
    fn finalize_into_reset(&mut self, out: &mut Array<u8, U32>) {
        out.0 = self.finalize().into();
        self.reset();
    }
}

impl digest::ExtendableOutput for Hasher {
    type Reader = OutputReader;

    #[inline]
    fn finalize_xof(self) -> OutputReader {
        Hasher::finalize_xof(&self)
    }
}

impl digest::ExtendableOutputReset for Hasher {
    #[inline]
    fn finalize_xof_reset(&mut self) -> OutputReader {
        let output = Hasher::finalize_xof(self);
        self.reset();
        output
    }
}

impl digest::XofReader for OutputReader {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) {
        self.fill(buffer);
    }
}
