//! Decides which commands are obeyed.

use xylem_packet::{Data, KeyLocator, NameRef, SignatureInfo, SignatureType};
use xylem_trust::{ReplayError, ReplayGuard, RuleRefusal, TrustError, TrustStore, Verifier};

use crate::request::CommandSignature;

/// Decides which signers are obeyed.
#[derive(Debug, Default)]
pub enum CommandTrust {
    /// Every program that reaches the prefix, as in NFD's sample configuration; for `/localhost` these are the programs
    /// of this machine. A command has to be signed. A digest has to be right. The signature of a key is not checked,
    /// since no key is known: where every program is trusted, it proves no more than a digest.
    #[default]
    Anybody,
    /// Holders of keys that this store verifies, for commands that its rules allow them
    /// ([`xylem_trust::TrustRules::allows_command`]).
    Anchors(TrustStore),
}

/// Reasons for which a command is not obeyed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denial {
    #[error("the command is not signed")]
    Unsigned,
    #[error("{0}")]
    Trust(#[from] TrustError),
    #[error("{0} {1}")]
    Refused(String, RuleRefusal),
    #[error("{0}")]
    Replay(#[from] ReplayError),
}

impl CommandTrust {
    /// Checks that a command with this signature is to be obeyed, now and only once. `command` is its name up to the
    /// verb.
    pub(crate) fn check(
        &self,
        command: NameRef<'_>,
        signed: Option<&CommandSignature<'_>>,
        guard: &mut ReplayGuard,
        now_ms: u64,
    ) -> Result<(), Denial> {
        let signed = signed.ok_or(Denial::Unsigned)?;
        let CommandSignature { info, portions, value } = signed;
        match self {
            CommandTrust::Anchors(store) => {
                store.command(command, info, portions, value, now_ms).map_err(|why| match store
                    .refusal_of_command(command, info, now_ms)
                {
                    Some(refused) => Denial::Refused(command.to_string(), refused),
                    None => why.into(),
                })?;
            }
            CommandTrust::Anybody => check_unknown_signer(info, portions, value)?,
        }
        let key = match &info.key_locator {
            Some(KeyLocator::Name(name)) => name.value(),
            Some(KeyLocator::Digest(digest)) => digest,
            None => &[],
        };
        Ok(guard.accept(key, info, now_ms)?)
    }

    /// Checks the Data that a command is about. The rules are those of commands, except that the key has to be one that
    /// may sign the Data's name.
    pub(crate) fn check_data(&self, data: &Data<'_>, now_ms: u64) -> Result<(), Denial> {
        match self {
            CommandTrust::Anchors(store) => {
                store.data(data, now_ms).map_err(|why| match store.refusal_of(data, now_ms) {
                    Some(refused) => Denial::Refused(data.name().to_string(), refused),
                    None => why.into(),
                })
            }
            CommandTrust::Anybody => {
                let info = data.signature_info();
                Ok(check_unknown_signer(&info, &[data.signed_portion()], data.signature_value())?)
            }
        }
    }
}

/// Checks a signature where no key is known.
fn check_unknown_signer(
    info: &SignatureInfo<'_>,
    portions: &[&[u8]],
    value: &[u8],
) -> Result<(), TrustError> {
    match info.typ {
        SignatureType::DIGEST_SHA256 => Verifier::digest_sha256().parts(info, portions, value),
        SignatureType::DIGEST_BLAKE3 => Verifier::digest_blake3().parts(info, portions, value),
        _ if info.key_locator.is_none() => Err(TrustError::NoKeyLocator),
        _ if value.is_empty() => Err(TrustError::BadSignature),
        _ => Ok(()),
    }
}
