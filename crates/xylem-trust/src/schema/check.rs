//! Checks names against a schema. Every way to match a name is tried, with the patterns that it binds.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv::{self, TlvReader, types};
use xylem_packet::{Component, NameRef};

use super::Schema;
use super::error::SchemaRefusal;
use super::limits::MAX_DEPTH;
use super::model::{ConstraintOption, Function, PatternEdge, SchemaOperand};

/// Maximum number of steps of one check: nodes visited, and edges, options and arguments tried. A usual check takes a
/// few dozen. A schema made to take forever is stopped after less than a millisecond.
pub const MAX_STEPS: u32 = 1 << 14;

/// Maximum number of rules listed in a refusal.
const MAX_RULES_LISTED: usize = 8;

/// A check that passed, with its rules.
#[derive(Debug, Clone, Copy)]
pub struct SchemaPermit<'a> {
    schema: &'a Schema,
    packet: u32,
    key: u32,
}

impl SchemaPermit<'_> {
    /// The rule that the packet matches.
    #[must_use]
    pub fn rule(&self) -> String {
        self.schema.model.rule(self.packet)
    }

    /// The rule that the key matches.
    #[must_use]
    pub fn key_rule(&self) -> String {
        self.schema.model.rule(self.key)
    }
}

/// One way in which a name matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// The rules.
    pub rules: Vec<String>,
    /// Named patterns and the components bound to them (whole TLVs).
    pub patterns: Vec<(String, Vec<u8>)>,
}

impl Schema {
    /// Whether a key may sign a packet. `key` is the packet's KeyLocator or, better, the whole name of the certificate
    /// found there. A digest at the end of either name is ignored.
    ///
    /// # Errors
    /// The rule that refuses it.
    pub fn check(
        &self,
        packet: NameRef<'_>,
        key: NameRef<'_>,
    ) -> Result<SchemaPermit<'_>, SchemaRefusal> {
        let (packet, key) = (SplitName::of(packet), SplitName::of(key));
        match self.permit(packet.parts(), key.parts()) {
            Some(Some((packet, key))) => Ok(SchemaPermit { schema: self, packet, key }),
            Some(None) => Err(self.explain(packet.parts(), key.parts())),
            None => Err(SchemaRefusal::TooMuch),
        }
    }

    /// The index of the first of these keys that may sign a packet with this name.
    pub fn suggest<'k>(
        &self,
        packet: NameRef<'_>,
        keys: impl IntoIterator<Item = NameRef<'k>>,
    ) -> Option<usize> {
        let packet = SplitName::of(packet);
        keys.into_iter().position(|key| {
            matches!(self.permit(packet.parts(), SplitName::of(key).parts()), Some(Some(_)))
        })
    }

    /// Every way in which a name matches rules. Nodes without rule names are left out.
    ///
    /// # Errors
    /// `TooMuch`.
    pub fn matches(&self, name: NameRef<'_>) -> Result<Vec<Match>, SchemaRefusal> {
        let name = SplitName::of(name);
        let mut found = Vec::new();
        let ended = self.walk(name.parts(), &mut SchemaWalk::new(), &mut |node, walk| {
            let rules = &self.model.nodes[node as usize].rules;
            if !rules.is_empty() {
                let named = walk.bound.iter().filter_map(|(tag, component)| {
                    Some((self.model.symbol(*tag)?.to_owned(), component.to_vec()))
                });
                found.push(Match { rules: rules.clone(), patterns: named.collect() });
            }
            Some(false)
        });
        if ended.is_none() { Err(SchemaRefusal::TooMuch) } else { Ok(found) }
    }

    /// The nodes of the first way in which the key may sign. The outer `None` means too many steps.
    fn permit(&self, packet: &[&[u8]], key: &[&[u8]]) -> Option<Option<(u32, u32)>> {
        let mut permit = None;
        self.walk(packet, &mut SchemaWalk::new(), &mut |node, walk| {
            let signers = &self.model.nodes[node as usize].signers;
            if signers.is_empty() {
                return Some(false);
            }
            self.walk(key, walk, &mut |key_node, _| {
                if signers.binary_search(&key_node).is_ok() {
                    permit = Some((node, key_node));
                }
                Some(permit.is_some())
            })
        })?;
        Some(permit)
    }

    /// Why there is no such way. It runs only for refusals: it walks again and makes text.
    fn explain(&self, packet: &[&[u8]], key: &[&[u8]]) -> SchemaRefusal {
        let (mut unsigned, mut refusal) = (Vec::new(), None);
        let ended = self.walk(packet, &mut SchemaWalk::new(), &mut |node, walk| {
            let (rule, of_node) = (self.model.rule(node), &self.model.nodes[node as usize]);
            if of_node.signers.is_empty() {
                if !of_node.rules.is_empty() && unsigned.len() < MAX_RULES_LISTED {
                    unsigned.push(rule);
                }
                return Some(false);
            }
            let mut found: Vec<String> = Vec::new();
            let mut other = None;
            // The key by itself, without the bindings of the packet.
            let mut alone = SchemaWalk { steps: walk.steps, bound: Vec::new() };
            self.walk(key, &mut alone, &mut |key_node, alone| {
                let key = self.model.rule(key_node);
                if of_node.signers.binary_search(&key_node).is_ok() {
                    let differs = alone.bound.iter().find(|(tag, component)| {
                        walk.value(*tag).is_some_and(|bound| bound != *component)
                    });
                    let pattern = differs.and_then(|(tag, _)| self.model.symbol(*tag));
                    let pattern = pattern.map(str::to_owned);
                    other = Some(SchemaRefusal::Binding { rule: rule.clone(), key, pattern });
                    return Some(true);
                }
                let named = !self.model.nodes[key_node as usize].rules.is_empty();
                if named && found.len() < MAX_RULES_LISTED && !found.contains(&key) {
                    found.push(key);
                }
                Some(false)
            })?;
            walk.steps = alone.steps;
            let mut wanted: Vec<String> = Vec::new();
            for signer in &of_node.signers {
                let signer = self.model.rule(*signer);
                if wanted.len() < MAX_RULES_LISTED && !wanted.contains(&signer) {
                    wanted.push(signer);
                }
            }
            // The rule that nearly passed is the most helpful.
            let nearly = other.is_some();
            if nearly || refusal.is_none() {
                refusal = Some(other.unwrap_or(SchemaRefusal::Key { rule, wanted, found }));
            }
            Some(nearly)
        });
        match (ended, refusal) {
            (None, None) => SchemaRefusal::TooMuch,
            (_, Some(refusal)) => refusal,
            _ if unsigned.is_empty() => SchemaRefusal::NoRule,
            _ => SchemaRefusal::Unsigned { rules: unsigned },
        }
    }

    /// Calls `found` with every node that the whole name leads to, until it returns `true`. Returns `None` after too
    /// many steps. All bindings made are undone on return.
    fn walk<'n>(
        &self,
        name: &[&'n [u8]],
        walk: &mut SchemaWalk<'n>,
        found: &mut dyn FnMut(u32, &mut SchemaWalk<'n>) -> Option<bool>,
    ) -> Option<bool> {
        // An empty name, or one that is too long, matches nothing.
        if name.is_empty() {
            return Some(false);
        }
        self.walk_from(self.model.start, name, walk, found)
    }

    fn walk_from<'n>(
        &self,
        at: u32,
        name: &[&'n [u8]],
        walk: &mut SchemaWalk<'n>,
        found: &mut dyn FnMut(u32, &mut SchemaWalk<'n>) -> Option<bool>,
    ) -> Option<bool> {
        walk.step()?;
        let Some((component, rest)) = name.split_first() else {
            return found(at, walk);
        };
        let node = &self.model.nodes[at as usize];
        if let Ok(i) = node.values.binary_search_by(|edge| (*edge.value).cmp(component))
            && self.walk_from(node.values[i].to, rest, walk, found)?
        {
            return Some(true);
        }
        for edge in &node.patterns {
            walk.step()?;
            let known = walk.value(edge.tag);
            // A component bound by the packet still has to satisfy the constraints of the key's rule.
            if known.is_some_and(|bound| bound != *component) || !walk.satisfies(edge, component)? {
                continue;
            }
            let binds = known.is_none() && edge.tag <= self.model.named;
            if binds {
                walk.bound.push((edge.tag, component));
            }
            let ended = self.walk_from(edge.to, rest, walk, found);
            if binds {
                walk.bound.pop();
            }
            if ended? {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// The remaining steps of a check, and the bindings of its patterns.
struct SchemaWalk<'n> {
    steps: u32,
    bound: Vec<(u32, &'n [u8])>,
}

impl<'n> SchemaWalk<'n> {
    fn new() -> Self {
        SchemaWalk { steps: MAX_STEPS, bound: Vec::with_capacity(16) }
    }

    fn step(&mut self) -> Option<()> {
        self.steps = self.steps.checked_sub(1)?;
        Some(())
    }

    fn value(&self, tag: u32) -> Option<&'n [u8]> {
        self.bound.iter().find(|(known, _)| *known == tag).map(|(_, component)| *component)
    }

    fn satisfies(&mut self, edge: &PatternEdge, component: &[u8]) -> Option<bool> {
        for constraint in &edge.constraints {
            let mut satisfied = false;
            for choice in constraint {
                self.step()?;
                satisfied = match choice {
                    ConstraintOption::Is(operand) => self.resolve(operand) == Some(component),
                    ConstraintOption::Call(function, arguments) => {
                        self.call(*function, arguments, component)?
                    }
                };
                if satisfied {
                    break;
                }
            }
            if !satisfied {
                return Some(false);
            }
        }
        Some(true)
    }

    /// A call with an unbound pattern as argument is not satisfied.
    fn call(
        &mut self,
        function: Function,
        arguments: &[SchemaOperand],
        component: &[u8],
    ) -> Option<bool> {
        for argument in arguments {
            self.step()?;
            let holds = self.resolve(argument).is_some_and(|value| match function {
                Function::Eq => value == component,
                Function::EqType => type_of(value) == type_of(component),
            });
            if !holds {
                return Some(false);
            }
        }
        Some(true)
    }

    fn resolve<'o>(&self, operand: &'o SchemaOperand) -> Option<&'o [u8]>
    where
        'n: 'o,
    {
        match operand {
            SchemaOperand::Value(value) => Some(value),
            SchemaOperand::Tag(tag) => self.value(*tag),
        }
    }
}

fn type_of(component: &[u8]) -> Option<u64> {
    tlv::read_var_number(component).ok().map(|(typ, _)| typ)
}

/// A name's components, each with its type and length, as edges hold them.
struct SplitName<'n> {
    parts: [&'n [u8]; MAX_DEPTH],
    len: usize,
}

impl<'n> SplitName<'n> {
    /// Splits a name. The result is empty if there are more components than a schema can match.
    fn of(name: NameRef<'n>) -> Self {
        let mut split = SplitName { parts: [&[]; MAX_DEPTH], len: 0 };
        let value = name.value();
        let mut reader = TlvReader::new(value);
        while let Ok(Some(element)) = reader.next_element() {
            // A digest at the end belongs to the packet and is no part of its name.
            let is_last = element.end == value.len();
            if is_last && element.typ == types::IMPLICIT_SHA256_DIGEST {
                break;
            }
            let Some(place) = split.parts.get_mut(split.len) else {
                return SplitName { parts: [&[]; MAX_DEPTH], len: 0 };
            };
            *place = &value[element.start..element.end];
            split.len = split.len.saturating_add(1);
        }
        split
    }

    fn parts(&self) -> &[&'n [u8]] {
        &self.parts[..self.len]
    }
}

/// Display of [`Match::patterns`] for people.
impl Match {
    /// The patterns as pairs of name and component.
    pub fn bindings(&self) -> impl Iterator<Item = (&str, Component<'_>)> {
        self.patterns.iter().filter_map(|(name, component)| {
            Some((name.as_str(), NameRef::from_value(component).ok()?.get(0)?))
        })
    }
}
