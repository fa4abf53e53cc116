//! Commands through a real forwarder: which signers are obeyed, what changes, and the answers.

mod common;

use core::time::Duration;
use std::sync::Arc;

use common::{NOW_MS, Node, about, name};
use xylem_forward::{FaceId, ForwardingStrategy};
use xylem_mgmt::{
    CommandScope, CommandTrust, ControlParameters, ManagementConfig, ManagementHost, client, types,
};
use xylem_packet::{Component, Data, Interest, InterestBuilder, Name};
use xylem_trust::schema::Schema;
use xylem_trust::{
    Certificate, CommandStamp, Issue, Signer, TrustError, TrustStore, ValidityPeriod, self_signed,
};

const ALWAYS: ValidityPeriod =
    ValidityPeriod { not_before_ms: 0, not_after_ms: 10_000_000_000_000 };

fn anchors(signer: &Signer) -> TrustStore {
    let mut store = TrustStore::new();
    let wire = self_signed(signer, 1, ALWAYS).unwrap();
    store.add_anchor(&Certificate::decode(&wire).unwrap()).unwrap();
    store
}

fn alice() -> Signer {
    Signer::ed25519(&[1; 32], name("/alice/KEY/1"))
}

/// The strategy of this prefix.
fn strategy_at(node: &Node, prefix: &str) -> Option<ForwardingStrategy> {
    let mut chosen = None;
    node.program.forwarder.for_each_strategy(&mut |at, strategy| {
        if at.to_string() == prefix {
            chosen = Some(strategy);
        }
    });
    chosen
}

#[test]
fn a_prefix_is_registered_and_unregistered() {
    let mut node = Node::new(ManagementConfig::default());
    let answer = node.command("rib", "register", &about("/alice"));
    assert_eq!((answer.code, answer.text.as_str()), (200, "OK"));
    let done = answer.parameters.unwrap();
    assert_eq!(
        done,
        ControlParameters {
            face_id: Some(node.app.0),
            origin: Some(0),
            cost: Some(0),
            flags: Some(types::ROUTE_CHILD_INHERIT),
            ..about("/alice")
        }
    );
    assert_eq!(node.fib()["/alice"], [(node.app.0, 0)].into());

    let other =
        ControlParameters { face_id: Some(node.neighbour.0), cost: Some(9), ..about("/alice") };
    assert_eq!(node.command("rib", "register", &other).code, 200);
    assert_eq!(node.fib()["/alice"].len(), 2);
    assert_eq!(node.command("rib", "unregister", &about("/alice")).code, 200);
    assert_eq!(node.fib()["/alice"], [(node.neighbour.0, 9)].into());
    // Again: the wanted state holds already.
    assert_eq!(node.command("rib", "unregister", &about("/alice")).code, 200);

    let nowhere = ControlParameters { face_id: Some(77), ..about("/bob") };
    assert_eq!(node.command("rib", "register", &nowhere).code, 410);
    let long = (0..64).fold(Name::new(), |name, _| name.child(Component::generic(b"x")));
    let long = ControlParameters { name: Some(long), ..ControlParameters::default() };
    assert_eq!(node.command("rib", "register", &long).code, 414);
    assert_eq!(node.command("rib", "register", &ControlParameters::default()).code, 400);
}

#[test]
fn routes_end_with_their_time_and_their_face() {
    let mut node = Node::new(ManagementConfig::default());
    let short = ControlParameters { expiration_ms: Some(1000), ..about("/short") };
    let other = ControlParameters { face_id: Some(node.neighbour.0), ..about("/far") };
    for parameters in [&short, &other, &about("/near")] {
        assert_eq!(node.command("rib", "register", parameters).code, 200);
    }
    assert_eq!(node.management.poll_timeout(), Some(Duration::from_secs(1)));
    node.management.handle_timeout(Duration::from_millis(999), &mut node.program, &mut Vec::new());
    assert!(node.fib().contains_key("/short"));
    node.management.handle_timeout(Duration::from_secs(1), &mut node.program, &mut Vec::new());
    assert!(!node.fib().contains_key("/short"));
    assert_eq!(node.management.poll_timeout(), None);

    node.program.forwarder.remove_face(node.neighbour);
    let mut out = Vec::new();
    node.management.face_gone(node.now, node.neighbour, &mut node.program, &mut out);
    assert!(!node.fib().contains_key("/far"));
    assert!(node.fib().contains_key("/near"));
    assert_eq!(node.management.rib().len(), 1);
}

#[test]
fn only_signed_fresh_commands_are_obeyed() {
    let mut node = Node::new(ManagementConfig::default());
    let before = node.fib();
    let parameters = about("/alice");
    let signer = Signer::digest_sha256();
    let good = CommandStamp::new([0xAA; 8], NOW_MS);
    let build = |stamp| {
        client::command(
            CommandScope::Localhost,
            "rib",
            "register",
            &parameters,
            &signer,
            stamp,
            [9; 4],
        )
        .unwrap()
    };

    // Unsigned.
    let bare = name("/localhost/nfd/rib/register").child(Component::generic(&parameters.encode()));
    let mut unsigned = Vec::new();
    InterestBuilder::new(bare.as_ref()).nonce([1; 4]).encode(&mut unsigned).unwrap();
    // A digest of other bytes: the last octet, and with it the parameters digest, made anew.
    let forged = forge(&build(good));
    // The signer's clock is wrong, or the command was recorded long ago.
    let old = build(CommandStamp::new([2; 8], NOW_MS - 121_000));
    let early = build(CommandStamp::new([3; 8], NOW_MS + 121_000));
    // No key named although the type has one.
    for wire in [unsigned, forged, old, early] {
        assert_eq!(code(&mut node, &wire), Some(403));
        assert_eq!(node.fib(), before);
    }
    // Accepted once, and not a second time, even without the nonce and the forwarder's own detection of loops.
    let wire = build(good);
    assert_eq!(code(&mut node, &wire), Some(200));
    node.command("rib", "unregister", &parameters);
    assert_eq!(node.fib(), before);
    let interest = Interest::decode(&wire).unwrap();
    let mut out = Vec::new();
    node.management.handle_interest(node.now, node.app, &interest, &mut node.program, &mut out);
    let again = client::response(&interest, &Data::decode(&out[0]).unwrap()).unwrap();
    assert_eq!((again.code, node.fib()), (403, before));
}

/// The Interest with another signature value, well-formed all the same.
fn forge(wire: &[u8]) -> Vec<u8> {
    let interest = Interest::decode(wire).unwrap();
    let signature = interest.signature().unwrap();
    let mut value = signature.value.to_vec();
    value[0] ^= 1;
    let parent = interest.name().parent();
    let mut out = Vec::new();
    InterestBuilder::new(parent)
        .nonce([5; 4])
        .encode_signed(&mut out, interest.app_parameters().unwrap(), &signature.info, |_, place| {
            place.extend_from_slice(&value);
        })
        .unwrap();
    out
}

fn code(node: &mut Node, wire: &[u8]) -> Option<u64> {
    let answers = node.send(node.app, wire);
    let data = Data::decode(answers.first()?).unwrap();
    let interest = Interest::decode(wire).unwrap();
    Some(client::response(&interest, &data).unwrap().code)
}

#[test]
fn with_anchors_only_their_keys_are_obeyed() {
    let config = ManagementConfig {
        localhost: CommandTrust::Anchors(anchors(&alice())),
        ..Default::default()
    };
    let mut node = Node::new(config);
    let app = node.app;
    let stranger = Signer::ed25519(&[2; 32], name("/bob/KEY/1"));
    let thief = Signer::ed25519(&[2; 32], name("/alice/KEY/1"));
    let hmac = Signer::hmac(b"x", name("/alice/KEY/1"));
    for (signer, expected) in [
        (Signer::digest_sha256(), 403),
        (Signer::digest_blake3(), 403),
        (stranger, 403),
        (thief, 403),
        (hmac, 403),
        (alice(), 200),
    ] {
        let answer = node
            .command_as(app, CommandScope::Localhost, &signer, "rib", "register", &about("/x"))
            .unwrap();
        assert_eq!(answer.code, expected, "{signer:?}: {}", answer.text);
        assert_eq!(node.fib().contains_key("/x"), expected == 200);
    }
}

/// A schema decides which of the keys that an anchor certifies may give which command, by the command's name.
#[test]
fn with_a_schema_a_key_gives_only_allowed_commands() {
    let text = r#"#KEY: "KEY"/_/_/_
        #admin: "org"/#KEY
        #operator: "org"/"operator"/_/#KEY <= #admin
        #routes: "localhost"/"nfd"/"rib"/_verb <= #operator | #admin
        #all: "localhost"/"nfd"/_module/_verb <= #admin"#;
    let admin = Signer::ed25519(&[1; 32], name("/org/KEY/1"));
    let operator = Signer::ed25519(&[2; 32], name("/org/operator/bob/KEY/1"));
    let guest = Signer::ed25519(&[3; 32], name("/org/guest/KEY/1"));
    let mut store = TrustStore::new();
    let wire = self_signed(&admin, 1, ALWAYS).unwrap();
    let schema = Arc::new(Schema::compile(text).unwrap());
    store.add_anchor_under(&Certificate::decode(&wire).unwrap(), schema).unwrap();
    let mut certify = |key: &Signer| {
        let key_name = key.key_locator().unwrap().to_name();
        let issue = Issue {
            key_name: key_name.as_ref(),
            public_key: &key.public().unwrap(),
            issuer_id: Component::generic(b"admin"),
            version: 1,
            validity: ALWAYS,
        };
        let mut wire = Vec::new();
        issue.sign(&admin, &mut wire).unwrap();
        store.add(&Certificate::decode(&wire).unwrap(), NOW_MS)
    };
    assert_eq!(certify(&operator), Ok(()));
    assert_eq!(certify(&guest), Err(TrustError::NotAllowed), "no rule is about its certificate");

    let config = ManagementConfig { localhost: CommandTrust::Anchors(store), ..Default::default() };
    let mut node = Node::new(config);
    let app = node.app;
    let mut ask = |signer: &Signer, module: &str, verb: &str| {
        let answer = node
            .command_as(app, CommandScope::Localhost, signer, module, verb, &about("/x"))
            .unwrap();
        (answer.code, answer.text)
    };
    for signer in [&admin, &operator] {
        assert_eq!(ask(signer, "rib", "register").0, 200);
        assert_eq!(ask(signer, "rib", "unregister").0, 200);
    }
    assert_eq!(ask(&admin, "strategy-choice", "unset").0, 200);
    assert_eq!(
        ask(&operator, "strategy-choice", "unset"),
        (
            403,
            "/localhost/nfd/strategy-choice/unset may not be signed by \
             /org/operator/bob/KEY/1/admin/v=1 under the schema: #all: the key has to match \
             #admin, and matches #operator"
                .to_owned()
        )
    );
    assert_eq!(ask(&guest, "rib", "register").0, 403);
    assert_eq!(ask(&Signer::digest_sha256(), "rib", "register").0, 403);
    // An attacker with the name but not the key.
    let thief = Signer::ed25519(&[9; 32], name("/org/KEY/1"));
    assert_eq!(ask(&thief, "rib", "register").0, 403);
}

/// As in NFD's sample configuration: this machine's programs sign with keys of their own.
#[test]
fn by_default_any_key_of_this_machine_is_obeyed() {
    let mut node = Node::new(ManagementConfig::default());
    let app = node.app;
    for signer in [alice(), Signer::digest_blake3(), Signer::hmac(b"k", name("/k"))] {
        let answer =
            node.command_as(app, CommandScope::Localhost, &signer, "rib", "register", &about("/x"));
        assert_eq!(answer.unwrap().code, 200);
    }
}

#[test]
fn neighbours_register_only_if_they_may_and_only_themselves() {
    // By default there is no such prefix.
    let mut node = Node::new(ManagementConfig::default());
    let neighbour = node.neighbour;
    let register = |node: &mut Node, signer: &Signer, parameters: &ControlParameters| {
        let from = node.neighbour;
        node.command_as(from, CommandScope::Localhop, signer, "rib", "register", parameters)
            .map(|a| a.code)
    };
    assert_eq!(register(&mut node, &alice(), &about("/x")), None);
    // Nor does the local prefix work over a neighbour's face.
    assert_eq!(
        node.command_as(
            neighbour,
            CommandScope::Localhost,
            &alice(),
            "rib",
            "register",
            &about("/x")
        ),
        None
    );

    let config = ManagementConfig { localhop: Some(anchors(&alice())), ..Default::default() };
    let mut node = Node::new(config);
    assert_eq!(register(&mut node, &Signer::digest_sha256(), &about("/x")), Some(403));
    let app_face = ControlParameters { face_id: Some(node.app.0), ..about("/x") };
    assert_eq!(register(&mut node, &alice(), &app_face), Some(403));
    assert_eq!(register(&mut node, &alice(), &about("/x")), Some(200));
    assert_eq!(node.fib()["/x"], [(node.neighbour.0, 0)].into());
    let from = node.neighbour;
    let answer = node
        .command_as(from, CommandScope::Localhop, &alice(), "faces", "destroy", &about("/x"))
        .unwrap();
    assert_eq!(answer.code, 501);
    let answer = node
        .command_as(from, CommandScope::Localhop, &alice(), "rib", "unregister", &about("/x"))
        .unwrap();
    assert_eq!((answer.code, node.fib().contains_key("/x")), (200, false));
}

/// A neighbour's command may come with a forged address, and leads to that address itself.
#[test]
fn only_commands_of_this_machine_vouch_for_a_face() {
    let config = ManagementConfig { localhop: Some(anchors(&alice())), ..Default::default() };
    let mut node = Node::new(config);
    let from = node.neighbour;
    let answer =
        node.command_as(from, CommandScope::Localhop, &alice(), "rib", "register", &about("/x"));
    assert_eq!((answer.map(|answer| answer.code), &node.program.vouched[..]), (Some(200), &[][..]));
    for (module, verb) in [("rib", "register"), ("fib", "add-nexthop")] {
        node.program.vouched.clear();
        let nowhere = ControlParameters { face_id: Some(77), ..about("/y") };
        assert_eq!(node.command(module, verb, &nowhere).code, 410);
        assert_eq!(node.program.vouched, []);
        let hop = ControlParameters { face_id: Some(from.0), ..about("/y") };
        assert_eq!(node.command(module, verb, &hop).code, 200);
        assert_eq!(node.program.vouched, [from]);
    }
}

#[test]
fn no_command_replaces_the_routes_of_management() {
    let mut node = Node::new(ManagementConfig::default());
    let before = node.fib();
    for prefix in ["/localhost/nfd", "/localhost/nfd/rib", "/localhop/nfd/rib/register"] {
        for (module, verb) in [
            ("rib", "register"),
            ("rib", "unregister"),
            ("fib", "add-nexthop"),
            ("fib", "remove-nexthop"),
        ] {
            assert_eq!(node.command(module, verb, &about(prefix)).code, 403, "{module} {verb}");
        }
    }
    let own = ControlParameters { face_id: Some(node.own.0), ..ControlParameters::default() };
    assert_eq!(node.command("faces", "destroy", &own).code, 406);
    assert_eq!(node.fib(), before);
}

#[test]
fn faces_are_created_changed_and_destroyed() {
    let mut node = Node::new(ManagementConfig::default());
    let to = |uri: &str| ControlParameters { uri: Some(uri.into()), ..Default::default() };
    let wanted = ControlParameters {
        persistency: Some(2),
        flags: Some(types::FLAG_LOCAL_FIELDS),
        mask: Some(types::FLAG_LOCAL_FIELDS | types::FLAG_LP_RELIABILITY),
        ..to("udp://192.0.2.7")
    };
    let answer = node.command("faces", "create", &wanted);
    let made = answer.parameters.unwrap();
    assert_eq!(answer.code, 200);
    assert_eq!(made.uri.as_deref(), Some("udp4://192.0.2.7:6363"));
    assert_eq!((made.flags, made.persistency), (Some(1), Some(2)));
    let face = made.face_id.unwrap();

    let again = node.command("faces", "create", &to("udp4://192.0.2.7:6363"));
    assert_eq!((again.code, again.parameters.unwrap().face_id), (409, Some(face)));
    for (uri, code) in [("udp4://", 400), ("nonsense", 400), ("unix:///run/x", 406)] {
        assert_eq!(node.command("faces", "create", &to(uri)).code, code, "{uri}");
    }
    assert_eq!(node.command("faces", "create", &ControlParameters::default()).code, 400);
    let half = ControlParameters { flags: Some(1), ..to("udp4://192.0.2.8:6363") };
    assert_eq!(node.command("faces", "create", &half).code, 400);
    let odd = ControlParameters { persistency: Some(3), ..to("udp4://192.0.2.8:6363") };
    assert_eq!(node.command("faces", "create", &odd).code, 400);

    let change = ControlParameters {
        face_id: Some(face),
        flags: Some(0),
        mask: Some(1),
        ..ControlParameters::default()
    };
    let answer = node.command("faces", "update", &change);
    let changed = answer.parameters.unwrap();
    assert_eq!((answer.code, changed.flags, changed.uri), (200, Some(0), None));
    // Without FaceId it is the face that the command came over.
    let own = ControlParameters { flags: Some(4), mask: Some(4), ..Default::default() };
    let answer = node.command("faces", "update", &own);
    assert_eq!(answer.parameters.unwrap().face_id, Some(node.app.0));
    let unknown = ControlParameters { face_id: Some(99), ..Default::default() };
    assert_eq!(node.command("faces", "update", &unknown).code, 404);

    let route = ControlParameters { face_id: Some(face), ..about("/far") };
    assert_eq!(node.command("rib", "register", &route).code, 200);
    let which = ControlParameters { face_id: Some(face), ..Default::default() };
    assert_eq!(node.command("faces", "destroy", &which).code, 200);
    assert!(!node.fib().contains_key("/far"));
    assert!(node.management.rib().is_empty());
    assert_eq!(node.command("faces", "destroy", &which).code, 200, "gone is gone");
    assert_eq!(node.command("faces", "destroy", &ControlParameters::default()).code, 400);
}

#[test]
fn fib_cs_and_strategies_are_changed() {
    let mut node = Node::new(ManagementConfig { max_strategy_choices: 3, ..Default::default() });
    let hop = ControlParameters { face_id: Some(node.neighbour.0), cost: Some(7), ..about("/f") };
    assert_eq!(node.command("fib", "add-nexthop", &hop).code, 200);
    assert_eq!(node.fib()["/f"], [(node.neighbour.0, 7)].into());
    let nowhere = ControlParameters { face_id: Some(77), ..about("/f") };
    assert_eq!(node.command("fib", "add-nexthop", &nowhere).code, 410);
    assert_eq!(node.command("fib", "remove-nexthop", &nowhere).code, 200);
    assert_eq!(node.command("fib", "remove-nexthop", &hop).code, 200);
    assert!(!node.fib().contains_key("/f"));

    let config = ControlParameters {
        capacity: Some(5),
        flags: Some(0),
        mask: Some(types::CS_SERVE),
        ..Default::default()
    };
    let answer = node.command("cs", "config", &config).parameters.unwrap();
    assert_eq!((answer.capacity, answer.flags), (Some(5), Some(types::CS_ADMIT)));
    let info = node.program.forwarder.cs();
    assert_eq!((info.capacity_packets, info.admit, info.serve), (5, true, false));
    let erased = node.command("cs", "erase", &about("/")).parameters.unwrap();
    // The answers to commands were cached.
    assert_eq!(erased.count, Some(info.packets as u64));
    assert_eq!(erased.capacity, None);
    let none = ControlParameters { count: Some(0), ..about("/") };
    assert_eq!(node.command("cs", "erase", &none).code, 400);

    let set = |strategy: &str, prefix: &str| ControlParameters {
        strategy: Some(name(strategy)),
        ..about(prefix)
    };
    let answer =
        node.command("strategy-choice", "set", &set("/localhost/nfd/strategy/multicast", "/m"));
    assert_eq!(answer.code, 200);
    assert_eq!(
        answer.parameters.unwrap().strategy,
        Some(name(&ForwardingStrategy::MULTICAST.to_string()))
    );
    assert_eq!(strategy_at(&node, "/m"), Some(ForwardingStrategy::MULTICAST));
    let answer = node.command("strategy-choice", "set", &set("/localhost/nfd/strategy/none", "/m"));
    assert_eq!(answer.code, 404);
    assert_eq!(node.command("strategy-choice", "set", &about("/m")).code, 400);
    for (prefix, code) in [("/n", 200), ("/o", 503), ("/n", 200)] {
        let wanted = set("/localhost/nfd/strategy/asf", prefix);
        assert_eq!(node.command("strategy-choice", "set", &wanted).code, code, "{prefix}");
    }
    assert_eq!(node.command("strategy-choice", "unset", &about("/m")).code, 200);
    assert_eq!(strategy_at(&node, "/m"), None);
    assert_eq!(node.command("strategy-choice", "unset", &about("/")).code, 400);
}

#[test]
fn unknown_or_malformed_commands_are_answered() {
    let mut node = Node::new(ManagementConfig::default());
    assert_eq!(node.command("rib", "explode", &about("/x")).code, 501);
    assert_eq!(node.command("magic", "wand", &about("/x")).code, 501);
    let signer = Signer::digest_sha256();
    for parameters in [&b"no TLV"[..], &[0x68, 2, 7, 7], &[0x67, 0]] {
        let stamp = node.stamp();
        let name = name("/localhost/nfd/rib/register").child(Component::generic(parameters));
        let mut wire = Vec::new();
        let builder =
            InterestBuilder::new(name.as_ref()).nonce(stamp.nonce[..4].try_into().unwrap());
        signer.interest(builder, &[], stamp, &mut wire).unwrap();
        assert_eq!(code(&mut node, &wire), Some(400), "{parameters:?}");
    }
    // Names outside management.
    for uri in
        ["/localhost/nfd", "/localhost/nfd/rib", "/localhost/nfd/seg=1/list", "/other/nfd/a/b"]
    {
        let mut wire = Vec::new();
        InterestBuilder::new(name(uri).as_ref()).nonce([7; 4]).encode(&mut wire).unwrap();
        let mut out = Vec::new();
        let interest = Interest::decode(&wire).unwrap();
        node.management.handle_interest(
            node.now,
            FaceId(2),
            &interest,
            &mut node.program,
            &mut out,
        );
        assert!(out.is_empty(), "{uri}");
    }
}

/// A client that creates a face over a connection is answered once the connection is up or has failed.
#[test]
fn a_new_face_is_confirmed_when_its_connection_is_up() {
    type Outcome = fn(&mut Node, FaceId, &mut Vec<Vec<u8>>);
    let stands: Outcome = |node, face, out| {
        node.program.opening = None;
        node.management.face_up(node.now, face, &node.program, out);
    };
    let refused: Outcome = |node, face, out| {
        node.management.face_failed(face, "Connection refused", out);
        node.program.destroy_face(face);
        node.management.face_gone(node.now, face, &mut node.program, out);
    };
    let silent: Outcome = |node, _, out| {
        let until = node.management.poll_timeout().expect("it does not wait for ever");
        node.management.handle_timeout(until, &mut node.program, out);
    };
    for (outcome, code, there) in [(stands, 200, true), (refused, 504, false), (silent, 504, false)]
    {
        let mut node = Node::new(ManagementConfig::default());
        let wanted =
            ControlParameters { uri: Some("tcp4://192.0.2.7:6363".into()), ..Default::default() };
        let (stamp, signer) = (node.stamp(), Signer::digest_sha256());
        let command = client::command(
            CommandScope::Localhost,
            "faces",
            "create",
            &wanted,
            &signer,
            stamp,
            [7; 4],
        )
        .unwrap();
        let app = node.app;
        assert!(node.send(app, &command).is_empty(), "answered before anybody knows");
        let face = node.program.opening.unwrap();
        let mut out = Vec::new();
        outcome(&mut node, face, &mut out);
        let answers = node.give_back(&out);
        let (to, answer) = answers.first().expect("an answer");
        let data = Data::decode(answer).unwrap();
        let response = client::response(&Interest::decode(&command).unwrap(), &data).unwrap();
        assert_eq!((*to, response.code), (app, code), "{}", response.text);
        assert_eq!(node.program.faces.contains_key(&face), there);
        assert_eq!(node.management.poll_timeout(), None);
    }
}

/// Its name with repeated parameters fits into no packet; a plain confirmation does.
#[test]
fn a_very_long_prefix_has_an_answer() {
    let mut node = Node::new(ManagementConfig::default());
    let long = Name::new().child(Component::generic(&[b'x'; 4390]));
    let parameters = ControlParameters { name: Some(long.clone()), ..Default::default() };
    for verb in ["register", "unregister"] {
        let answer = node.command("rib", verb, &parameters);
        assert_eq!((answer.code, answer.parameters), (200, None));
        assert_eq!(node.fib().contains_key(&long.to_string()), verb == "register");
    }
}
