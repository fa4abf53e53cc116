//! `XYLEM_SIGNATURE_TYPES`: other numbers for the signature types that NDN has not registered (docs/spec/packet.md).

use crate::exit::{CommandFailure, Exit};
use xylem_packet::SignatureType;

const VARIABLE: &str = "XYLEM_SIGNATURE_TYPES";

/// Assigns the numbers of the environment variable to packets' signature types, if it is set.
pub(crate) fn assign() -> Result<(), CommandFailure> {
    let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    let text = text.to_string_lossy();
    let numbers: Option<Vec<u32>> = text.split(',').map(|n| n.trim().parse().ok()).collect();
    let numbers: Option<[u32; 4]> = numbers.and_then(|numbers| numbers.try_into().ok());
    if numbers.is_some_and(SignatureType::assign) {
        return Ok(());
    }
    let what = format!(
        "{VARIABLE}: {text}: expected four different numbers, for DigestBlake3, Blake3Keyed, Blake3Merkle and \
         Sha256Merkle, none of them NDN's (0 to 5, 200): such as 206,207,208,209"
    );
    Err(CommandFailure::new(Exit::Usage, what))
}
