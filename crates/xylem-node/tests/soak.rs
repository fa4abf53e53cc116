//! A few minutes of the soak; `examples/soak.rs` runs hours of it.

mod soak_world;

use std::time::Duration;

use soak_world::{NODES, World};

#[test]
fn five_nodes_share_and_fetch_for_some_minutes() {
    let mut world = World::new(1);
    world.run(Duration::from_secs(240));
    let early = world.census();
    world.run(Duration::from_secs(480));
    let late = world.census();
    println!("{early:?}\n{late:?}");
    assert!(late.fetches > 30 && late.fetches > early.fetches, "{late:?}");
    // The application, and a link to each other node. No more publications are served than the limit.
    assert!(late.faces <= NODES * NODES && late.routes <= NODES * 3, "{late:?}");
    assert!(late.pending <= 4_096, "{late:?}");
}

#[test]
fn one_seed_is_one_soak() {
    let run = |seed| {
        let mut world = World::new(seed);
        world.run(Duration::from_secs(60));
        world.census()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
