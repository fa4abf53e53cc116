//! Checks beyond the grammar: a schema has to be a tree, and chains of signatures have to end.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use super::error::SchemaError;
use super::limits::{MAX_DEPTH, MAX_NODES};
use super::model::SchemaTree;

/// Sorts edges and signers, so that they can be searched. Returns the nodes that sign and that no node signs.
pub(super) fn check(model: &mut SchemaTree) -> Result<Vec<u32>, SchemaError> {
    if model.nodes.len() > MAX_NODES {
        return Err(SchemaError::TooLarge);
    }
    for (at, node) in (0u32..).zip(&mut model.nodes) {
        node.values.sort_by(|a, b| a.value.cmp(&b.value));
        if node.values.windows(2).any(|pair| pair[0].value == pair[1].value) {
            return Err(SchemaError::SameEdge(at));
        }
        node.signers.sort_unstable();
    }
    tree(model)?;
    anchors(model)
}

/// Checks that every node but the first has one edge to it, from its parent, and can be reached.
fn tree(model: &SchemaTree) -> Result<(), SchemaError> {
    let start = model.nodes.get(model.start as usize).ok_or(SchemaError::NoNode(model.start))?;
    if start.parent.is_some() {
        return Err(SchemaError::Parent(model.start));
    }
    let mut seen = vec![false; model.nodes.len()];
    seen[model.start as usize] = true;
    let mut level = vec![model.start];
    for _ in 0..=MAX_DEPTH {
        let mut next = Vec::new();
        for at in level {
            let node = &model.nodes[at as usize];
            let values = node.values.iter().map(|edge| edge.to);
            for to in values.chain(node.patterns.iter().map(|edge| edge.to)) {
                let child = model.nodes.get(to as usize).ok_or(SchemaError::NoNode(to))?;
                if child.parent != Some(at) || core::mem::replace(&mut seen[to as usize], true) {
                    return Err(SchemaError::Parent(to));
                }
                next.push(to);
            }
        }
        level = next;
    }
    if !level.is_empty() {
        return Err(SchemaError::TooDeep);
    }
    match (0u32..).zip(seen).find(|(_, seen)| !seen) {
        Some((at, _)) => Err(SchemaError::Unreachable(at)),
        None => Ok(()),
    }
}

/// Repeatedly removes nodes after all of their signers. Remaining nodes form a loop.
fn anchors(model: &SchemaTree) -> Result<Vec<u32>, SchemaError> {
    let mut signs = vec![Vec::new(); model.nodes.len()];
    let mut waits_for = Vec::with_capacity(model.nodes.len());
    for (at, node) in (0u32..).zip(&model.nodes) {
        for signer in &node.signers {
            let known = signs.get_mut(*signer as usize).ok_or(SchemaError::NoNode(*signer))?;
            known.push(at);
        }
        waits_for.push(node.signers.len());
    }
    let mut done: Vec<u32> =
        (0u32..).zip(&waits_for).filter(|(_, left)| **left == 0).map(|(at, _)| at).collect();
    let anchors =
        done.iter().copied().filter(|at| !signs[*at as usize].is_empty()).collect::<Vec<_>>();
    while let Some(at) = done.pop() {
        for signed in &signs[at as usize] {
            let left = &mut waits_for[*signed as usize];
            *left = left.saturating_sub(1);
            if *left == 0 {
                done.push(*signed);
            }
        }
    }
    match (0u32..).zip(waits_for).find(|(_, left)| *left > 0) {
        Some((at, _)) => Err(SchemaError::SigningLoop(model.rule(at))),
        None => Ok(anchors),
    }
}
