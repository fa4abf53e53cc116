//! Parses Interests under a management prefix, and their signatures.
//!
//! ```text
//! /localhost/nfd/<module>/<verb>/<ControlParameters>/params-sha256=…     signed Interest v0.3
//! /localhost/nfd/<module>/<verb>/<ControlParameters>/<time>/<nonce>/<SignatureInfo>/<SignatureValue>
//!                                                                        signed Interest v0.2
//! /localhost/nfd/<module>/<verb>[/<filter>][/params-sha256=…]            a dataset's newest version
//! ```
//! Commands of neighbours have `/localhop` instead of `/localhost`.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv::{self, TlvReader, types};
use xylem_packet::{Component, Interest, NameRef, SignatureInfo};

/// Number of components of the prefix.
pub(crate) const PREFIX_LEN: usize = 2;

/// The source of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandScope {
    /// The forwarder's machine: `/localhost`.
    Localhost,
    /// A neighbour of the forwarder: `/localhop`.
    Localhop,
}

/// An Interest under a management prefix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ManagementRequest<'a> {
    pub(crate) reach: CommandScope,
    pub(crate) module: &'a [u8],
    pub(crate) verb: &'a [u8],
    /// The component after the verb: ControlParameters, or a filter.
    pub(crate) parameters: Option<&'a [u8]>,
}

impl<'a> ManagementRequest<'a> {
    /// Parses a name; `None` for names that are not management's.
    pub(crate) fn parse(name: NameRef<'a>) -> Option<Self> {
        let mut components = TlvReader::new(name.value());
        let mut generic = || match components.next_element() {
            Ok(Some(element)) if element.typ == types::GENERIC_COMPONENT => Some(element.value),
            _ => None,
        };
        let reach = match generic()? {
            b"localhost" => CommandScope::Localhost,
            b"localhop" => CommandScope::Localhop,
            _ => return None,
        };
        if generic()? != b"nfd" {
            return None;
        }
        Some(ManagementRequest {
            reach,
            module: generic()?,
            verb: generic()?,
            parameters: generic(),
        })
    }
}

/// A signature, in the Interest or in its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandSignature<'a> {
    pub(crate) info: SignatureInfo<'a>,
    pub(crate) portions: [&'a [u8]; 2],
    pub(crate) value: &'a [u8],
}

impl<'a> CommandSignature<'a> {
    /// The signature of a command Interest; `None` if it is absent or malformed.
    pub(crate) fn of(interest: &Interest<'a>) -> Option<Self> {
        if let Some(signature) = interest.signature() {
            let (portions, value) = (signature.signed_portions, signature.value);
            return Some(CommandSignature { info: signature.info, portions, value });
        }
        Self::in_name(interest.name())
    }

    /// Signed Interest v0.2: the last four components are time, nonce, SignatureInfo and SignatureValue. The signature
    /// covers the components before the last.
    fn in_name(name: NameRef<'a>) -> Option<Self> {
        let at_time = name.len().checked_sub(4).filter(|at| *at > PREFIX_LEN + 2)?;
        let mut tail = TlvReader::new(&name.value()[name.prefix(at_time).value().len()..]);
        let mut component = || match tail.next_element() {
            Ok(Some(element)) if element.typ == types::GENERIC_COMPONENT => Some(element.value),
            _ => None,
        };
        let (time, nonce) = (component()?, component()?);
        let mut info = SignatureInfo::decode(component()?).ok()?;
        let mut value = TlvReader::new(component()?);
        let value = value.next_element().ok()?.filter(|e| e.typ == types::SIGNATURE_VALUE)?.value;
        info.time_ms = Some(tlv::read_number(time)?);
        info.nonce = Some(nonce);
        Some(CommandSignature { info, portions: [name.parent().value(), &[]], value })
    }
}

/// Whether an Interest asks for a segment or for a known version, and not for the newest: the last component is a
/// segment's or version's number.
pub(crate) fn names_a_version(name: NameRef<'_>) -> bool {
    let is_number = |component: Component<'_>| {
        matches!(component.typ(), types::SEGMENT_COMPONENT | types::VERSION_COMPONENT)
    };
    name.len() > PREFIX_LEN + 2 && name.last().is_some_and(is_number)
}
