//! Asking for passphrases: one routine, whichever verb needs a key.
//!
//! There is no terminal and no environment here: whoever runs the process says once, with
//! [`ask_passphrases`], how a passphrase is asked for. Where nobody has, a key under one can't be used.

use std::sync::OnceLock;

use zeroize::Zeroizing;

use super::error::KeyError;

/// A passphrase; wiped when dropped.
pub type Passphrase = Zeroizing<Vec<u8>>;

/// Why there is no passphrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPassphrase {
    /// The person who was asked gave up.
    Interrupted,
    /// What to say.
    Because(String),
}

type Ask = dyn Fn(&str) -> Result<Passphrase, NoPassphrase> + Send + Sync;

static ASK: OnceLock<Box<Ask>> = OnceLock::new();

/// From now on passphrases are asked for with `ask`, which is told what the key is called. Only the first
/// call counts.
pub fn ask_passphrases(
    ask: impl Fn(&str) -> Result<Passphrase, NoPassphrase> + Send + Sync + 'static,
) {
    let _ = ASK.set(Box::new(ask));
}

/// The passphrase of the key that is called `what`.
pub(super) fn passphrase_of(what: &str) -> Result<Passphrase, KeyError> {
    let because = |text: &str| NoPassphrase::Because(text.to_owned());
    match ASK.get().map_or_else(|| Err(because("nobody can be asked here")), |ask| ask(what)) {
        Ok(passphrase) => Ok(passphrase),
        Err(NoPassphrase::Interrupted) => Err(KeyError::Interrupted),
        Err(NoPassphrase::Because(why)) => {
            Err(KeyError::NoPassphrase { what: what.to_owned(), why })
        }
    }
}
