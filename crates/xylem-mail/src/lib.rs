//! [`MailSession`]: end-to-end encrypted messages between two people that need not be online together.
//!
//! A [`Card`] is what a sender needs to write to its owner. The first message makes a [`MailSession`] from it, by an
//! agreement of three Diffie-Hellman exchanges. From then on a double ratchet gives each message a key of its own.
//! Messages ([`MailBody`]) travel in envelopes, which show a carrier the receiver's [`MailboxId`] and one of eight lengths,
//! and nothing else.
//!
//! Bytes come from the carrier of the envelopes and from storage; time and randomness are parameters. This crate does
//! not carry or store envelopes, and does not decide which senders are allowed. [`protocol`] is how two programs
//! exchange envelopes over a reliable stream. All formats: docs/spec/mail.md.
//!
//! ```
//! use xylem_link::StaticKey;
//! use xylem_mail::{MailBody, MailContent, MailIdentity, Prekeys, ReceivedMail, MailSession, open};
//! use xylem_object::PublisherKey;
//!
//! // Real programs use random bytes.
//! let us = MailIdentity::new(PublisherKey::from_bytes(&[1; 32]), StaticKey::generate([2; 32]));
//! let them = MailIdentity::new(PublisherKey::from_bytes(&[3; 32]), StaticKey::generate([4; 32]));
//! let ours = us.card(Prekeys::new(0, [5; 32]).current(), 0, &[]);
//! let mut prekeys = Prekeys::new(0, [6; 32]);
//! let card = them.card(prekeys.current(), 0, &[]);
//!
//! let mut session = MailSession::start(&us, &card, [7; 32]).unwrap();
//! let note = MailBody { content: MailContent::Note("hello".into()), name: String::new(), size: 5, sent_ms: 0 };
//! let envelope = session.seal(&us, &ours, &note, [8; 32]).unwrap();
//!
//! let opened = open(&them, &envelope).unwrap();
//! let mut session = opened.begin(&them, &prekeys, [9; 32]).unwrap();
//! assert_eq!(session.receive(&opened).unwrap(), ReceivedMail::New(note));
//! assert_eq!(session.peer(), us.party());
//! ```

mod card;
mod identity;
mod prekeys;

mod agreement;
mod body;
mod envelope;
#[allow(unreachable_pub, reason = "public in xylem-mail-internals")]
mod ratchet;
mod receipt;
mod session;

pub mod protocol;
pub mod sealed;

mod fields;
mod kdf;

#[cfg(internals)]
#[path = "../internals/src/internals.rs"]
pub mod internals;

pub use body::{BodyError, MAX_BODY, MAX_NAME, MAX_NOTE, MailBody, MailContent};
pub use card::{Card, CardError, SCHEME};
pub use envelope::{
    ENVELOPE_OVERHEAD, EnvelopeId, MAX_ENVELOPE, MailboxId, OpenedEnvelope, mailbox_of, open,
};
pub use identity::{MailIdentity, Party};
pub use prekeys::{KEEP, Prekey, Prekeys, ROTATE};
pub use receipt::Receipt;
pub use session::{MailError, MailSession, ReceivedMail, SessionId};
