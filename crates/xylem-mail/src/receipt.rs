//! [`Receipt`]: what became of an envelope, said by its receiver and by nobody else, past a node that keeps
//! mail.
//!
//! The two of a session share a secret for receipts. It gives each of them a mailbox of a key that
//! belongs to nobody (the one whom the receipts are for can prove it, the other can write to it), so that the node
//! where a message was left learns nothing of its sender when the receipt is fetched there; and a key
//! under which each receipt is proven, since the node sees the mailbox's.
//!
//! A receipt travels in an envelope like any other of the shortest length. Sealed in it: `kind = 3 (1) |
//! session (16) | envelope's id (16) | status (1) | lost (4) | proof (32)`, then zeros; the proof is a
//! keyed hash of all before it. It says nothing that may not be repeated: `lost` counts all messages of the
//! session that its receiver has lost.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use constant_time_eq::constant_time_eq_n;
use xylem_hash::Hasher;
use xylem_link::StaticKey;
use zeroize::Zeroizing;

use crate::body::SHORTEST;
use crate::envelope::{EnvelopeId, open_plain, seal_plain};
use crate::fields::Fields;
use crate::identity::Party;
use crate::kdf::{derive, label};
use crate::protocol::Status;
use crate::session::SessionId;

const KIND: u8 = 3;
const PROVEN: usize = 1 + 16 + 16 + 1 + 4;

/// What became of an envelope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// Which one.
    pub envelope: EnvelopeId,
    /// [`Status::Stored`]: its receiver has the message; [`Status::Refused`]: it can't be read;
    /// [`Status::Ended`]: nothing of the session can be read any more.
    pub status: Status,
    /// Messages of the session that its receiver has lost, all in all.
    pub lost: u32,
}

/// The secret of a session's receipts, for those that this party is to get.
pub(crate) struct Receipts {
    session: SessionId,
    mailbox: StaticKey,
    proof: Zeroizing<[u8; 32]>,
}

impl Receipts {
    pub(crate) fn new(session: SessionId, secret: &[u8; 32], reader: &Party) -> Self {
        let reader = reader.to_bytes();
        let mailbox = derive(label::RECEIPTS_MAILBOX, &[secret, &reader]);
        let proof = Zeroizing::new(derive(label::RECEIPTS_PROOF, &[secret, &reader]));
        Self { session, mailbox: StaticKey::generate(mailbox), proof }
    }

    pub(crate) fn into_mailbox(self) -> StaticKey {
        self.mailbox
    }

    /// `seed`: 32 random bytes, never used twice.
    pub(crate) fn seal(&self, receipt: &Receipt, seed: [u8; 32]) -> Option<Vec<u8>> {
        let mut plain = Vec::with_capacity(PROVEN.saturating_add(32));
        plain.push(KIND);
        plain.extend_from_slice(&self.session.0);
        plain.extend_from_slice(&receipt.envelope.0);
        plain.push(receipt.status as u8);
        plain.extend_from_slice(&receipt.lost.to_be_bytes());
        let proof = Hasher::new_keyed(&self.proof).update(&plain).finalize();
        plain.extend_from_slice(proof.as_bytes());
        seal_plain(&self.mailbox.public(), &plain, SHORTEST, &Zeroizing::new(seed))
    }

    /// `None` for what the other one of the session did not write.
    pub(crate) fn open(&self, envelope: &[u8]) -> Option<Receipt> {
        let plain = open_plain(&self.mailbox, envelope)?;
        let (proven, rest) = plain.split_at_checked(PROVEN)?;
        let (proof, padding) = rest.split_first_chunk::<32>()?;
        let right = Hasher::new_keyed(&self.proof).update(proven).finalize();
        let mut fields = Fields(proven);
        let kind = fields.byte()?;
        let session = SessionId(fields.array()?);
        let genuine = constant_time_eq_n(proof, right.as_bytes());
        if !genuine || kind != KIND || session != self.session || padding.iter().any(|b| *b != 0) {
            return None;
        }
        let envelope = EnvelopeId(fields.array()?);
        let status = Status::from_byte(fields.byte()?)?;
        Some(Receipt { envelope, status, lost: fields.u32()? })
    }
}
