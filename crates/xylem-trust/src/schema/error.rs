//! Errors of schemas, and refusals of packets by a schema.

use core::fmt;

use xylem_packet::DecodeError;

/// Why a file is no usable schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The text form is invalid.
    #[error(transparent)]
    Text(#[from] CompileError),
    /// The binary form is invalid.
    #[error(transparent)]
    Binary(#[from] SchemaError),
    /// The file is in neither form.
    #[error("neither a schema's text nor its binary form")]
    Neither,
}

/// Why bytes are no usable schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// Not a sequence of TLV elements.
    #[error("the schema is malformed: {0}")]
    Malformed(#[from] DecodeError),
    /// Another version of the format.
    #[error("the schema has version {0:#010x}; only {expected:#010x} can be read", expected = super::limits::VERSION)]
    Version(u64),
    /// More than [`super::MAX_SCHEMA`] bytes or [`super::MAX_NODES`] nodes.
    #[error("the schema is larger than 1 MiB or 16,384 nodes")]
    TooLarge,
    /// It matches names longer than [`super::MAX_DEPTH`].
    #[error("the schema matches names with more than 64 components")]
    TooDeep,
    /// A required element is missing.
    #[error("the schema is malformed: no element of type {0:#x}")]
    Missing(u32),
    /// An element in the wrong place.
    #[error("the schema is malformed: an element of type {0:#x} out of place")]
    Unexpected(u32),
    /// Not a number, or one that is too large.
    #[error("the schema is malformed: a number is missing or too large")]
    Number,
    /// The name of a rule, pattern or function is no short line of text.
    #[error("the schema is malformed: a name is not text of 1 to 255 bytes")]
    Identifier,
    /// The value of an edge or option is not one component.
    #[error("the schema is malformed: a value is not one name component")]
    Component,
    /// An option or argument that is not exactly one of value, pattern and call.
    #[error("the schema is malformed: an option is not exactly one of value, pattern and function")]
    Option,
    /// A function that is not supported.
    #[error("the schema calls {0}; only $eq and $eq_type are known")]
    Function(String),
    /// A node with a number that is not its position.
    #[error("the schema's node {at} has the number {found}")]
    NodeId {
        /// Its position.
        at: usize,
        /// Its number.
        found: u32,
    },
    /// An edge or a signing rule that refers to a node that does not exist.
    #[error("the schema refers to node {0}, which does not exist")]
    NoNode(u32),
    /// The edge to this node does not come from its parent, or is the second one.
    #[error("the schema is not a tree: the edge to node {0} does not come from its parent")]
    Parent(u32),
    /// No edge leads to this node.
    #[error("the schema is not a tree: no edge leads to node {0}")]
    Unreachable(u32),
    /// Two edges with the same value.
    #[error("the schema's node {0} has two edges with the same value")]
    SameEdge(u32),
    /// Keys that sign each other in a loop, so that no chain reaches an anchor.
    #[error("a loop of signatures without an anchor, at {0}")]
    SigningLoop(String),
}

/// Why a text is no valid schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct CompileError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The problem there.
    pub problem: String,
}

/// Why a key may not sign a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaRefusal {
    /// No rule matches the packet's name.
    NoRule,
    /// The rules that match the packet's name list no signer: the name is an anchor's own certificate, or a part that
    /// other rules are made of.
    Unsigned {
        /// The rules.
        rules: Vec<String>,
    },
    /// The key's name matches none of the rules that may sign.
    Key {
        /// The packet's rule.
        rule: String,
        /// The rules that may sign; the key has to match one of them.
        wanted: Vec<String>,
        /// The rules that the key matches.
        found: Vec<String>,
    },
    /// The key matches the right rule, but with other components than the packet's.
    Binding {
        /// The packet's rule.
        rule: String,
        /// The key's rule.
        key: String,
        /// The pattern that is bound differently, if known.
        pattern: Option<String>,
    },
    /// The check takes more than [`super::MAX_STEPS`] steps for this name.
    TooMuch,
}

impl fmt::Display for SchemaRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemaRefusal::NoRule => f.write_str("no rule of the schema matches this name"),
            SchemaRefusal::Unsigned { rules } => {
                write!(f, "{}: the schema allows no key to sign this", rules.join(", "))
            }
            SchemaRefusal::Key { rule, wanted, found } => {
                write!(f, "{rule}: the key has to match {}", wanted.join(" or "))?;
                match found.as_slice() {
                    [] => f.write_str(", and its name matches no rule"),
                    found => write!(f, ", and matches {}", found.join(", ")),
                }
            }
            SchemaRefusal::Binding { rule, key, pattern: Some(pattern) } => {
                write!(f, "{rule}: the key matches {key}, but with another value for {pattern}")
            }
            SchemaRefusal::Binding { rule, key, pattern: None } => {
                write!(f, "{rule}: the key matches {key}, but not for this name")
            }
            SchemaRefusal::TooMuch => {
                f.write_str("the schema needs too many steps to check this name")
            }
        }
    }
}

impl std::error::Error for SchemaRefusal {}
