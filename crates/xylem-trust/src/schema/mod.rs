//! [`Schema`]: which keys may sign which names, in LightVerSec.
//!
//! A schema is a tree with name components as edges: constant ones, and patterns that match any component, bind it, and
//! may be constrained. A node may have the names of rules, and a list of the nodes that keys of its packets have to
//! match ("signed by"). The binary form is the one that NDNd, NDNts and python-ndn share (`docs/spec/trust.md` has its
//! grammar); the text form is python-ndn's.
//!
//! Schemas come from files and from the network, and names come from any sender. Sizes and depths are therefore bounded
//! when a schema is read, and a check takes at most [`MAX_STEPS`] steps. Nothing here verifies a signature.
//!
//! ```
//! use xylem_packet::Name;
//! use xylem_trust::schema::Schema;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let schema = Schema::compile(
//!     r#"
//!     #key: "KEY"/_/_/_
//!     #root: "blog"/#key
//!     #author: "blog"/"author"/who/#key <= #root
//!     #post: "blog"/"post"/who/_title <= #author
//!     "#,
//! )?;
//! let post = Name::from_uri("/blog/post/alice/hello")?;
//! let alice = Name::from_uri("/blog/author/alice/KEY/1/root/v=1")?;
//! let bob = Name::from_uri("/blog/author/bob/KEY/1/root/v=1")?;
//! assert!(schema.check(post.as_ref(), alice.as_ref()).is_ok());
//! let refusal = schema.check(post.as_ref(), bob.as_ref()).unwrap_err();
//! assert_eq!(refusal.to_string(), "#post: the key matches #author, but with another value for who");
//! # Ok(()) }
//! ```

mod check;
mod compile;
mod decode;
mod error;
mod limits;
mod model;
mod sanity;
mod text;

pub use check::{MAX_STEPS, Match, SchemaPermit};
pub use error::{CompileError, FileError, SchemaError, SchemaRefusal};
pub use limits::{MAX_DEPTH, MAX_NODES, MAX_SCHEMA, VERSION};

use model::SchemaTree;
use xylem_packet::NameRef;

use crate::{RuleRefusal, TrustRules};

/// Which keys may sign which names: a schema that was read and validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    model: SchemaTree,
    /// Nodes that sign something and that no node signs.
    anchors: Vec<u32>,
}

impl Schema {
    /// Reads the binary form.
    ///
    /// # Errors
    /// See [`SchemaError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, SchemaError> {
        Self::validate(decode::decode(bytes)?)
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// The problem, with line and column.
    pub fn compile(text: &str) -> Result<Self, CompileError> {
        let rules = text::parse(text)?;
        let places = rules.iter().map(|rule| (rule.id.clone(), rule.at)).collect::<Vec<_>>();
        let model = compile::compile(rules)?;
        Self::validate(model).map_err(|error| {
            let rule = match &error {
                SchemaError::SigningLoop(rule) => rule.as_str(),
                _ => "",
            };
            let known = places.iter().find(|(id, _)| id == rule).or(places.first());
            known.map_or_else(text::TextPosition::default, |(_, at)| *at).error(error.to_string())
        })
    }

    /// Reads a file in either form. The binary form begins with the element for its version. Its type is a letter, and
    /// its length, of up to eight bytes, is no character of a text.
    ///
    /// # Errors
    /// The problem in the form, or that the file is in neither form.
    pub fn read(file: &[u8]) -> Result<Self, FileError> {
        let is_version =
            |element: &[u8; 2]| u32::from(element[0]) == model::VERSION_TYPE && element[1] < b'\t';
        if file.first_chunk().is_some_and(is_version) {
            return Ok(Self::decode(file)?);
        }
        let text = core::str::from_utf8(file).map_err(|_| FileError::Neither)?;
        Ok(Self::compile(text)?)
    }

    /// The binary form. A schema compiled by python-ndn and read here is encoded to the same bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.model.encode()
    }

    /// Names of the rules at which the chains of signatures end: an anchor's certificate matches one of them.
    #[must_use]
    pub fn anchors(&self) -> Vec<String> {
        let mut rules: Vec<_> = self.anchors.iter().map(|node| self.model.rule(*node)).collect();
        rules.sort();
        rules.dedup();
        rules
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.model.nodes.len()
    }

    /// Names of all rules, sorted, without duplicates.
    #[must_use]
    pub fn rules(&self) -> Vec<&str> {
        let names = self.model.nodes.iter().flat_map(|node| &node.rules);
        let mut rules: Vec<_> = names.map(String::as_str).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }

    fn validate(mut model: SchemaTree) -> Result<Self, SchemaError> {
        let anchors = sanity::check(&mut model)?;
        Ok(Schema { model, anchors })
    }
}

impl TrustRules for Schema {
    fn allows(&self, packet: NameRef<'_>, certificate: NameRef<'_>) -> Result<(), RuleRefusal> {
        let refused = |refusal| {
            RuleRefusal(format!("may not be signed by {certificate} under the schema: {refusal}"))
        };
        self.check(packet, certificate).map(drop).map_err(refused)
    }

    fn allows_command(
        &self,
        command: NameRef<'_>,
        certificate: NameRef<'_>,
    ) -> Result<(), RuleRefusal> {
        self.allows(command, certificate)
    }
}
