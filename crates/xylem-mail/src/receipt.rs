//! [`Receipt`]: the receiver's own confirmation of an envelope, which passes through a node that keeps mail.
//!
//! Both sides of a session share a secret for receipts. It gives each side a mailbox with a key of its own, which
//! belongs to no identity. The reader of the receipts can prove the key, and the other side can write to the mailbox.
//! So the node at which a message was left learns nothing about its sender when the receipt is fetched there. The
//! secret also gives a key that authenticates each receipt, since the node sees the mailbox's key.
//!
//! A receipt is in an envelope of the shortest length. Sealed in it: `kind = 3 (1) | session (16) | envelope's id (16)
//! | status (1) | lost (4) | proof (32)`, then zeros. The proof is a keyed hash of all before it. A replayed receipt is
//! harmless: `lost` counts all messages of the session that its receiver has lost.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use constant_time_eq::constant_time_eq_n;
use xylem_hash::Hasher;
use xylem_link::StaticKey;
use zeroize::Zeroizing;

use crate::body::SHORTEST;
use crate::envelope::{EnvelopeId, open_plain, seal_plain};
use crate::fields::FieldReader;
use crate::identity::Party;
use crate::kdf::{derive, label};
use crate::protocol::DeliveryStatus;
use crate::session::SessionId;

const KIND: u8 = 3;
const PROVEN: usize = 1 + 16 + 16 + 1 + 4;

/// Result of an envelope, as its receiver reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// The envelope.
    pub envelope: EnvelopeId,
    /// [`DeliveryStatus::Stored`]: its receiver has the message; [`DeliveryStatus::Refused`]: it cannot be read; [`DeliveryStatus::Ended`]: the
    /// session cannot be read any more.
    pub status: DeliveryStatus,
    /// Messages of the session that its receiver has lost, in total.
    pub lost: u32,
}

/// A session's keys for the receipts that one party reads.
pub(crate) struct ReceiptKeys {
    session: SessionId,
    mailbox: StaticKey,
    proof: Zeroizing<[u8; 32]>,
}

impl ReceiptKeys {
    pub(crate) fn new(session: SessionId, secret: &[u8; 32], reader: &Party) -> Self {
        let reader = reader.to_bytes();
        let mailbox = derive(label::RECEIPTS_MAILBOX, &[secret, &reader]);
        let proof = Zeroizing::new(derive(label::RECEIPTS_PROOF, &[secret, &reader]));
        Self { session, mailbox: StaticKey::generate(mailbox), proof }
    }

    pub(crate) fn into_mailbox(self) -> StaticKey {
        self.mailbox
    }

    /// Seals a receipt. `seed` is 32 random bytes, never used twice.
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

    /// Opens a receipt; `None` if the session's peer did not write it.
    pub(crate) fn open(&self, envelope: &[u8]) -> Option<Receipt> {
        let plain = open_plain(&self.mailbox, envelope)?;
        let (proven, rest) = plain.split_at_checked(PROVEN)?;
        let (proof, padding) = rest.split_first_chunk::<32>()?;
        let right = Hasher::new_keyed(&self.proof).update(proven).finalize();
        let mut fields = FieldReader(proven);
        let kind = fields.byte()?;
        let session = SessionId(fields.array()?);
        let genuine = constant_time_eq_n(proof, right.as_bytes());
        if !genuine || kind != KIND || session != self.session || padding.iter().any(|b| *b != 0) {
            return None;
        }
        let envelope = EnvelopeId(fields.array()?);
        let status = DeliveryStatus::from_byte(fields.byte()?)?;
        Some(Receipt { envelope, status, lost: fields.u32()? })
    }
}
