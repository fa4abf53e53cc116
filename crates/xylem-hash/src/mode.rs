//! [`Mode`]: what distinguishes a plain, a keyed and a key-deriving tree.

use crate::backend::{Backend, Cv, words_of};
use crate::constants::{DERIVE_KEY_CONTEXT, DERIVE_KEY_MATERIAL, IV, KEY_LEN, KEYED_HASH};
use crate::subtree::root_hash_of;
use crate::wipe::wipe;

/// Key words and flags of all compressions of a message.
#[derive(Clone)]
pub(crate) struct Mode {
    key: [u32; 8],
    flags: u32,
}

/// Returns whether values computed under `flags` may be secret.
#[inline]
pub(crate) fn is_secret(flags: u32) -> bool {
    flags & (KEYED_HASH | DERIVE_KEY_MATERIAL) != 0
}

impl Mode {
    /// The plain mode as a static reference.
    pub(crate) const PLAIN: &'static Self = &Self { key: IV, flags: 0 };

    #[inline]
    pub(crate) fn plain() -> Self {
        Self { key: IV, flags: 0 }
    }

    #[inline]
    pub(crate) fn keyed(key: &[u8; KEY_LEN]) -> Self {
        Self { key: words_of(key), flags: KEYED_HASH }
    }

    #[inline]
    pub(crate) fn derive_key(backend: Backend, context: &str) -> Self {
        let mut key = context_key(backend, context.as_bytes());
        let material = Self::context(&key);
        wipe(&mut key);
        material
    }

    /// The mode for deriving keys under a context that is already hashed.
    #[inline]
    pub(crate) fn context(key: &[u8; KEY_LEN]) -> Self {
        Self { key: words_of(key), flags: DERIVE_KEY_MATERIAL }
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u32; 8] {
        &self.key
    }

    #[inline]
    pub(crate) fn flags(&self) -> u32 {
        self.flags
    }

    /// Overwrites the key; the result is the plain mode.
    #[cfg(feature = "zeroize")]
    #[inline]
    pub fn wipe(&mut self) {
        wipe(&mut self.key);
        *self = Self::plain();
    }
}

/// The key for `context` (the paper, section 2.3: the first of the two hashes of key derivation).
#[inline]
pub(crate) fn context_key(backend: Backend, context: &[u8]) -> Cv {
    let mode = Mode { key: IV, flags: DERIVE_KEY_CONTEXT };
    root_hash_of(backend, &mode, context)
}

impl Drop for Mode {
    #[inline]
    fn drop(&mut self) {
        if is_secret(self.flags) {
            wipe(&mut self.key);
        }
    }
}
