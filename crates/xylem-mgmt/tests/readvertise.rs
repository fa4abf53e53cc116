//! Registrations of programs are announced to a routing daemon under `/localhost/nlsr`.

mod common;

use core::time::Duration;

use common::{Node, about, name};
use xylem_mgmt::{CommandScope, ControlParameters, ControlResponse, ManagementConfig, types};
use xylem_packet::{Data, DataBuilder, Interest};
use xylem_trust::{Signer, Verifier};

fn node() -> Node {
    Node::new(ManagementConfig { readvertise: true, ..Default::default() })
}

/// Runs a command of `program` at the node; returns the node's commands to the daemon: verb, prefix and cost.
fn after(
    node: &mut Node,
    verb: &str,
    parameters: &ControlParameters,
) -> Vec<(String, String, Option<u64>)> {
    let stamp = node.stamp();
    let wire = xylem_mgmt::client::command(
        CommandScope::Localhost,
        "rib",
        verb,
        parameters,
        &Signer::digest_sha256(),
        stamp,
        stamp.nonce[..4].try_into().unwrap(),
    )
    .unwrap();
    let mut out = Vec::new();
    let (now, app, interest) = (node.now, node.app, Interest::decode(&wire).unwrap());
    node.management.handle_interest(now, app, &interest, &mut node.program, &mut out);
    read(&out)
}

/// The commands among these packets.
fn commands(out: &[Vec<u8>]) -> Vec<Interest<'_>> {
    out.iter().filter_map(|wire| Interest::decode(wire).ok()).collect()
}

fn read(out: &[Vec<u8>]) -> Vec<(String, String, Option<u64>)> {
    let read = |interest: &Interest<'_>| {
        let name = interest.name();
        // /localhost/nlsr/rib/<verb>/<ControlParameters>/params-sha256=… is the only form that `ndnd dv` accepts.
        assert_eq!((name.len(), name.prefix(3).to_string().as_str()), (6, "/localhost/nlsr/rib"));
        let signature = interest.signature().expect("it is signed");
        let parts = (&signature.info, &signature.signed_portions, signature.value);
        Verifier::digest_sha256().parts(parts.0, parts.1, parts.2).unwrap();
        let verb = String::from_utf8(name.get(3).unwrap().value().to_vec()).unwrap();
        let parameters = ControlParameters::decode(name.get(4).unwrap().value()).unwrap();
        (verb, parameters.name.unwrap().to_string(), parameters.cost)
    };
    commands(out).iter().map(read).collect()
}

fn tick(node: &mut Node) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let now = node.now;
    node.management.handle_timeout(now, &mut node.program, &mut out);
    out
}

/// Gives the node the daemon's answer to a command; returns the node's next packets.
fn answer(node: &mut Node, command: &Interest<'_>, code: u64) -> Vec<Vec<u8>> {
    let content = ControlResponse::new(code, "so", ControlParameters::default()).encode();
    let mut wire = Vec::new();
    let builder = DataBuilder::new(command.name());
    Signer::digest_sha256().data(builder, &content, &mut wire).unwrap();
    Data::decode(&wire).unwrap();
    let (mut out, now) = (Vec::new(), node.now);
    node.management.handle_reply(now, &wire, &mut node.program, &mut out);
    out
}

fn register(verb: &str, prefix: &str, cost: Option<u64>) -> (String, String, Option<u64>) {
    (verb.into(), prefix.into(), cost)
}

#[test]
fn nothing_is_announced_without_the_setting_and_a_daemon() {
    let mut off = Node::new(ManagementConfig::default());
    assert!(after(&mut off, "register", &about("/localhost/nlsr")).is_empty());
    assert!(after(&mut off, "register", &about("/alice")).is_empty());
    let mut alone = node();
    assert!(after(&mut alone, "register", &about("/alice")).is_empty());
    assert_eq!(alone.management.poll_timeout(), None);
}

#[test]
fn registrations_are_announced_and_withdrawn() {
    let mut node = node();
    after(&mut node, "register", &about("/early"));
    // The daemon's own routes have its origin.
    let nlsr = Some(types::ORIGIN_NLSR);
    let daemon = ControlParameters { origin: nlsr, ..about("/localhost/nlsr") };
    assert_eq!(after(&mut node, "register", &daemon), [register("register", "/early", Some(0))]);
    for (prefix, origin, told) in [
        ("/app", types::ORIGIN_APP, true),
        ("/client", types::ORIGIN_CLIENT, true),
        ("/static", types::ORIGIN_STATIC, false),
        ("/far", types::ORIGIN_NLSR, false),
        ("/announced", types::ORIGIN_PREFIXANN, false),
        ("/localhop/sync", types::ORIGIN_APP, false),
        ("/localhost/tool", types::ORIGIN_CLIENT, false),
    ] {
        let wanted = told.then(|| register("register", prefix, Some(7)));
        let route = ControlParameters { origin: Some(origin), cost: Some(7), ..about(prefix) };
        assert_eq!(after(&mut node, "register", &route), Vec::from_iter(wanted), "{prefix}");
    }
    // A second program of the prefix changes nothing, until it is the only one; the cheapest counts.
    let second =
        ControlParameters { face_id: Some(node.neighbour.0), cost: Some(0), ..about("/early") };
    assert!(after(&mut node, "register", &second).is_empty(), "an answer is waited for");
    node.now += Duration::from_secs(6);
    let said = read(&tick(&mut node));
    assert!(said.is_empty(), "{said:?}: it is said again after a pause");
    node.now += Duration::from_secs(1);
    let out = tick(&mut node);
    assert_eq!(read(&out).len(), 3);
    let commands = commands(&out);
    let early = commands.iter().find(|i| i.name().to_string().contains("early")).unwrap();
    assert!(answer(&mut node, early, 200).is_empty());
    assert_eq!(
        after(&mut node, "unregister", &about("/early")),
        [],
        "the other route has the same cost as was told"
    );
    let gone = ControlParameters { face_id: Some(node.neighbour.0), ..about("/early") };
    assert_eq!(after(&mut node, "unregister", &gone), [register("unregister", "/early", None)]);
}

#[test]
fn refused_commands_are_retried_and_others_hourly() {
    let mut node = node();
    after(&mut node, "register", &about("/localhost/nlsr"));
    assert_eq!(after(&mut node, "register", &about("/a")).len(), 1);
    let mut pauses = Vec::new();
    for _ in 0..14 {
        // No answer comes.
        node.now += Duration::from_secs(5);
        assert!(tick(&mut node).is_empty());
        let due = node.management.poll_timeout().unwrap();
        pauses.push((due - node.now).as_secs());
        node.now = due;
        assert_eq!(read(&tick(&mut node)), [register("register", "/a", Some(0))]);
    }
    assert_eq!(pauses[..4], [1, 2, 4, 8]);
    assert_eq!(pauses.last(), Some(&3600));
    node.now += Duration::from_secs(5);
    tick(&mut node);
    node.now = node.management.poll_timeout().unwrap();
    let out = tick(&mut node);
    assert!(answer(&mut node, &commands(&out)[0], 200).is_empty());
    assert_eq!(node.management.poll_timeout().unwrap() - node.now, Duration::from_secs(3600));
    node.now += Duration::from_secs(3600);
    let out = tick(&mut node);
    assert_eq!(read(&out), [register("register", "/a", Some(0))]);
    // A refusal is no answer, nor is a command that comes back.
    assert!(answer(&mut node, &commands(&out)[0], 403).is_empty());
    assert_eq!(node.management.poll_timeout().unwrap() - node.now, Duration::from_secs(1));
    node.now += Duration::from_secs(1);
    let out = tick(&mut node);
    let now = node.now;
    node.management.handle_reply(now, &out[0], &mut node.program, &mut Vec::new());
    assert_eq!(node.management.poll_timeout().unwrap() - node.now, Duration::from_secs(2));
}

#[test]
fn a_returning_daemon_receives_everything_a_few_at_a_time() {
    let mut node = node();
    for i in 0..100 {
        after(&mut node, "register", &about(&format!("/p/{i}")));
    }
    let daemon = node.program.open("unix:///run/dv.sock", xylem_forward::FaceScope::Local);
    let told = |node: &mut Node| {
        let there = ControlParameters { face_id: Some(daemon.0), ..about("/localhost/nlsr") };
        let stamp = node.stamp();
        let nonce = stamp.nonce[..4].try_into().unwrap();
        let signer = Signer::digest_sha256();
        let wire = xylem_mgmt::client::command(
            CommandScope::Localhost,
            "rib",
            "register",
            &there,
            &signer,
            stamp,
            nonce,
        );
        let (wire, mut out) = (wire.unwrap(), Vec::new());
        let (now, app, interest) = (node.now, node.app, Interest::decode(&wire).unwrap());
        node.management.handle_interest(now, app, &interest, &mut node.program, &mut out);
        let mut prefixes = std::collections::BTreeSet::new();
        while !commands(&out).is_empty() {
            assert!(commands(&out).len() <= 32);
            prefixes.extend(read(&out).into_iter().map(|(_, prefix, _)| prefix));
            let asked = std::mem::take(&mut out);
            for command in commands(&asked) {
                out.extend(answer(node, &command, 200));
            }
        }
        prefixes.len()
    };
    assert_eq!(told(&mut node), 100);
    let now = node.now;
    node.program.forwarder.remove_face(daemon);
    node.management.face_gone(now, daemon, &mut node.program, &mut Vec::new());
    assert_eq!(node.management.poll_timeout(), None);
    assert!(after(&mut node, "unregister", &about("/p/0")).is_empty());
    let daemon_name = name("/localhost/nlsr");
    assert!(node.management.rib().routes(daemon_name.as_ref()).is_empty());
    node.program.open("unix:///run/dv2.sock", xylem_forward::FaceScope::Local);
    // Another face, the same prefix.
    let again = node.program.open("unix:///run/dv3.sock", xylem_forward::FaceScope::Local);
    let there = ControlParameters { face_id: Some(again.0), ..about("/localhost/nlsr") };
    assert_eq!(after(&mut node, "register", &there).len(), 32);
}
