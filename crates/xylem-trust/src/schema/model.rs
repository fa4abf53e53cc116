//! The tree of a schema, and its binary form.
//!
//! ```text
//! model      := VERSION 0x61, start NODE-ID 0x25, NAMED-PATTERNS 0x69, node*, symbol*
//! node       := 0x63 { NODE-ID 0x25, PARENT-ID 0x57?, IDENTIFIER 0x29*, value-edge*, pattern-edge*, KEY-NODE-ID 0x55* }
//! value-edge := 0x51 { NODE-ID 0x25, COMPONENT 0x21 }
//! pattern-edge := 0x53 { NODE-ID 0x25, TAG 0x23, constraint* }
//! constraint := 0x43 { option* }         all constraints have to hold
//! option     := 0x41 { COMPONENT 0x21 | TAG 0x23 | call }      one option is enough
//! call       := 0x31 { FUNCTION 0x27, argument* }
//! argument   := 0x33 { COMPONENT 0x21 | TAG 0x23 }
//! symbol     := 0x67 { TAG 0x23, IDENTIFIER 0x29 }
//! ```

use xylem_packet::tlv;

use super::limits::VERSION;

pub(super) const COMPONENT: u32 = 0x21;
pub(super) const TAG: u32 = 0x23;
pub(super) const NODE_ID: u32 = 0x25;
pub(super) const FUNCTION: u32 = 0x27;
pub(super) const IDENTIFIER: u32 = 0x29;
pub(super) const CALL: u32 = 0x31;
pub(super) const ARGUMENT: u32 = 0x33;
pub(super) const OPTION: u32 = 0x41;
pub(super) const CONSTRAINT: u32 = 0x43;
pub(super) const VALUE_EDGE: u32 = 0x51;
pub(super) const PATTERN_EDGE: u32 = 0x53;
pub(super) const KEY_NODE_ID: u32 = 0x55;
pub(super) const PARENT_ID: u32 = 0x57;
pub(super) const VERSION_TYPE: u32 = 0x61;
pub(super) const NODE: u32 = 0x63;
pub(super) const SYMBOL: u32 = 0x67;
pub(super) const NAMED_PATTERNS: u32 = 0x69;

/// The whole TLV of a component.
pub(super) type Value = Box<[u8]>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SchemaTree {
    pub(super) start: u32,
    /// Patterns with tags up to this one are bound; those above are temporary.
    pub(super) named: u32,
    pub(super) nodes: Vec<SchemaNode>,
    pub(super) symbols: Vec<(u32, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SchemaNode {
    pub(super) parent: Option<u32>,
    pub(super) rules: Vec<String>,
    pub(super) values: Vec<ValueEdge>,
    pub(super) patterns: Vec<PatternEdge>,
    /// Nodes that a signing key has to match.
    pub(super) signers: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ValueEdge {
    pub(super) to: u32,
    pub(super) value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PatternEdge {
    pub(super) to: u32,
    pub(super) tag: u32,
    pub(super) constraints: Vec<Vec<ConstraintOption>>,
}

/// One way to satisfy a constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConstraintOption {
    Is(SchemaOperand),
    Call(Function, Vec<SchemaOperand>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SchemaOperand {
    Value(Value),
    Tag(u32),
}

/// The functions that a schema may call: the two that every implementation defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    /// Every argument equals the component.
    Eq,
    /// Every argument has the component's type.
    EqType,
}

impl Function {
    pub(super) const ALL: [Function; 2] = [Function::Eq, Function::EqType];

    pub(super) fn name(self) -> &'static str {
        match self {
            Function::Eq => "$eq",
            Function::EqType => "$eq_type",
        }
    }

    pub(super) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }
}

impl SchemaTree {
    /// The first of a node's rules, or else a name made of the node's number, as in python-ndn.
    pub(super) fn rule(&self, node: u32) -> String {
        let rules = self.nodes.get(node as usize).map(|node| node.rules.as_slice());
        rules.unwrap_or_default().first().cloned().unwrap_or_else(|| format!("#_{node}"))
    }

    /// The name of a pattern in the text form.
    pub(super) fn symbol(&self, tag: u32) -> Option<&str> {
        self.symbols.iter().find(|(known, _)| *known == tag).map(|(_, name)| name.as_str())
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        number(&mut out, VERSION_TYPE, VERSION);
        number(&mut out, NODE_ID, self.start.into());
        number(&mut out, NAMED_PATTERNS, self.named.into());
        for (id, node) in self.nodes.iter().enumerate() {
            nested(&mut out, NODE, |out| node.encode(id, out));
        }
        for (tag, name) in &self.symbols {
            nested(&mut out, SYMBOL, |out| {
                number(out, TAG, (*tag).into());
                tlv::write_element(out, IDENTIFIER, name.as_bytes());
            });
        }
        out
    }
}

impl SchemaNode {
    fn encode(&self, id: usize, out: &mut Vec<u8>) {
        number(out, NODE_ID, id as u64);
        if let Some(parent) = self.parent {
            number(out, PARENT_ID, parent.into());
        }
        for rule in &self.rules {
            tlv::write_element(out, IDENTIFIER, rule.as_bytes());
        }
        for edge in &self.values {
            nested(out, VALUE_EDGE, |out| {
                number(out, NODE_ID, edge.to.into());
                tlv::write_element(out, COMPONENT, &edge.value);
            });
        }
        for edge in &self.patterns {
            nested(out, PATTERN_EDGE, |out| {
                number(out, NODE_ID, edge.to.into());
                number(out, TAG, edge.tag.into());
                for constraint in &edge.constraints {
                    nested(out, CONSTRAINT, |out| {
                        constraint.iter().for_each(|c| nested(out, OPTION, |out| c.encode(out)));
                    });
                }
            });
        }
        for signer in &self.signers {
            number(out, KEY_NODE_ID, (*signer).into());
        }
    }
}

impl ConstraintOption {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ConstraintOption::Is(operand) => operand.encode(out),
            ConstraintOption::Call(function, arguments) => nested(out, CALL, |out| {
                tlv::write_element(out, FUNCTION, function.name().as_bytes());
                arguments.iter().for_each(|a| nested(out, ARGUMENT, |out| a.encode(out)));
            }),
        }
    }
}

impl SchemaOperand {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            SchemaOperand::Value(value) => tlv::write_element(out, COMPONENT, value),
            SchemaOperand::Tag(tag) => number(out, TAG, (*tag).into()),
        }
    }
}

fn number(out: &mut Vec<u8>, typ: u32, number: u64) {
    tlv::write_number_element(out, typ, number);
}

fn nested(out: &mut Vec<u8>, typ: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut value = Vec::new();
    fill(&mut value);
    tlv::write_element(out, typ, &value);
}
