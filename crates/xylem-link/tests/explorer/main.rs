//! A Dolev-Yao explorer: two honest ends, and an attacker who holds the ticket, sees every datagram, and may drop,
//! delay, repeat, splice, flip and forge with keys of their own, from any address. Every order of so many of
//! the steps in `world.rs` is tried; after each the attacker stops, and what the honest ends have sent and go on
//! sending arrives.
//!
//! What has to hold, whatever was done (docs/spec/link.md, "Invariants"):
//!
//! 1. Nobody ends with another's key, and what one end says in a session is heard by the other in that same one.
//! 2. No genuine handshake is ended by injection: both ends get connected.
//! 3. What was sent in one session is not taken in another.
//! 4. An address that is not proven is never sent more bytes than came from it.
//!
//! That what was sealed stays sealed when static keys are given away follows from the first (no end has a session
//! with an ephemeral key of the attacker's, but where it says that its peer is the attacker) and from
//! `src/endpoint/tests/secrecy.rs`, which hands over all keys but the ephemeral ones.
//!
//! Orders that lead to the same state are tried on from one of them. Two states are taken to be the same if the two
//! ends have sent and reported the same until then, and do, to the byte, when the attacker stops.

mod world;

use std::collections::HashMap;

use world::{Scene, Step, World};

/// Tries every order of up to `depth` steps.
fn explore(scene: &Scene, depth: usize) {
    let mut numbers = HashMap::new();
    let mut states: Vec<Vec<Step>> = vec![vec![]];
    let mut next: Vec<Vec<usize>> = vec![];
    let mut runs = 1;
    numbers.insert(World::run(scene, &[]).expect("nothing was done").settle(&[]), 0);
    let mut layer_end = states.len();
    for _ in 0..depth {
        for state in next.len()..layer_end {
            let mut reached = vec![];
            for step in scene.steps() {
                let mut order = states[state].clone();
                order.push(step);
                let Some(world) = World::run(scene, &order) else { continue };
                runs += 1;
                let number = *numbers.entry(world.settle(&order)).or_insert_with(|| {
                    states.push(order);
                    states.len() - 1
                });
                reached.push(number);
            }
            next.push(reached);
        }
        layer_end = states.len();
    }
    // How many ways there are to each state.
    let (mut ways, mut orders) = (vec![0u128; states.len()], 1);
    ways[0] = 1;
    for _ in 0..depth {
        let mut after = vec![0; states.len()];
        for (state, reached) in next.iter().enumerate() {
            reached.iter().for_each(|number| after[*number] += ways[state]);
        }
        ways = after;
        orders += ways.iter().sum::<u128>();
    }
    let states = states.len();
    println!("{scene:?}: {orders} orders of up to {depth} steps, {states} states, {runs} runs");
    assert!(states > 10 * depth && runs > 10 * states, "there is something to explore");
}

/// The number of steps: `XYLEM_EXPLORE` more than usual.
fn depth(usual: usize) -> usize {
    let more = std::env::var("XYLEM_EXPLORE").ok().and_then(|more| more.parse::<usize>().ok());
    usual + more.unwrap_or(0)
}

#[test]
fn a_dial_by_key() {
    explore(&Scene::BY_KEY, depth(4));
}

#[test]
fn a_dial_by_knock() {
    explore(&Scene::BY_KNOCK, depth(3));
}

#[test]
fn a_hybrid_dial() {
    explore(&Scene::HYBRID, depth(3));
}

#[test]
fn a_dial_that_has_to_prove_its_address() {
    explore(&Scene::COOKIES, depth(3));
}

#[test]
fn a_second_dial_after_a_session() {
    explore(&Scene::AGAIN, depth(3));
}
