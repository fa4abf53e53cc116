//! The agreement that begins a session: three Diffie-Hellmans of what both sides keep and what they
//! throw away, after X3DH (Marlinspike, Perrin, revision 1) without one-time prekeys.
//!
//! | | sender | receiver | gives |
//! |---|---|---|---|
//! | 1 | link key | prekey | proof of the sender |
//! | 2 | ephemeral | link key | proof of the receiver |
//! | 3 | ephemeral | prekey | forward secrecy, once the prekey is forgotten |
//!
//! The keys of both, publisher's and link's, are part of the derivation: a session is between these
//! two and no others.

use xylem_link::{PeerKey, StaticKey};
use zeroize::Zeroizing;

use crate::identity::{Identity, Party};
use crate::kdf::{derive, label, short};
use crate::prekeys::Prekey;

/// What both sides come to.
pub(crate) struct Agreed {
    /// Names the session; shows nothing of its keys.
    pub id: [u8; 16],
    /// For the ratchet.
    pub secret: Zeroizing<[u8; 32]>,
    /// For receipts.
    pub receipts: Zeroizing<[u8; 32]>,
    /// What every message of the session is bound to.
    pub associated: [u8; 32],
}

/// The sender's side; `None` if a key of the card is none.
pub(crate) fn initiate(
    us: &Identity,
    them: &Party,
    prekey: (u32, &PeerKey),
    ephemeral: &StaticKey,
) -> Option<Agreed> {
    let secrets =
        [us.link().agree(prekey.1)?, ephemeral.agree(&them.link)?, ephemeral.agree(prekey.1)?];
    Some(agreed(&secrets, &us.party(), them, prekey, &ephemeral.public()))
}

/// The receiver's side; `None` if a key of the sender is none.
pub(crate) fn respond(
    us: &Identity,
    them: &Party,
    prekey: &Prekey,
    ephemeral: &PeerKey,
) -> Option<Agreed> {
    let secrets =
        [prekey.key.agree(&them.link)?, us.link().agree(ephemeral)?, prekey.key.agree(ephemeral)?];
    let public = prekey.key.public();
    Some(agreed(&secrets, them, &us.party(), (prekey.number, &public), ephemeral))
}

fn agreed(
    secrets: &[Zeroizing<[u8; 32]>; 3],
    sender: &Party,
    receiver: &Party,
    (number, prekey): (u32, &PeerKey),
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
