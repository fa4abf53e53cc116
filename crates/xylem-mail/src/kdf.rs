//! All key derivations of this crate: BLAKE3 under one label per purpose.

use xylem_hash::Hasher;

/// Labels (BLAKE3 `derive_key` contexts); docs/spec/mail.md, "Conventions".
pub(crate) mod label {
    pub(crate) const MAILBOX: &str = "xylem-mail v1 mailbox";
    pub(crate) const ENVELOPE: &str = "xylem-mail v1 envelope";
    pub(crate) const ENVELOPE_ID: &str = "xylem-mail v1 envelope id";
    pub(crate) const ENVELOPE_EPHEMERAL: &str = "xylem-mail v1 envelope ephemeral";
    pub(crate) const SESSION: &str = "xylem-mail v1 session";
    pub(crate) const SESSION_ID: &str = "xylem-mail v1 session id";
    pub(crate) const SESSION_EPHEMERAL: &str = "xylem-mail v1 session ephemeral";
    pub(crate) const RATCHET: &str = "xylem-mail v1 ratchet";
    pub(crate) const RATCHET_SEED: &str = "xylem-mail v1 ratchet seed";
    /// Labels of the ratchet. They keep the name of the crate that it came from.
    pub(crate) const RATCHET_START: &str = "xylem-link v3 ratchet start";
    pub(crate) const RATCHET_ROOT: &str = "xylem-link v3 ratchet root";
    pub(crate) const ASSOCIATED: &str = "xylem-mail v1 associated";
    pub(crate) const RECEIPTS: &str = "xylem-mail v1 receipts";
    pub(crate) const RECEIPTS_MAILBOX: &str = "xylem-mail v1 receipts mailbox";
    pub(crate) const RECEIPTS_PROOF: &str = "xylem-mail v1 receipts proof";
    pub(crate) const SEALED_MASTER: &str = "xylem-sealed v1 master";
    pub(crate) const SEALED_NAME: &str = "xylem-sealed v1 name";
    pub(crate) const SEALED_FILE: &str = "xylem-sealed v1 file";
    pub(crate) const SEALED_ID: &str = "xylem-sealed v1 id";
    pub(crate) const SEALED_SEGMENT: &str = "xylem-sealed v1 segment";
    pub(crate) const SEALED_LIST: &str = "xylem-sealed v2 list";
    pub(crate) const SEALED_EPHEMERAL: &str = "xylem-sealed v2 ephemeral";
    pub(crate) const SEALED_COMMITMENT: &str = "xylem-sealed v2 commitment";
    pub(crate) const SEALED_WRAP: &str = "xylem-sealed v2 wrap";
    pub(crate) const SEALED_RECIPIENT: &str = "xylem-sealed v2 recipient";
    pub(crate) const CARD: &[u8] = b"xylem-mail v1 card";
}

/// Derives 32 bytes from the parts, by BLAKE3 in key derivation mode. All parts but the last have a fixed length.
pub(crate) fn derive(label: &'static str, parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Hasher::new_derive_key(label);
    for part in parts {
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// Derives 16 bytes: the first ones of [`derive`].
pub(crate) fn short(label: &'static str, parts: &[&[u8]]) -> [u8; 16] {
    *derive(label, parts).first_chunk().expect("16 of 32 bytes")
}
