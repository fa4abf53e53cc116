//! Decodes the binary form. Elements come in the order of the grammar. Unknown ones are skipped if the packet format
//! permits that, and refused otherwise.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::NameRef;
use xylem_packet::tlv::{self, Element, TlvReader};

use super::error::SchemaError;
use super::limits::{MAX_NODES, MAX_SCHEMA, VERSION};
use super::model::{
    ARGUMENT, CALL, COMPONENT, CONSTRAINT, ConstraintOption, FUNCTION, Function, IDENTIFIER,
    KEY_NODE_ID, NAMED_PATTERNS, NODE, NODE_ID, OPTION, PARENT_ID, PATTERN_EDGE, PatternEdge,
    SYMBOL, SchemaNode, SchemaOperand, SchemaTree, TAG, VALUE_EDGE, VERSION_TYPE, Value, ValueEdge,
};

/// Maximum length of a rule's or pattern's name, in octets.
const MAX_IDENTIFIER: usize = 255;

pub(super) fn decode(bytes: &[u8]) -> Result<SchemaTree, SchemaError> {
    if bytes.len() > MAX_SCHEMA {
        return Err(SchemaError::TooLarge);
    }
    let mut fields = SchemaReader::new(bytes);
    // The version is read first: in another version, everything may have another meaning.
    let version = fields.number(VERSION_TYPE)?;
    if version != VERSION {
        return Err(SchemaError::Version(version));
    }
    let start = fields.u32_field(NODE_ID)?;
    let named = fields.u32_field(NAMED_PATTERNS)?;
    let mut nodes = Vec::new();
    while let Some(value) = fields.optional(NODE)? {
        if nodes.len() >= MAX_NODES {
            return Err(SchemaError::TooLarge);
        }
        nodes.push(node(value, nodes.len())?);
    }
    let mut symbols = Vec::new();
    while let Some(value) = fields.optional(SYMBOL)? {
        let mut fields = SchemaReader::new(value);
        symbols.push((fields.u32_field(TAG)?, fields.identifier()?));
        fields.end()?;
    }
    fields.end()?;
    Ok(SchemaTree { start, named, nodes, symbols })
}

fn node(value: &[u8], at: usize) -> Result<SchemaNode, SchemaError> {
    let mut fields = SchemaReader::new(value);
    let id = fields.u32_field(NODE_ID)?;
    if usize::try_from(id) != Ok(at) {
        return Err(SchemaError::NodeId { at, found: id });
    }
    let parent = fields.optional(PARENT_ID)?.map(read_u32).transpose()?;
    let mut node = SchemaNode { parent, ..SchemaNode::default() };
    while let Some(rule) = fields.optional(IDENTIFIER)? {
        node.rules.push(identifier(rule)?);
    }
    while let Some(edge) = fields.optional(VALUE_EDGE)? {
        let mut fields = SchemaReader::new(edge);
        node.values.push(ValueEdge { to: fields.u32_field(NODE_ID)?, value: fields.component()? });
        fields.end()?;
    }
    while let Some(edge) = fields.optional(PATTERN_EDGE)? {
        let mut fields = SchemaReader::new(edge);
        let (to, tag) = (fields.u32_field(NODE_ID)?, fields.u32_field(TAG)?);
        let mut constraints = Vec::new();
        while let Some(constraint) = fields.optional(CONSTRAINT)? {
            let mut fields = SchemaReader::new(constraint);
            let mut options = Vec::new();
            while let Some(option) = fields.optional(OPTION)? {
                options.push(choice(option)?);
            }
            fields.end()?;
            constraints.push(options);
        }
        fields.end()?;
        node.patterns.push(PatternEdge { to, tag, constraints });
    }
    while let Some(signer) = fields.optional(KEY_NODE_ID)? {
        node.signers.push(read_u32(signer)?);
    }
    fields.end()?;
    Ok(node)
}

fn choice(value: &[u8]) -> Result<ConstraintOption, SchemaError> {
    let mut fields = SchemaReader::new(value);
    let operand = operand(&mut fields)?;
    let call = fields.optional(CALL)?;
    fields.end()?;
    match (operand, call) {
        (Some(operand), None) => Ok(ConstraintOption::Is(operand)),
        (None, Some(value)) => call_of(value),
        _ => Err(SchemaError::Option),
    }
}

fn call_of(value: &[u8]) -> Result<ConstraintOption, SchemaError> {
    let mut fields = SchemaReader::new(value);
    let name = identifier(fields.required(FUNCTION)?)?;
    let function = Function::of(&name).ok_or(SchemaError::Function(name))?;
    let mut arguments = Vec::new();
    while let Some(argument) = fields.optional(ARGUMENT)? {
        let mut fields = SchemaReader::new(argument);
        arguments.push(operand(&mut fields)?.ok_or(SchemaError::Option)?);
        fields.end()?;
    }
    fields.end()?;
    Ok(ConstraintOption::Call(function, arguments))
}

/// A component or a tag. `None` if there is neither.
fn operand(fields: &mut SchemaReader<'_>) -> Result<Option<SchemaOperand>, SchemaError> {
    let value = fields.optional(COMPONENT)?.map(component).transpose()?;
    let tag = fields.optional(TAG)?.map(read_u32).transpose()?;
    match (value, tag) {
        (Some(value), None) => Ok(Some(SchemaOperand::Value(value))),
        (None, Some(tag)) => Ok(Some(SchemaOperand::Tag(tag))),
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(SchemaError::Option),
    }
}

/// The elements of one value, read in the order of the grammar.
struct SchemaReader<'a> {
    reader: TlvReader<'a>,
    next: Option<Element<'a>>,
}

impl<'a> SchemaReader<'a> {
    fn new(value: &'a [u8]) -> Self {
        SchemaReader { reader: TlvReader::new(value), next: None }
    }

    fn peek(&mut self) -> Result<Option<Element<'a>>, SchemaError> {
        while self.next.is_none() {
            match self.reader.next_element()? {
                None => return Ok(None),
                Some(element) if tlv::is_critical(element.typ) => self.next = Some(element),
                Some(_) => {}
            }
        }
        Ok(self.next)
    }

    fn optional(&mut self, typ: u32) -> Result<Option<&'a [u8]>, SchemaError> {
        let found = self.peek()?.filter(|element| element.typ == typ);
        if found.is_some() {
            self.next = None;
        }
        Ok(found.map(|element| element.value))
    }

    fn required(&mut self, typ: u32) -> Result<&'a [u8], SchemaError> {
        self.optional(typ)?.ok_or(SchemaError::Missing(typ))
    }

    fn number(&mut self, typ: u32) -> Result<u64, SchemaError> {
        tlv::read_number(self.required(typ)?).ok_or(SchemaError::Number)
    }

    fn u32_field(&mut self, typ: u32) -> Result<u32, SchemaError> {
        read_u32(self.required(typ)?)
    }

    fn identifier(&mut self) -> Result<String, SchemaError> {
        identifier(self.required(IDENTIFIER)?)
    }

    fn component(&mut self) -> Result<Value, SchemaError> {
        component(self.required(COMPONENT)?)
    }

    fn end(&mut self) -> Result<(), SchemaError> {
        match self.peek()? {
            None => Ok(()),
            Some(element) => Err(SchemaError::Unexpected(element.typ)),
        }
    }
}

/// A number that counts nodes or patterns.
fn read_u32(value: &[u8]) -> Result<u32, SchemaError> {
    let number = tlv::read_number(value).ok_or(SchemaError::Number)?;
    u32::try_from(number).map_err(|_| SchemaError::Number)
}

/// Names are displayed to people, so control characters are refused.
fn identifier(value: &[u8]) -> Result<String, SchemaError> {
    let text = core::str::from_utf8(value).map_err(|_| SchemaError::Identifier)?;
    if text.is_empty() || text.len() > MAX_IDENTIFIER || text.chars().any(char::is_control) {
        return Err(SchemaError::Identifier);
    }
    Ok(text.to_owned())
}

fn component(value: &[u8]) -> Result<Value, SchemaError> {
    match NameRef::from_value(value) {
        Ok(name) if name.len() == 1 => Ok(value.into()),
        _ => Err(SchemaError::Component),
    }
}
