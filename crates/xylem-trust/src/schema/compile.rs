//! Compiles rules into a tree. References are replaced by the names that they stand for, and names with a common
//! beginning share nodes.
//!
//! The order of elements determines the bytes. It is python-ndn's, so that one text has one binary form: referenced
//! rules come first, patterns are numbered as they occur, and edges are sorted by their bytes or by the text of their
//! constraints (`Term::key`). There is one difference. If a rule is referenced twice in one name, its temporary
//! patterns keep their constraints in both places; python-ndn drops them in the second.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::fmt::Write;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::error::CompileError;
use super::limits::{MAX_DEPTH, MAX_NODES};
use super::model::{
    ConstraintOption, PatternEdge, SchemaNode, SchemaOperand, SchemaTree, Value, ValueEdge,
};
use super::text::{self, NamePart, NamedToken, Rule, TextPosition};

/// Maximum number of components and constraints in all names that the rules stand for, together.
const MAX_EXPANDED: usize = 1 << 18;

pub(super) fn compile(rules: Vec<Rule>) -> Result<SchemaTree, CompileError> {
    let mut compiler = Compiler::default();
    for rule in sort_by_reference(rules)? {
        compiler.rule(&rule)?;
    }
    compiler.tree()
}

/// Sorts the rules so that each comes after those that its name refers to.
fn sort_by_reference(mut rules: Vec<Rule>) -> Result<Vec<Rule>, CompileError> {
    let mut refers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for rule in &rules {
        refers.entry(&rule.id).or_default();
    }
    let mut referred: HashMap<&str, usize> = refers.keys().map(|id| (*id, 0)).collect();
    for rule in &rules {
        for part in &rule.name {
            let NamePart::Rule(word) = part else { continue };
            let count = referred.get_mut(word.text.as_str()).ok_or_else(|| unknown(word))?;
            *count = count.saturating_add(1);
            refers.entry(&rule.id).or_default().push(&word.text);
        }
    }
    // Each round holds the rules that no remaining rule refers to. The last round comes first in the result.
    let mut order: Vec<String> = Vec::new();
    let mut round: BTreeSet<&str> =
        referred.iter().filter(|(_, count)| **count == 0).map(|(id, _)| *id).collect();
    while !round.is_empty() {
        let mut next = BTreeSet::new();
        for id in &round {
            order.push((*id).to_owned());
            for to in refers.get(id).into_iter().flatten() {
                let count = referred.entry(to).or_default();
                *count = count.saturating_sub(1);
                if *count == 0 {
                    next.insert(*to);
                }
            }
        }
        round = next;
    }
    let places: HashMap<String, usize> =
        order.into_iter().rev().enumerate().map(|(at, id)| (id, at)).collect();
    if let Some(rule) = rules.iter().find(|rule| !places.contains_key(&rule.id)) {
        return Err(rule.at.error(format!("{}: its name refers to itself", rule.id)));
    }
    rules.sort_by_key(|rule| places.get(&rule.id).copied());
    Ok(rules)
}

fn unknown(word: &NamedToken) -> CompileError {
    let why = if word.is_temporary() {
        "a rule whose name begins with #_ cannot be referred to"
    } else {
        "there is no such rule"
    };
    word.at.error(format!("{}: {why}", word.text))
}

/// A component of a name: the index of a value, or a pattern's number. Temporary patterns have negative numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpansionStep {
    Value(usize),
    Pattern(i32),
}

/// A constraint on some patterns.
#[derive(Debug)]
struct PatternConstraint {
    patterns: Vec<i32>,
    choices: Vec<ConstraintOption>,
    /// Sort key of edges. Edges with the same constraints have the same key.
    key: String,
}

/// One of the names that a rule stands for.
#[derive(Debug, Clone)]
struct NameExpansion {
    rule: usize,
    steps: Vec<ExpansionStep>,
    terms: Vec<usize>,
}

#[derive(Debug, Default)]
struct Compiler {
    /// Names of rules with the place of their definition.
    rules: Vec<(String, TextPosition)>,
    /// For each rule definition, the rules that may sign it.
    signers: Vec<Vec<NamedToken>>,
    chains: BTreeMap<String, Vec<NameExpansion>>,
    values: Vec<Value>,
    numbers: HashMap<Value, usize>,
    named: HashMap<String, i32>,
    temporary: i32,
    terms: Vec<PatternConstraint>,
    expanded: usize,
    nodes: Vec<SchemaNode>,
    /// For each node, the rule definitions with chains that end there.
    rules_ending_at: Vec<Vec<usize>>,
    nodes_of: HashMap<String, Vec<u32>>,
    next_tag: u32,
}

impl Compiler {
    fn rule(&mut self, rule: &Rule) -> Result<(), CompileError> {
        let number = self.rules.len();
        self.rules.push((rule.id.clone(), rule.at));
        let mut signers = rule.signers.clone();
        signers.sort_by(|a, b| a.text.cmp(&b.text));
        self.signers.push(signers);

        let mut temporary: HashMap<&str, Vec<i32>> = HashMap::new();
        let mut steps = Vec::new();
        for part in &rule.name {
            steps.push(match part {
                NamePart::Value(value) => Some(ExpansionStep::Value(self.value(value))),
                NamePart::Pattern(word) if word.is_temporary() => {
                    self.temporary = self.temporary.saturating_sub(1);
                    temporary.entry(&word.text).or_default().push(self.temporary);
                    Some(ExpansionStep::Pattern(self.temporary))
                }
                NamePart::Pattern(word) => {
                    let next = i32::try_from(self.named.len()).unwrap_or(i32::MAX);
                    let next = next.saturating_add(1);
                    let tag = self.named.entry(word.text.clone()).or_insert(next);
                    Some(ExpansionStep::Pattern(*tag))
                }
                NamePart::Rule(_) => None,
            });
        }
        let mut sets = Vec::new();
        for set in &rule.sets {
            let terms = set.iter().map(|term| self.term(term, &temporary));
            sets.push(terms.collect::<Result<Vec<_>, _>>()?);
        }
        let new = |terms| NameExpansion { rule: number, steps: Vec::new(), terms };
        let mut chains: Vec<NameExpansion> = match sets.is_empty() {
            true => vec![new(Vec::new())],
            false => sets.iter().map(|terms| new(terms.clone())).collect(),
        };
        for (part, step) in rule.name.iter().zip(steps) {
            chains = match (part, step) {
                (NamePart::Rule(word), _) => self.expand_reference(word, chains)?,
                (_, Some(step)) => {
                    chains.iter_mut().for_each(|chain| chain.steps.push(step));
                    chains
                }
                (_, None) => chains,
            };
        }
        for (term, written) in sets.iter().flatten().zip(rule.sets.iter().flatten()) {
            let patterns = &self.terms[*term].patterns;
            let occurs = |step: &ExpansionStep| matches!(step, ExpansionStep::Pattern(tag) if patterns.contains(tag));
            if !chains.iter().any(|chain| chain.steps.iter().any(occurs)) {
                let NamedToken { text, at } = &written.pattern;
                return Err(at.error(format!("{text} does not occur in the name of {}", rule.id)));
            }
        }
        for chain in &chains {
            self.count(chain.steps.len().saturating_add(chain.terms.len()), rule.at)?;
            if chain.steps.len() > MAX_DEPTH {
                let problem = format!("{} expands to more than {MAX_DEPTH} components", rule.id);
                return Err(rule.at.error(problem));
            }
        }
        self.chains.entry(rule.id.clone()).or_default().append(&mut chains);
        Ok(())
    }

    /// Combines every name so far with every name that the rule stands for.
    fn expand_reference(
        &mut self,
        word: &NamedToken,
        chains: Vec<NameExpansion>,
    ) -> Result<Vec<NameExpansion>, CompileError> {
        let referred = self.chains.get(&word.text).cloned().ok_or_else(|| unknown(word))?;
        let mut all = Vec::new();
        for tail in &referred {
            for head in &chains {
                let mut chain = head.clone();
                chain.steps.extend_from_slice(&tail.steps);
                chain.terms.extend_from_slice(&tail.terms);
                self.count(chain.steps.len().saturating_add(chain.terms.len()), word.at)?;
                all.push(chain);
            }
        }
        Ok(all)
    }

    fn count(&mut self, more: usize, at: TextPosition) -> Result<(), CompileError> {
        self.expanded = self.expanded.saturating_add(more);
        if self.expanded > MAX_EXPANDED {
            return Err(at.error("the rules expand to too many names"));
        }
        Ok(())
    }

    fn value(&mut self, value: &Value) -> usize {
        let next = self.values.len();
        let number = *self.numbers.entry(value.clone()).or_insert(next);
        if number == next {
            self.values.push(value.clone());
        }
        number
    }

    fn term(
        &mut self,
        term: &text::TextConstraint,
        temporary: &HashMap<&str, Vec<i32>>,
    ) -> Result<usize, CompileError> {
        let NamedToken { text, at } = &term.pattern;
        let patterns = match term.pattern.is_temporary() {
            true => temporary.get(text.as_str()).cloned(),
            false => self.named.get(text).map(|tag| vec![*tag]),
        };
        let patterns = patterns
            .ok_or_else(|| at.error(format!("{text} does not occur in any name up to here")))?;
        let mut key = String::from("{");
        let mut choices = Vec::new();
        for choice in &term.options {
            choices.push(match choice {
                text::TextOption::Is(operand) => {
                    ConstraintOption::Is(self.operand(operand, &mut key)?)
                }
                text::TextOption::Call(function, arguments) => {
                    key.push_str(function.name());
                    key.push('(');
                    let arguments = arguments.iter().map(|a| self.operand(a, &mut key));
                    let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
                    key.push(')');
                    ConstraintOption::Call(*function, arguments)
                }
            });
            key.push(',');
        }
        key.push('}');
        self.terms.push(PatternConstraint { patterns, choices, key });
        Ok(self.terms.len().saturating_sub(1))
    }

    fn operand(
        &self,
        operand: &text::TextOperand,
        key: &mut String,
    ) -> Result<SchemaOperand, CompileError> {
        match operand {
            text::TextOperand::Value(value) => {
                key.push_str("v=");
                value.iter().for_each(|octet| _ = write!(key, "{octet:02x}"));
                Ok(SchemaOperand::Value(value.clone()))
            }
            text::TextOperand::Pattern(NamedToken { text, at }) => {
                if text.starts_with('_') {
                    let problem =
                        format!("{text} begins with _, so it has no value to compare with");
                    return Err(at.error(problem));
                }
                let tag = self.named.get(text);
                let tag = *tag.ok_or_else(|| {
                    at.error(format!("{text} does not occur in any name up to here"))
                })?;
                _ = write!(key, "t={tag}");
                Ok(SchemaOperand::Tag(tag.unsigned_abs()))
            }
        }
    }

    fn tree(mut self) -> Result<SchemaTree, CompileError> {
        let chains: Vec<NameExpansion> =
            core::mem::take(&mut self.chains).into_values().flatten().collect();
        let named = u32::try_from(self.named.len()).unwrap_or(u32::MAX);
        self.next_tag = named;
        self.node(0, &chains.iter().collect::<Vec<_>>(), None, &mut Vec::new())?;
        for (node, ends) in self.nodes.iter_mut().zip(&self.rules_ending_at) {
            for signer in ends.iter().flat_map(|rule| &self.signers[*rule]) {
                let nodes = self.nodes_of.get(&signer.text).ok_or_else(|| unknown(signer))?;
                node.signers.extend_from_slice(nodes);
            }
            node.signers.sort_unstable();
        }
        let mut symbols: Vec<_> =
            self.named.into_iter().map(|(name, tag)| (tag.unsigned_abs(), name)).collect();
        symbols.sort_unstable();
        Ok(SchemaTree { start: 0, named, nodes: self.nodes, symbols })
    }

    /// Adds the node that these chains reach after `depth` components, and all nodes below it.
    fn node(
        &mut self,
        depth: usize,
        chains: &[&NameExpansion],
        parent: Option<u32>,
        bound: &mut Vec<i32>,
    ) -> Result<u32, CompileError> {
        let at = self.nodes.len();
        let place = chains.first().and_then(|chain| self.rules.get(chain.rule));
        let place = place.map_or_else(TextPosition::default, |(_, place)| *place);
        if at >= MAX_NODES {
            return Err(place.error(format!("the schema has more than {MAX_NODES} nodes")));
        }
        let id = u32::try_from(at).map_err(|_| place.error("too many nodes"))?;
        self.nodes.push(SchemaNode { parent, ..SchemaNode::default() });
        self.rules_ending_at.push(Vec::new());

        let mut values: BTreeMap<Value, Vec<&NameExpansion>> = BTreeMap::new();
        let mut patterns: BTreeMap<String, (i32, Vec<usize>, Vec<&NameExpansion>)> =
            BTreeMap::new();
        for chain in chains {
            match chain.steps.get(depth) {
                None => {
                    let rule = &self.rules[chain.rule].0;
                    self.nodes[at].rules.push(rule.clone());
                    self.nodes_of.entry(rule.clone()).or_default().push(id);
                    self.rules_ending_at[at].push(chain.rule);
                }
                Some(ExpansionStep::Value(value)) => {
                    values.entry(self.values[*value].clone()).or_default().push(chain);
                }
                Some(ExpansionStep::Pattern(tag)) => {
                    let terms = self.terms_of(chain, *tag, bound);
                    let mut key = format!("{tag}:");
                    terms.iter().for_each(|term| key.push_str(&self.terms[*term].key));
                    let edge = patterns.entry(key).or_insert((*tag, terms, Vec::new()));
                    edge.2.push(chain);
                }
            }
        }
        let below = depth.saturating_add(1);
        for (value, chains) in values {
            let to = self.node(below, &chains, Some(id), bound)?;
            self.nodes[at].values.push(ValueEdge { to, value });
        }
        for (_, (pattern, terms, chains)) in patterns {
            let tag = u32::try_from(pattern).unwrap_or_else(|_| {
                self.next_tag = self.next_tag.saturating_add(1);
                self.next_tag
            });
            let constraints = terms.iter().map(|term| self.terms[*term].choices.clone()).collect();
            bound.push(pattern);
            let to = self.node(below, &chains, Some(id), bound);
            bound.pop();
            self.nodes[at].patterns.push(PatternEdge { to: to?, tag, constraints });
        }
        Ok(id)
    }

    /// The constraints of a pattern at this place: none if it is bound already.
    fn terms_of(&self, chain: &NameExpansion, tag: i32, bound: &[i32]) -> Vec<usize> {
        if tag >= 0 && bound.contains(&tag) {
            return Vec::new();
        }
        let about = |term: &&usize| self.terms[**term].patterns.contains(&tag);
        chain.terms.iter().filter(about).copied().collect()
    }
}
