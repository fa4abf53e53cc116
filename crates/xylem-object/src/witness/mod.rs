//! Witnesses: third parties that attest that they saw a version of a publication, and that it continued the versions
//! that they saw before. They expose a publisher that shows two histories.
//!
//! ```text
//! witness    SignedVersion (newest) → step(seen, newest, proof) → Statement → cosign → to the share
//! verifier   list of co-signatures → Witness::cosigned → Statement, compared with the version at hand
//! anyone     Evidence: two signed manifests of one publication that cannot be of one history
//! ```
//!
//! A co-signature is a Data packet of the witness, signed with its key; its content has a fixed layout. This module
//! stores no versions, sends no requests and reads no clock. Formats, rules and reasons: docs/spec/witness.md.

mod evidence;
mod history;
mod list;
mod statement;

pub use evidence::{Evidence, EvidenceError, OneHistory};
pub use history::{HistorySplit, SignedVersion, StepError, VersionStep, is_same, step};
pub use list::{
    CosignatureListError, MAX_COSIGNATURES, SubmissionReply, decode_list, encode_list,
    is_witness_name, question, read_list, submission, submitted_cosignature,
};
pub use statement::{
    CosignatureError, MAX_COSIGNATURE, STATEMENT_LEN, Witness, WitnessCertificateError,
    WitnessStatement, WitnessSubject, cosign,
};
