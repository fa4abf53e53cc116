//! Tests of clients and a relay under virtual time and over a bad network.

mod relay_world;

use std::time::Duration;

use relay_world::{Conditions, World, at, key};
use xylem_object::PublisherKey;
use xylem_reach::relay::{
    ConnectTarget, RelayBan, RelayConfig, RelayEvent, RelayPort, RelayRefusal, RelayServer,
    VouchedName,
};

const SECOND: Duration = Duration::from_secs(1);
const HALF_TRIP: Duration = Duration::from_millis(25);

fn world() -> World {
    World::new(RelayConfig::default(), Conditions { delay: HALF_TRIP, ..Conditions::PERFECT }, 1)
}

fn is_registered(event: &RelayEvent) -> bool {
    matches!(event, RelayEvent::Registered { .. })
}

#[test]
fn the_first_datagram_arrives_in_the_flight_that_registers() {
    let mut world = world();
    let b = world.client(true, vec![]);
    world.register(b);
    world.run(SECOND);
    let a = world.client(false, vec![]);
    let began = world.now();
    let tag = world.register_and_connect(a, ConnectTarget::Key(key(b)));
    world.send(a, tag, b"first");
    world.run(began + 2 * HALF_TRIP);
    let [(back, datagram)] = &world.received(b)[..] else { panic!("one datagram") };
    assert_eq!(datagram, b"first");
    assert!(back.is_of_relay() && !tag.is_of_relay());
    assert!(world.events(b).contains(&RelayEvent::Reached(*back)));
    let back = *back;
    world.send(b, back, b"answer");
    world.run(began + 4 * HALF_TRIP);
    assert_eq!(world.received(a), [(tag, b"answer".to_vec())]);
    assert!(world.events(a).contains(&RelayEvent::Connected(tag)));
}

#[test]
fn peers_are_found_by_key_by_publisher_and_by_number() {
    let mut world = world();
    let publisher = PublisherKey::from_bytes(&[9; 32]);
    let vouch = publisher.vouch(&key(0));
    let b = world.client(true, vec![VouchedName { publisher: publisher.public(), vouch }]);
    assert_eq!(b, 0);
    world.give_code(b);
    world.register(b);
    world.run(SECOND);
    let code = world.events(b).iter().find_map(|event| match event {
        RelayEvent::Registered { code } => *code,
        _ => None,
    });
    let a = world.client(false, vec![]);
    world.register(a);
    let targets = [
        ConnectTarget::Key(key(b)),
        ConnectTarget::Publisher(publisher.public()),
        ConnectTarget::Code(code.expect("a number")),
    ];
    let tags = targets.map(|target| world.connect(a, target));
    let nobody = world.connect(a, ConnectTarget::Key([77; 32]));
    world.run(2 * SECOND);
    for tag in tags {
        assert!(world.events(a).contains(&RelayEvent::Connected(tag)));
    }
    let refused = RelayEvent::Refused(Some(nobody), RelayRefusal::NotHere);
    assert!(world.events(a).contains(&refused));
    assert!(code < Some(101), "short: {code:?}");
}

#[test]
fn a_client_that_does_not_listen_is_not_found() {
    let mut world = world();
    let b = world.client(false, vec![]);
    world.register(b);
    let a = world.client(false, vec![]);
    let tag = world.register_and_connect(a, ConnectTarget::Key(key(b)));
    world.run(SECOND);
    assert!(world.events(a).contains(&RelayEvent::Refused(Some(tag), RelayRefusal::NotHere)));
}

#[test]
fn keep_alives_preserve_a_registration_and_change_its_ids() {
    let mut world = world();
    let (a, b, tag) = world.pair();
    let header = world.header(a, tag);
    world.run(600 * SECOND);
    assert_eq!(world.relay.metrics().registrations, 2);
    assert_ne!(world.header(a, tag)[..8], header[..8]);
    world.send(a, tag, b"late");
    world.run(601 * SECOND);
    assert_eq!(world.received(b).last().expect("one").1, b"late");
    // Some 20 s apart, of two clients.
    let keeps = world.relay.metrics().keeps;
    assert!((50..90).contains(&keeps), "{keeps}");
}

#[test]
fn a_registration_without_keep_alives_ends() {
    let mut world = world();
    let (a, b, tag) = world.pair();
    world.cut(b, true);
    world.run(200 * SECOND);
    assert_eq!(world.relay.metrics().registrations, 1);
    assert_eq!(world.relay.metrics().circuits, 0);
    assert!(world.events(b).contains(&RelayEvent::Lost));
    world.send(a, tag, b"to nobody");
    world.run(201 * SECOND);
    // The client is back, and a client that asks for it again finds it.
    world.cut(b, false);
    world.register(b);
    world.run(202 * SECOND);
    let tag = world.connect(a, ConnectTarget::Key(key(b)));
    world.run(203 * SECOND);
    world.send(a, tag, b"again");
    world.run(204 * SECOND);
    assert_eq!(world.received(b).last().expect("one").1, b"again");
}

#[test]
fn a_leaving_client_is_removed_at_once() {
    let mut world = world();
    let (a, b, _) = world.pair();
    world.leave(b);
    world.run(world.now() + SECOND);
    assert_eq!((world.relay.metrics().registrations, world.relay.metrics().circuits), (1, 0));
    let tag = world.connect(a, ConnectTarget::Key(key(b)));
    world.run(world.now() + SECOND);
    assert!(world.events(a).contains(&RelayEvent::Refused(Some(tag), RelayRefusal::NotHere)));
}

#[test]
fn a_client_that_leaves_before_it_is_registered_is_removed_and_may_come_back() {
    let mut world = world();
    let (a, b) = (world.client(false, vec![]), world.client(true, vec![]));
    world.register(a);
    world.register(b);
    world.leave(b);
    world.run(SECOND);
    assert_eq!(world.relay.metrics().registrations, 1);
    world.register(b);
    world.run(3 * SECOND);
    let tag = world.connect(a, ConnectTarget::Key(key(b)));
    world.run(4 * SECOND);
    assert!(world.events(a).contains(&RelayEvent::Connected(tag)));
}

#[test]
fn a_bad_network_loses_datagrams_but_no_registration() {
    for seed in 0..20 {
        let conditions = Conditions {
            delay: HALF_TRIP,
            jitter: Duration::from_millis(40),
            loss: 0.2,
            duplicate: 0.1,
            damage: 0.05,
            ..Conditions::PERFECT
        };
        let mut world = World::new(RelayConfig::default(), conditions, seed);
        let (a, b, tag) = world.pair();
        for i in 0..600_u32 {
            world.send(a, tag, &i.to_be_bytes());
            world.run(world.now() + SECOND);
        }
        assert_eq!(world.relay.metrics().registrations, 2, "seed {seed}");
        let arrived = world.received(b).len();
        assert!((300..700).contains(&arrived), "{arrived} of 600 with seed {seed}");
        assert!(!world.events(a).contains(&RelayEvent::Lost), "seed {seed}");
    }
}

#[test]
fn both_ports_report_the_observed_address() {
    let mut world = world();
    let b = world.client(true, vec![]);
    world.register(b);
    world.run(SECOND);
    let seen = |by| RelayEvent::Observed { address: at(b), by };
    assert!(world.events(b).contains(&seen(RelayPort::First)));
    assert!(world.events(b).contains(&seen(RelayPort::Second)));
}

#[test]
fn a_new_address_is_used_once_proven() {
    let mut world = world();
    let (a, b, tag) = world.pair();
    let back = world.received(b).last().expect("the first").0;
    // The NAT has dropped B's mapping without B's notice.
    let elsewhere = "198.51.100.77:4000".parse().expect("an address");
    world.move_to(b, elsewhere);
    world.send(b, back, &[7; 200]);
    world.run(world.now() + Duration::from_millis(160));
    world.send(a, tag, b"there");
    world.send(b, back, b"here");
    world.run(world.now() + SECOND);
    assert_eq!(world.received(b).last().expect("one").1, b"there");
    assert_eq!(world.received(a).last().expect("one").1, b"here");
    let seen = RelayEvent::Observed { address: elsewhere, by: RelayPort::First };
    assert!(world.events(b).contains(&seen));
}

#[test]
fn a_broken_mapping_is_noticed_when_traffic_stops() {
    let mut world = world();
    let (a, b, tag) = world.pair();
    for _ in 0..50 {
        world.send(a, tag, b"traffic");
    }
    world.run(world.now() + SECOND / 10);
    world.move_to(b, "198.51.100.77:4000".parse().expect("an address"));
    let broken = world.now();
    world.run(broken + Duration::from_millis(1_000));
    world.send(a, tag, b"goes on");
    world.run(world.now() + SECOND / 10);
    assert_eq!(world.received(b).last().expect("one").1, b"goes on");
}

#[test]
fn clients_register_again_after_a_relay_restart() {
    let mut world = world();
    let (a, b, _) = world.pair();
    world.restart_relay();
    world.run(world.now() + 60 * SECOND);
    for client in [a, b] {
        assert_eq!(world.events(client).last(), Some(&RelayEvent::Lost));
        world.register(client);
    }
    world.run(world.now() + SECOND);
    assert_eq!(world.events(b).iter().filter(|event| is_registered(event)).count(), 2);
    let tag = world.connect(a, ConnectTarget::Key(key(b)));
    world.run(world.now() + SECOND);
    world.send(a, tag, b"again");
    world.run(world.now() + SECOND);
    assert_eq!(world.received(b).last().expect("one").1, b"again");
}

/// How long it takes from now until a client reports the loss.
fn until_lost(world: &mut World, client: usize, most: Duration) -> Option<Duration> {
    let (began, before) = (world.now(), world.events(client).len());
    while world.now() < began + most {
        world.run(world.now() + Duration::from_millis(10));
        if world.events(client)[before..].contains(&RelayEvent::Lost) {
            return Some(world.now() - began);
        }
    }
    None
}

#[test]
fn a_restarted_relay_answers_the_first_datagram_with_a_reset() {
    let mut world = world();
    world.answer_forgotten();
    let (a, b, tag) = world.pair();
    // Ids of any age: those of the first epoch, and of later ones.
    for quiet in [1, 50, 300] {
        world.run(world.now() + quiet * SECOND);
        world.restart_relay();
        world.send(a, tag, &[7; 500]);
        let took = until_lost(&mut world, a, SECOND).expect("a reset");
        assert!(took <= 2 * HALF_TRIP + Duration::from_millis(10), "{took:?}");
        for client in [b, a] {
            world.register(client);
        }
        world.connect(a, ConnectTarget::Key(key(b)));
        world.run(world.now() + 2 * SECOND);
        assert_eq!(world.relay.metrics().registrations, 2);
    }
}

/// A relay that was killed notifies idle clients once it is back. Idle clients send no datagram more than without this
/// feature before that.
#[test]
fn a_restarted_relay_notifies_idle_clients() {
    let mut world = world();
    world.answer_forgotten();
    let clients: Vec<usize> = (0..3).map(|_| world.client(true, vec![])).collect();
    clients.iter().for_each(|client| world.register(*client));
    // A client that has moved is notified at its new address.
    world.run(30 * SECOND);
    world.move_to(clients[1], "203.0.113.9:53".parse().expect("an address"));
    for quiet in [25, 45, 300] {
        world.run(world.now() + quiet * SECOND);
        let said: Vec<usize> = clients.iter().map(|client| world.sent(*client).len()).collect();
        world.kill_relay();
        world.run(world.now() + SECOND / 10);
        for (client, said) in clients.iter().zip(said) {
            assert_eq!(world.events(*client).last(), Some(&RelayEvent::Lost));
            assert_eq!(world.sent(*client).len(), said + 1, "one keep-alive asks");
            world.register(*client);
        }
        world.run(world.now() + 2 * SECOND);
        assert_eq!(world.relay.metrics().registrations, 3);
    }
}

/// The notification is sent twice, because one may be lost.
#[test]
fn a_restarted_relay_notifies_twice() {
    let mut world = world();
    world.answer_forgotten();
    let b = world.client(true, vec![]);
    world.register(b);
    world.run(30 * SECOND);
    world.cut(b, true);
    world.kill_relay();
    world.run(world.now() + SECOND / 2);
    world.cut(b, false);
    until_lost(&mut world, b, SECOND).expect("the second one");
}

/// An attacker on the path has kept the relay's notification, or forges one. It causes one keep-alive and ends nothing.
#[test]
fn a_replayed_notification_causes_at_most_one_keep_alive() {
    let mut world = world();
    world.answer_forgotten();
    let b = world.client(true, vec![]);
    world.register(b);
    world.run(30 * SECOND);
    world.kill_relay();
    until_lost(&mut world, b, SECOND).expect("it");
    let said = world.heard(b);
    world.register(b);
    world.run(world.now() + 3 * SECOND);
    let told = world.events(b).len();
    let sent = world.sent(b).len();
    for (port, datagram) in &said {
        world.hear(b, *port, datagram.clone());
    }
    world.run(world.now() + SECOND);
    assert_eq!(world.sent(b).len(), sent, "it is of a registration that is over");
    // The relay itself may notify a client that it has registered.
    let clients = world.relay.clients();
    for _ in 0..5 {
        world.relay.notify_clients(world.now(), &clients);
        world.run(world.now() + 3 * SECOND);
    }
    assert_eq!(world.sent(b).len(), sent + 1);
    world.run(world.now() + 60 * SECOND);
    assert_eq!(world.events(b)[told..], []);
}

/// The stored clients may be arbitrary bytes. Nothing is sent to invalid addresses, nor to more clients than may
/// register.
#[test]
fn stored_clients_may_be_arbitrary_bytes() {
    let said = |kept: &[u8]| {
        let mut relay = RelayServer::new(RelayConfig::default(), [1; 32]);
        let (mut now, mut said) = (SECOND, 0);
        relay.notify_clients(now, kept);
        while let Some(due) = relay.poll_timeout() {
            now = now.max(due);
            relay.handle_timeout(now);
            let mut at_once = 0;
            while let Some((_, to, datagram)) = relay.poll_transmit() {
                assert!(to.port() != 0 && (37..64).contains(&datagram.len()));
                at_once += 1;
            }
            assert!(at_once <= 256);
            said += at_once;
        }
        said
    };
    assert_eq!(said(&[]), 0);
    assert_eq!(said(&[0; 26]), 0, "no address");
    assert_eq!(said(&[0xff; 26 * 3]), 0, "a group");
    assert_eq!(said(&[1; 25]), 0);
    assert_eq!(said(&[1; 26 * 2 + 7]), 4, "two, twice");
    let most = RelayConfig::default().registrations;
    assert_eq!(said(&vec![1; 26 * (most + 5)]), 2 * most);
}

/// Idle clients learn of the end from their next keep-alive, or at once if the relay can notify them.
#[test]
fn a_relay_that_ends_notifies_its_clients() {
    let mut world = world();
    world.answer_forgotten();
    let (a, b, _) = world.pair();
    world.run(world.now() + 5 * SECOND);
    world.end_relay();
    assert!(until_lost(&mut world, a, SECOND).is_some());
    assert_eq!(world.events(b).last(), Some(&RelayEvent::Lost));
    let goodbye = world.heard(b).last().expect("it").1.clone();
    world.register(b);
    world.run(world.now() + SECOND);
    // An attacker has kept the notification.
    world.hear(b, RelayPort::First, goodbye);
    world.run(world.now() + SECOND);
    assert_eq!(world.relay.metrics().registrations, 1);
    assert!(is_registered(
        world.events(b).iter().rfind(|e| is_registered(e) || **e == RelayEvent::Lost).expect("one")
    ));
}

#[test]
fn replayed_datagrams_yield_no_reset_that_ends_a_registration() {
    let mut world = world();
    world.answer_forgotten();
    let (a, b, tag) = world.pair();
    world.run(world.now() + 100 * SECOND);
    world.send(a, tag, &[7; 500]);
    world.run(world.now() + SECOND);
    // Every datagram that left A is replayed from A's address and from elsewhere, and the relay's answers are delivered
    // to A.
    let elsewhere = "198.51.100.77:4000".parse().expect("an address");
    let before = world.heard(a).len();
    for datagram in world.sent(a) {
        world.inject(RelayPort::First, at(a), datagram.clone());
        world.inject(RelayPort::First, elsewhere, datagram);
        world.run(world.now() + Duration::from_millis(100));
    }
    for (port, datagram) in world.heard(a)[before..].to_vec() {
        world.hear(a, port, datagram);
    }
    world.run(world.now() + SECOND);
    assert!(world.relay.metrics().resets > 0, "some were of ids that are nobody's any more");
    assert!(!world.events(a).contains(&RelayEvent::Lost));
    // A valid reset is accepted once.
    world.restart_relay();
    world.send(a, tag, &[7; 500]);
    until_lost(&mut world, a, SECOND).expect("a reset");
    let reset = world.heard(a).last().expect("it").1.clone();
    assert!(reset.len() < 64);
    for client in [b, a] {
        world.register(client);
    }
    world.run(world.now() + 3 * SECOND);
    world.hear(a, RelayPort::First, reset);
    assert!(until_lost(&mut world, a, SECOND).is_none(), "it was of ids that have ended");
}

/// Unknown datagrams are answered by shorter ones, at a limited rate, and not at all by a relay without a reset key.
#[test]
fn resets_are_few_and_shorter_than_their_cause() {
    let mut world = world();
    let from = "198.51.100.77:4000".parse().expect("an address");
    let flood = |world: &mut World, len: usize, count: usize| {
        let before = world.traffic_of(from).1;
        for i in 0..count {
            let mut datagram = vec![i as u8; len];
            datagram[..8].copy_from_slice(&i.to_be_bytes());
            world.inject(RelayPort::First, from, datagram);
            world.run(world.now());
        }
        world.traffic_of(from).1 - before
    };
    assert_eq!(flood(&mut world, 1_000, 100), 0, "not asked for");
    world.answer_forgotten();
    assert_eq!(flood(&mut world, 67, 100), 0, "too short");
    world.run(world.now() + 10 * SECOND);
    for len in [68, 69, 1_452] {
        world.run(world.now() + 10 * SECOND);
        let answered = flood(&mut world, len, 10);
        assert!(answered > 0 && answered < 10 * 64, "{answered} for {len}");
    }
    world.run(world.now() + 10 * SECOND);
    assert!(flood(&mut world, 1_000, 10_000) < 100 * 64);
}

#[test]
fn a_silent_relay_is_reported_after_two_seconds() {
    let mut world = world();
    let (_, b, _) = world.pair();
    world.run(world.now() + 5 * SECOND);
    world.cut(b, true);
    let asked = world.now();
    world.refresh(b);
    while !world.events(b).contains(&RelayEvent::Silent) {
        assert!(world.now() < asked + 3 * SECOND);
        world.run(world.now() + Duration::from_millis(10));
    }
    assert!(!world.events(b).contains(&RelayEvent::Lost));
    // The network was cut for a moment only, and nothing is lost.
    world.cut(b, false);
    world.run(world.now() + 60 * SECOND);
    assert!(!world.events(b).contains(&RelayEvent::Lost));
    assert_eq!(world.events(b).iter().filter(|event| **event == RelayEvent::Silent).count(), 1);
}

/// Its host is gone while both are idle, and one begins to send: the next keep-alive is up to 20 s away.
#[test]
fn a_relay_that_answers_no_traffic_is_silent_within_three_seconds() {
    for connected in [false, true] {
        let mut world = world();
        let (a, _, tag) = world.pair();
        if connected {
            world.set_connected(a);
        }
        world.run(world.now() + 10 * SECOND);
        world.cut(a, true);
        world.run(world.now() + 3 * SECOND);
        let sent = world.now();
        while !world.events(a).contains(&RelayEvent::Silent) {
            assert!(world.now() < sent + 3 * SECOND, "connected: {connected}");
            world.send(a, tag, b"is it there");
            world.run(world.now() + Duration::from_millis(100));
        }
        world.cut(a, false);
        world.run(world.now() + 4 * SECOND);
        let told = world.events(a);
        let silent = told.iter().position(|event| *event == RelayEvent::Silent);
        let answers = told.iter().position(|event| *event == RelayEvent::Answers);
        assert!(silent < answers && !told.contains(&RelayEvent::Lost), "{told:?}");
    }
}

/// A peer that is gone costs a keep-alive every five seconds, and its relay is not dialled anew.
#[test]
fn a_silent_peer_is_not_taken_for_a_silent_relay() {
    let mut world = world();
    let (a, b, tag) = world.pair();
    world.run(world.now() + 10 * SECOND);
    world.cut(b, true);
    let (before, begun) = (world.relay.metrics().keeps, world.now());
    while world.now() < begun + 20 * SECOND {
        world.send(a, tag, b"is it there");
        world.run(world.now() + Duration::from_millis(200));
    }
    let keeps = world.relay.metrics().keeps - before;
    assert!((3..=8).contains(&keeps), "{keeps}");
    assert!(!world.events(a).contains(&RelayEvent::Silent));
}

/// Keep-alives wait in a connection behind slow content. The content that arrives shows that the relay is there.
#[test]
fn content_in_a_connection_counts_as_an_answer() {
    let mut world = world();
    let (a, b, tag) = world.pair();
    let back = world.received(b)[0].0;
    world.set_connected(a);
    world.run(world.now() + 10 * SECOND);
    // The client's own datagrams wait.
    world.mute(a);
    let begun = world.now();
    while world.now() < begun + 30 * SECOND {
        world.send(b, back, b"content");
        world.send(a, tag, b"more");
        world.run(world.now() + Duration::from_millis(500));
    }
    assert!(!world.events(a).contains(&RelayEvent::Silent), "{:?}", world.events(a));
}

/// Whether the relay still has both clients or has lost them, the tag still means the same peer.
#[test]
fn connecting_again_to_a_peer_keeps_the_tag() {
    let mut world = world();
    world.answer_forgotten();
    let (a, b, tag) = world.pair();
    let back = world.received(b)[0].0;
    world.connect_again(a, tag, ConnectTarget::Key(key(b)));
    world.run(world.now() + SECOND);
    world.send(a, tag, b"still");
    world.run(world.now() + SECOND);
    assert_eq!(world.received(b).last(), Some(&(back, b"still".to_vec())), "as before");
    world.restart_relay();
    for client in [b, a] {
        world.register(client);
    }
    world.connect_again(a, tag, ConnectTarget::Key(key(b)));
    world.run(world.now() + SECOND);
    world.send(a, tag, b"again");
    world.run(world.now() + SECOND);
    let (fresh, datagram) = world.received(b).last().expect("one").clone();
    assert_eq!(datagram, b"again");
    world.send(b, fresh, b"answer");
    world.run(world.now() + SECOND);
    assert_eq!(world.received(a).last(), Some(&(tag, b"answer".to_vec())));
}

/// An attacker on the path replays the relay's datagrams: to a client that has moved since, and when the relay is gone.
#[test]
fn replayed_relay_datagrams_are_ignored() {
    let mut world = world();
    let (_, b, _) = world.pair();
    world.run(world.now() + 30 * SECOND);
    world.move_to(b, "203.0.113.9:53".parse().expect("an address"));
    world.run(world.now() + 60 * SECOND);
    let (kept, told) = (world.heard(b), world.events(b).len());
    let again = |world: &mut World| {
        for (port, datagram) in &kept {
            world.hear(b, *port, datagram.clone());
        }
        world.run(world.now() + SECOND);
    };
    again(&mut world);
    assert_eq!(world.events(b)[told..], [], "it is where it was before");
    world.restart_relay();
    for _ in 0..60 {
        again(&mut world);
    }
    assert_eq!(world.events(b)[told..], [RelayEvent::Silent, RelayEvent::Lost]);
}

#[test]
fn control_streams_may_be_cut_anywhere() {
    let mut world = world();
    world.cut_streams();
    let (a, b, tag) = world.pair();
    world.send(a, tag, b"x");
    world.run(world.now() + SECOND);
    assert_eq!(world.received(b).last().expect("one").1, b"x");
}

/// An address that has not proven that it receives from the relay gets no more bytes than came from it. This holds for
/// a client that sends from another address, and for an attacker that replays datagrams.
#[test]
fn an_unproven_address_gets_no_more_than_it_sent() {
    let mut world = world();
    let (a, _, tag) = world.pair();
    let victim = "203.0.113.9:53".parse().expect("an address");
    // The client itself sends from the victim's address.
    world.refresh_from(a, victim);
    world.run(world.now() + SECOND / 10);
    let (from, asked) = world.traffic_of(victim);
    assert!(asked > 0 && asked <= from, "{asked} bytes for a keep-alive of {from}");
    // Its peer sends a lot meanwhile, which goes to the client's old address.
    let back = world.received(1).last().expect("one").0;
    for _ in 0..1_000 {
        world.send(1, back, &[0; 1_000]);
    }
    world.run(world.now() + SECOND / 10);
    let begun = world.now();
    for _ in 0..100 {
        let header = world.header(a, tag);
        world.inject(RelayPort::First, victim, [&header[..], &[0; 300]].concat());
        world.inject(RelayPort::Second, victim, [&header[..], &[0; 300]].concat());
        world.run(world.now() + Duration::from_millis(20));
    }
    let (from, to) = world.traffic_of(victim);
    assert!(to > 0 && to <= from, "{to} bytes to the victim, {from} from it");
    // Proof is demanded ten times a second at most.
    let most = asked * ((world.now() - begun).as_millis() as usize / 100 + 2);
    assert!(to - asked <= most, "{to} bytes, {most} at most");
}

#[test]
fn a_replayed_keep_alive_moves_no_client() {
    let mut world = world();
    let (a, b, tag) = world.pair();
    world.run(world.now() + 60 * SECOND);
    let thief = "203.0.113.9:53".parse().expect("an address");
    for datagram in world.sent(b) {
        for port in [RelayPort::First, RelayPort::Second] {
            world.inject(port, thief, datagram.clone());
        }
    }
    world.run(world.now() + SECOND);
    assert_eq!(world.traffic_of(thief).1, 0);
    world.send(a, tag, b"to B alone");
    world.run(world.now() + SECOND);
    assert_eq!(world.received(b).last().expect("one").1, b"to B alone");
    assert_eq!(world.traffic_of(thief).1, 0);
}

/// An attacker sees the keep-alive on its way, and its copy arrives first.
#[test]
fn an_overtaken_keep_alive_moves_no_client() {
    let mut world = world();
    let (a, b, tag) = world.pair();
    let thief = "203.0.113.9:53".parse().expect("an address");
    world.refresh_from(b, thief);
    // Before the client repeats the keep-alive.
    world.run(world.now() + SECOND / 10);
    let before = world.traffic_of(thief).1;
    world.send(a, tag, &[1; 500]);
    world.run(world.now() + SECOND);
    assert_eq!(world.received(b).last().expect("one").1, [1; 500]);
    assert_eq!(world.traffic_of(thief).1, before);
}

#[test]
fn a_client_that_does_not_answer_is_not_flooded() {
    let mut world = world();
    let b = world.client(true, vec![]);
    world.register(b);
    world.run(SECOND);
    let a = world.client(false, vec![]);
    let tag = world.register_and_connect(a, ConnectTarget::Key(key(b)));
    for _ in 0..1_000 {
        world.send(a, tag, b"unwanted");
    }
    world.run(2 * SECOND);
    assert_eq!(world.received(b).len(), 32);
}

#[test]
fn registering_a_name_requires_a_vouch() {
    let mut world = world();
    let publisher = PublisherKey::from_bytes(&[9; 32]);
    // The vouch is for another link key.
    let vouch = publisher.vouch(&key(7));
    let thief = world.client(true, vec![VouchedName { publisher: publisher.public(), vouch }]);
    for try_again in 0..5 {
        world.register(thief);
        world.run(world.now() + SECOND);
        let why = if try_again < 4 { RelayRefusal::NotVouched } else { RelayRefusal::Banned };
        assert_eq!(world.events(thief).last(), Some(&RelayEvent::Refused(None, why)));
    }
    assert_eq!(world.relay.metrics().registrations, 0);
    // The ban ends after a while.
    world.run(world.now() + 1_000 * SECOND);
    world.register(thief);
    world.run(world.now() + SECOND);
    let refused = RelayEvent::Refused(None, RelayRefusal::NotVouched);
    assert_eq!(world.events(thief).last(), Some(&refused));
}

#[test]
fn the_load_names_the_clients_that_send() {
    let mut world = world();
    let (b, a) = (world.client(true, vec![]), world.client(false, vec![]));
    world.register(b);
    world.run(SECOND);
    let tag = world.register_and_connect(a, ConnectTarget::Key(key(b)));
    world.run(SECOND + SECOND / 2);
    world.send(a, tag, &[7; 988]);
    world.run(2 * SECOND + SECOND / 10);
    let now = world.now();
    let load = world.relay.load(now, 10);
    assert_eq!((load.bytes_per_second, load.counters.registrations), (1_000, 2));
    let mut clients: Vec<[u8; 32]> = load.clients.iter().map(|one| one.key).collect();
    clients.sort_unstable();
    assert_eq!(clients, [key(b), key(a)]);
    assert!(load.clients.iter().all(|one| (one.bytes_per_second, one.circuits) == (1_000, 1)));
    let [site] = &load.sites[..] else { panic!("one site") };
    assert_eq!((site.registrations, site.bytes_per_second), (2, 2_000));
    let later = world.relay.load(now + 3 * SECOND, 10);
    assert_eq!((later.bytes_per_second, later.clients.len(), later.sites.len()), (0, 0, 1));
}

#[test]
fn a_banned_client_is_removed_and_refused_until_the_ban_ends() {
    let mut world = world();
    let (a, b) = (world.client(true, vec![]), world.client(true, vec![]));
    world.register(a);
    world.register(b);
    world.run(SECOND);
    let ban = RelayBan::Key(key(a));
    assert_eq!(world.relay.ban(ban), Some(1));
    assert_eq!(world.relay.metrics().registrations, 1);
    world.register(a);
    world.run(2 * SECOND);
    let refused = RelayEvent::Refused(None, RelayRefusal::Banned);
    assert!(world.events(a).contains(&refused));
    // The network of all of them.
    assert_eq!(world.relay.ban("192.0.2.0/24".parse().unwrap()), Some(1));
    assert_eq!(world.relay.bans().len(), 2);
    assert!(world.relay.unban(&"192.0.2.0/24".parse().unwrap()) && world.relay.unban(&ban));
    world.register(a);
    world.run(3 * SECOND);
    assert_eq!(world.relay.metrics().registrations, 1);
}

/// A network's ban holds also for a client that registers elsewhere and then moves there.
#[test]
fn a_client_that_moves_to_a_banned_network_is_removed() {
    let mut world = world();
    let (a, b, tag) = world.pair();
    assert_eq!(world.relay.ban("198.51.100.0/24".parse().unwrap()), Some(0));
    world.move_to(b, "198.51.100.77:4000".parse().expect("an address"));
    world.refresh(b);
    world.run(world.now() + SECOND);
    let counts = world.relay.metrics();
    assert_eq!((counts.registrations, counts.circuits, counts.refused_banned), (1, 0, 1));
    let before = world.received(b).len();
    world.send(a, tag, b"there");
    world.run(world.now() + SECOND);
    assert_eq!(world.received(b).len(), before);
}

/// What the relay's rate drops costs the host and the clients nothing of their own limits.
#[test]
fn a_dropped_datagram_costs_no_other_limit() {
    let config = RelayConfig {
        bytes_per_second: Some(20_000),
        bytes_per_second_of_key: Some(10_000),
        bytes_per_second_of_host: Some(10_000),
        ..RelayConfig::default()
    };
    let mut world = World::new(config, Conditions { delay: HALF_TRIP, ..Conditions::PERFECT }, 1);
    let (a, b, tag) = world.pair();
    world.run(world.now() + 5 * SECOND);
    // Twenty times what the rate lets through at once, and a fifth of it of the limits of each.
    for _ in 0..40 {
        world.send(a, tag, &[7; 988]);
    }
    world.run(world.now() + SECOND);
    let before = world.received(b).len();
    for _ in 0..10 {
        world.send(a, tag, &[7; 488]);
        world.run(world.now() + SECOND / 10);
    }
    assert!(world.relay.metrics().over_share > 30);
    assert_eq!(world.received(b).len() - before, 10);
}

/// A registration that takes the place of one that has just ended is one client of the load.
#[test]
fn the_load_names_a_client_once() {
    let mut world = world();
    let (a, b, tag) = world.pair();
    world.run(10 * SECOND + SECOND / 10);
    world.send(a, tag, &[7; 988]);
    world.run(world.now() + SECOND / 10);
    world.leave(a);
    world.run(world.now() + SECOND / 10);
    let c = world.client(false, vec![]);
    let tag = world.register_and_connect(c, ConnectTarget::Key(key(b)));
    world.run(world.now() + SECOND / 10);
    world.send(c, tag, &[7; 988]);
    world.run(11 * SECOND + SECOND / 10);
    let now = world.now();
    let load = world.relay.load(now, 10);
    let mut clients: Vec<[u8; 32]> = load.clients.iter().map(|one| one.key).collect();
    clients.sort_unstable();
    assert_eq!(clients, [key(b), key(c)]);
}
