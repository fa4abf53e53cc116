//! The key agreement that begins a session: three Diffie-Hellman exchanges of long-lived and ephemeral keys, after X3DH
//! (Marlinspike, Perrin, revision 1) without one-time prekeys.
//!
//! | | sender | receiver | gives |
//! |---|---|---|---|
//! | 1 | link key | prekey | proof of the sender |
//! | 2 | ephemeral | link key | proof of the receiver |
//! | 3 | ephemeral | prekey | forward secrecy, once the prekey is forgotten |
//!
//! The keys of both parties, publisher's and link's, are part of the derivation: a session belongs to exactly these
//! two.

use xylem_link::{PeerKey, StaticKey};
use zeroize::Zeroizing;

use crate::identity::{MailIdentity, Party};
use crate::kdf::{derive, label, short};
use crate::prekeys::Prekey;

/// Result of the agreement, the same on both sides.
pub(crate) struct Agreed {
    /// Id of the session; reveals nothing of its keys.
    pub id: [u8; 16],
    /// Secret of the ratchet.
    pub secret: Zeroizing<[u8; 32]>,
    /// Secret of receipts.
    pub receipts: Zeroizing<[u8; 32]>,
    /// Associated data of every message of the session.
    pub associated: [u8; 32],
}

/// Computes the sender's side; `None` if a key of the card is invalid.
pub(crate) fn initiate(
    us: &MailIdentity,
    them: &Party,
    number: u32,
    prekey: &PeerKey,
    ephemeral: &StaticKey,
) -> Option<Agreed> {
    let secrets =
        [us.link().agree(prekey)?, ephemeral.agree(&them.link)?, ephemeral.agree(prekey)?];
    Some(agreed(&secrets, &us.party(), them, number, prekey, &ephemeral.public()))
}

/// Computes the receiver's side; `None` if a key of the sender is invalid.
pub(crate) fn respond(
    us: &MailIdentity,
    them: &Party,
    prekey: &Prekey,
    ephemeral: &PeerKey,
) -> Option<Agreed> {
    let secrets =
        [prekey.key.agree(&them.link)?, us.link().agree(ephemeral)?, prekey.key.agree(ephemeral)?];
    let public = prekey.key.public();
    Some(agreed(&secrets, them, &us.party(), prekey.number, &public, ephemeral))
}

fn agreed(
    secrets: &[Zeroizing<[u8; 32]>; 3],
    sender: &Party,
    receiver: &Party,
    number: u32,
    prekey: &PeerKey,
    ephemeral: &PeerKey,
) -> Agreed {
    let (sender, receiver, number) = (sender.to_bytes(), receiver.to_bytes(), number.to_be_bytes());
    let public: [&[u8]; 5] = [&sender, &receiver, &number, &prekey.0, &ephemeral.0];
    let [one, two, three] = secrets;
    let all = [&[&one[..], &two[..], &three[..]], &public[..]].concat();
    let session = Zeroizing::new(derive(label::SESSION, &all));
    Agreed {
        id: short(label::SESSION_ID, &[&session[..]]),
        secret: Zeroizing::new(derive(label::RATCHET, &[&session[..]])),
        receipts: Zeroizing::new(derive(label::RECEIPTS, &[&session[..]])),
        associated: derive(label::ASSOCIATED, &public),
    }
}
