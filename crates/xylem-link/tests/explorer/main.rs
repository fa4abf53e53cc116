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

/// Where an exploration has come to: by which order, with how many injections that had an effect, and where the
/// steps from here lead.
struct Node {
    order: Vec<Step>,
    injected: usize,
    /// Both ends have what they wanted.
    complete: bool,
    next: Vec<usize>,
}

/// Tries every order of up to `depth` steps with up to `injections` that have an effect, and any number that have
/// none.
fn explore(scene: &Scene, depth: usize, injections: usize) {
    let begun = std::time::Instant::now();
    let start = World::run(scene, &[]).expect("nothing was done").settle(&[]);
    let mut numbers = HashMap::from([((start, 0), 0)]);
    let mut keys = vec![start];
    let mut nodes = vec![Node { order: vec![], injected: 0, complete: false, next: vec![] }];
    let (mut runs, mut done) = (1u32, 0);
    for _ in 0..depth {
        let layer = done..nodes.len();
        done = layer.end;
        for number in layer {
            if nodes[number].complete {
                continue;
            }
            for step in scene.steps() {
                let node = &nodes[number];
                if step.injects() && node.injected == injections {
                    continue;
                }
                let order = [&node.order[..], &[step]].concat();
                let Some(world) = World::run(scene, &order) else { continue };
                runs += 1;
                let complete = world.is_complete();
                let key = world.settle(&order);
                // What changes nothing is free.
                let injected = node.injected + usize::from(step.injects() && key != keys[number]);
                let reached = *numbers.entry((key, injected)).or_insert_with(|| {
                    keys.push(key);
                    nodes.push(Node { order, injected, complete, next: vec![] });
                    nodes.len() - 1
                });
                nodes[number].next.push(reached);
            }
        }
    }
    // How many ways there are to each node.
    let (mut ways, mut orders) = (vec![0u128; nodes.len()], 1);
    ways[0] = 1;
    for _ in 0..depth {
        let mut after = vec![0; nodes.len()];
        for (node, ways) in nodes.iter().zip(&ways) {
            node.next.iter().for_each(|number| after[*number] += ways);
        }
        ways = after;
        orders += ways.iter().sum::<u128>();
    }
    let states = nodes.len();
    println!(
        "{scene:?}: {orders} orders of up to {depth} steps, {states} states, {runs} runs, {:?}",
        begun.elapsed()
    );
    assert!(states > 100 && orders > 500, "there is something to explore");
}

/// The longest orders.
fn depth() -> usize {
    std::env::var("XYLEM_EXPLORE_STEPS").ok().and_then(|number| number.parse().ok()).unwrap_or(8)
}

/// Injections with an effect: `XYLEM_EXPLORE`, for more than the usual one.
fn injections() -> usize {
    std::env::var("XYLEM_EXPLORE").ok().and_then(|number| number.parse().ok()).unwrap_or(1)
}

#[test]
fn a_dial_by_key() {
    explore(&Scene::BY_KEY, depth(), injections());
}

#[test]
fn a_dial_by_knock() {
    explore(&Scene::BY_KNOCK, depth(), injections());
}

#[test]
fn a_hybrid_dial() {
    explore(&Scene::HYBRID, depth(), injections());
}

#[test]
fn a_dial_that_has_to_prove_its_address() {
    explore(&Scene::COOKIES, depth(), injections());
}

#[test]
fn a_second_dial_after_a_session() {
    explore(&Scene::AGAIN, depth(), injections());
}
