//! The records of ndn-python-repo 0.3: a notice, a command and the answer to a check.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::{Name, tlv};

use crate::record::{CodecError, Field, record};
use crate::types;

const START_BLOCK_ID: u32 = 204;
const END_BLOCK_ID: u32 = 205;
const PROCESS_ID: u32 = 206;
const STATUS_CODE: u32 = 208;
const INSERT_NUM: u32 = 209;
const DELETE_NUM: u32 = 210;
const FORWARDING_HINT: u32 = 211;
const REGISTER_PREFIX: u32 = 212;
const CHECK_PREFIX: u32 = 213;
const NOTIFY_NONCE: u32 = 128;

/// Octets that distinguish a command from others of its client: 1 to 32, of its choice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct ProcessId(Box<[u8]>);

impl ProcessId {
    /// `None` unless there are 1 to 32 octets.
    pub fn new(octets: &[u8]) -> Option<Self> {
        (1..=32).contains(&octets.len()).then(|| ProcessId(octets.into()))
    }

    /// The octets.
    pub fn octets(&self) -> &[u8] {
        &self.0
    }
}

impl Field for ProcessId {
    const REQUIRED: bool = true;
    fn decode_field(&mut self, typ: u32, value: &[u8]) -> Result<(), CodecError> {
        *self = ProcessId::new(value).ok_or(CodecError::Malformed(typ))?;
        Ok(())
    }
    fn encode_field(&self, typ: u32, out: &mut Vec<u8>) {
        tlv::write_element(out, typ, &self.0);
    }
}

record! {
    /// A name within an element. The clients send the element without a name, too.
    pub struct NamedPrefix {
        /// The name.
        name: Option<Name> = types::NAME,
    }
}

record! {
    /// ApplicationParameters of a notice: where the command can be fetched.
    pub struct RepoNotice {
        /// The prefix of the client.
        publisher: Option<Name> = types::NAME,
        /// The last component of the command's name.
        nonce: Option<ProcessId> = NOTIFY_NONCE,
        /// A name through which the client is reached.
        forwarding_hint: Option<NamedPrefix> = FORWARDING_HINT,
    }
}

record! {
    /// The content of a command.
    pub struct RepoParameters {
        /// The packet, or the prefix of segments.
        name: Option<Name> = types::NAME,
        /// A name through which the packets are reached.
        forwarding_hint: Option<NamedPrefix> = FORWARDING_HINT,
        /// The first segment. Without this and the last one: the packet of exactly this name.
        start_block: Option<u64> = START_BLOCK_ID,
        /// The last segment.
        end_block: Option<u64> = END_BLOCK_ID,
        /// The command's id, for checks.
        process: Option<ProcessId> = PROCESS_ID,
        /// A prefix that the repository should register. A forwarder's own repository needs none.
        register_prefix: Option<NamedPrefix> = REGISTER_PREFIX,
        /// Unused by this version of the protocol.
        check_prefix: Option<NamedPrefix> = CHECK_PREFIX,
    }
}

record! {
    /// The answer to a check.
    pub struct RepoResponse {
        /// As in the command.
        name: Option<Name> = types::NAME,
        /// As in the command.
        start_block: Option<u64> = START_BLOCK_ID,
        /// As in the command.
        end_block: Option<u64> = END_BLOCK_ID,
        /// As in the command.
        process: Option<ProcessId> = PROCESS_ID,
        /// 200 done, 300 under way, 400 failed, 403 refused, 404 unknown.
        status_code: Option<u64> = STATUS_CODE,
        /// Inserted packets.
        insert_num: Option<u64> = INSERT_NUM,
        /// Removed packets.
        delete_num: Option<u64> = DELETE_NUM,
    }
}
