//! [`random`]: unpredictable bytes of the system.

use crate::error::{Blame, Failure};

/// The operating system gives no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gives no randomness: {0}")]
pub struct NoRandomness(getrandom::Error);

impl Failure for NoRandomness {
    fn blame(&self) -> Blame {
        Blame::Local
    }
}

/// Returns fresh random bytes from the operating system.
///
/// # Errors
/// The operating system gives none.
pub fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(NoRandomness)?;
    Ok(bytes)
}
