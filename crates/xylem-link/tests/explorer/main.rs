//! A Dolev-Yao explorer: two honest ends, and an attacker that holds the ticket and sees every datagram. It may drop,
//! delay, repeat, splice, flip and forge datagrams with keys of its own, from any address. The tests try every order of
//! a number of the steps in `world.rs`. After each order the attacker stops, and everything that the honest ends have
//! sent and go on sending arrives.
//!
//! The properties that must hold after any order (docs/spec/link.md, "Invariants"):
//!
//! 1. No end accepts another key than the peer's, and what one end sends in a session arrives in that same session.
//! 2. No genuine handshake is ended by injection: both ends get connected.
//! 3. Data sent in one session is not accepted in another.
//! 4. An address that is not proven is never sent more bytes than came from it.
//!
//! Sealed data stays sealed when static keys leak. This follows from the first property (no end has a session with an
//! ephemeral key of the attacker's, unless it reports the attacker as its peer) and from
//! `src/endpoint/tests/secrecy.rs`, which reveals all keys but the ephemeral ones.
//!
//! Only one of the orders that lead to the same state is continued. Two states count as the same if the two ends have
//! sent and reported the same so far, and do, to the byte, when the attacker stops.

mod world;

use std::collections::HashMap;

use world::{Scene, Step, World};

/// A state of the exploration: the order that led to it, the number of injections in it that had an effect, and the
/// states that the next steps lead to.
struct Node {
    order: Vec<Step>,
    injected: usize,
    /// Both ends have reached their goal.
    complete: bool,
    next: Vec<usize>,
}

/// Tries every order of up to `depth` steps with up to `injections` that have an effect, and any number that have none.
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
                // A step that changes nothing is free.
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
    // Counts the ways to each node.
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

/// Number of steps in the longest orders.
fn depth() -> usize {
    std::env::var("XYLEM_EXPLORE_STEPS").ok().and_then(|number| number.parse().ok()).unwrap_or(8)
}

/// Number of injections with an effect; `XYLEM_EXPLORE` raises it.
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
