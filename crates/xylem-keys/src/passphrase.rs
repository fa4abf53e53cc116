//! Requests passphrases: one function for every command that needs a key.
//!
//! This crate uses no terminal and no environment. The program sets once, with [`ask_passphrases`], how a passphrase is
//! requested. Otherwise a key under a passphrase cannot be used.

use std::sync::OnceLock;

use zeroize::Zeroizing;

use super::error::KeyFileError;

/// A passphrase; wiped when dropped.
pub type Passphrase = Zeroizing<Vec<u8>>;

/// Why there is no passphrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPassphrase {
    /// The user gave up.
    Interrupted,
    /// The reason, for the user.
    Because(String),
}

type Ask = dyn Fn(&str) -> Result<Passphrase, NoPassphrase> + Send + Sync;

static ASK: OnceLock<Box<Ask>> = OnceLock::new();

/// Sets the function that requests passphrases; its argument names the key to the user. Only the first call counts.
pub fn ask_passphrases(
    ask: impl Fn(&str) -> Result<Passphrase, NoPassphrase> + Send + Sync + 'static,
) {
    let _ = ASK.set(Box::new(ask));
}

/// Requests the passphrase of the key that is named `what`.
pub(super) fn passphrase_of(what: &str) -> Result<Passphrase, KeyFileError> {
    let because = |text: &str| NoPassphrase::Because(text.to_owned());
    match ASK.get().map_or_else(|| Err(because("this program cannot ask for it")), |ask| ask(what))
    {
        Ok(passphrase) => Ok(passphrase),
        Err(NoPassphrase::Interrupted) => Err(KeyFileError::Interrupted),
        Err(NoPassphrase::Because(why)) => {
            Err(KeyFileError::NoPassphrase { what: what.to_owned(), why })
        }
    }
}
