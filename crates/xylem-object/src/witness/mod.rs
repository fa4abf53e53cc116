//! Witnesses: others who say that they saw a version of a publication, and that it continued what they had
//! seen before; so that a publisher who shows two histories is found out.
//!
//! ```text
//! witness    SignedVersion (newest) → step(seen, newest, proof) → Statement → cosign → to the share
//! verifier   list of co-signatures → Witness::cosigned → Statement, compared with the version at hand
//! anybody    Evidence: two signed manifests of one publication, of which one can't continue the other
//! ```
//!
//! A co-signature is a Data packet of the witness's own, signed with its key, whose content has one fixed layout. Nothing here
//! keeps what was seen, asks anybody or knows the time. Formats, rules and reasons: docs/spec/witness.md.

mod evidence;
mod history;
mod list;
mod statement;

pub use evidence::{Evidence, EvidenceError};
pub use history::{NotNext, SignedVersion, Split, Step, is_same, step};
pub use list::{
    Answer, ListError, MAX_COSIGNATURES, decode_list, encode_list, is_answer, question, read_list,
    submission, submitted,
};
pub use statement::{
    CosignatureError, MAX_COSIGNATURE, STATEMENT_LEN, Statement, Subject, Witness, WitnessError,
    cosign,
};
