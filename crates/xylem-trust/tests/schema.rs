//! Tests of LightVerSec: bytes and answers of python-ndn, a comparison of every check with a slow matcher that has no
//! tree, and invalid schemas.

use std::collections::HashMap;
use std::fmt::Write;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use xylem_packet::{Component, Name, tlv};
use xylem_trust::schema::{CompileError, Schema, SchemaError, SchemaRefusal};

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

fn allows(schema: &Schema, packet: &str, key: &str) -> bool {
    schema.check(name(packet).as_ref(), name(key).as_ref()).is_ok()
}

fn refusal(schema: &Schema, packet: &str, key: &str) -> String {
    schema.check(name(packet).as_ref(), name(key).as_ref()).unwrap_err().to_string()
}

/// A text, python-ndn's binary form of it, and its checker's answers for pairs of names.
const VECTORS: [(&str, &[u8], &str); 3] = [
    (
        include_str!("fixtures/schema/blog.lvs"),
        include_bytes!("fixtures/schema/blog.tlv"),
        include_str!("fixtures/schema/blog.checks"),
    ),
    (
        include_str!("fixtures/schema/constraints.lvs"),
        include_bytes!("fixtures/schema/constraints.tlv"),
        include_str!("fixtures/schema/constraints.checks"),
    ),
    (
        include_str!("fixtures/schema/group.lvs"),
        include_bytes!("fixtures/schema/group.tlv"),
        include_str!("fixtures/schema/group.checks"),
    ),
];

#[test]
fn compiled_bytes_equal_python_ndns() {
    for (text, bytes, _) in VECTORS {
        assert_eq!(Schema::compile(text).unwrap().encode(), bytes, "{text}");
        assert_eq!(Schema::decode(bytes).unwrap().encode(), bytes, "{text}");
    }
}

#[test]
fn answers_equal_python_ndns() {
    let mut answers = 0;
    for (text, bytes, checks) in VECTORS {
        let schema = Schema::decode(bytes).unwrap();
        for line in checks.lines() {
            let words: Vec<_> = line.split(' ').collect();
            let [verdict, packet, key] = words[..] else { panic!("{line}") };
            assert_eq!(allows(&schema, packet, key), verdict == "yes", "{line} in {text}");
            answers += 1;
        }
    }
    assert_eq!(answers, 240);
}

#[test]
fn a_refusal_names_its_rule() {
    let schema = Schema::compile(VECTORS[0].0).unwrap();
    let author = "/example/blog/author/bob/KEY/1/ed/v=1";
    let post = "/example/blog/post/bob/2026/hello";
    let permit = schema.check(name(post).as_ref(), name(author).as_ref()).map(|permit| {
        assert_eq!((permit.rule(), permit.key_rule()), ("#post".into(), "#author".into()));
    });
    assert_eq!(permit, Ok(()));
    for (packet, key, words) in [
        ("/elsewhere", author, "no rule of the schema matches this name"),
        (
            "/example/blog/post/alice/2026/hello",
            author,
            "#post: the key matches #author, but with another value for author",
        ),
        (
            post,
            "/example/blog/editor/bob/KEY/1/root/v=1",
            "#post: the key has to match #author, and matches #editor",
        ),
        (
            "/example/blog/draft/bob/x/y",
            "/mallory/KEY/1/self/v=1",
            "#draft: the key has to match #author or #editor, and its name matches no rule",
        ),
        (
            "/example/blog/KEY/1/self/v=1",
            "/example/blog/KEY/1/self/v=1",
            "#root: the schema allows no key to sign this",
        ),
        ("/example/blog/post/bob", author, "no rule of the schema matches this name"),
        ("/", author, "no rule of the schema matches this name"),
    ] {
        assert_eq!(refusal(&schema, packet, key), words);
    }
    assert_eq!(schema.anchors(), ["#root"]);
}

#[test]
fn digests_at_the_end_of_names_are_ignored() {
    let schema = Schema::compile(VECTORS[0].0).unwrap();
    let digest = format!("sha256digest={}", "5a".repeat(32));
    let packet = format!("/example/blog/post/bob/2026/hello/{digest}");
    let key = format!("/example/blog/author/bob/KEY/1/ed/v=1/{digest}");
    assert!(allows(&schema, &packet, &key));
}

#[test]
fn suggest_finds_a_key_that_may_sign() {
    let schema = Schema::compile(VECTORS[0].0).unwrap();
    let keys = ["/example/blog/KEY/1/self/v=1", "/example/blog/author/bob/KEY/1/ed/v=1"].map(name);
    let suggest =
        |packet: &str| schema.suggest(name(packet).as_ref(), keys.iter().map(Name::as_ref));
    assert_eq!(suggest("/example/blog/post/bob/2026/hello"), Some(1));
    assert_eq!(suggest("/example/blog/editor/eve/KEY/1/root/v=1"), Some(0));
    assert_eq!(suggest("/example/blog/post/alice/2026/hello"), None);
}

/// python-ndn and NDNd check a constraint of the key's rule only if the packet has not bound the pattern. NDNts always
/// checks it, and so does this crate.
#[test]
fn bound_patterns_must_satisfy_the_keys_constraints() {
    let schema = Schema::compile(
        r#"#page: "wiki"/role/_ <= #key
           #key: "wiki"/"key"/role & { role: "admin" | "editor" }"#,
    )
    .unwrap();
    assert!(allows(&schema, "/wiki/admin/x", "/wiki/key/admin"));
    assert!(!allows(&schema, "/wiki/evil/x", "/wiki/key/evil"));
}

/// python-ndn drops the constraint of the second `_a`.
#[test]
fn temporary_patterns_keep_constraints_in_every_reference() {
    let text = r#"#a: _a & { _a: "x" }
        #b: #a/#a <= #k
        #k: "k""#;
    let schema = Schema::compile(text).unwrap();
    assert!(allows(&schema, "/x/x", "/k"));
    assert!(!allows(&schema, "/x/y", "/k"));
}

#[test]
fn errors_in_texts_state_line_and_column() {
    for (text, error) in [
        ("#a: \"x\n\"", "line 1, column 5: the text has no end: '\"' is missing on this line"),
        ("\n  a: b", "line 2, column 3: expected a rule's name, such as #author, found a"),
        ("#a \"x\"", "line 1, column 4: expected ':' after the rule's name, found \"x\""),
        (
            "#a: \"x\"/",
            "line 1, column 9: expected a component (\"text\", a pattern or a rule's name), found the end",
        ),
        ("#a: \"x y\"", "line 1, column 5: \"x y\": ' ' has to be percent-encoded"),
        (
            "#a: \"%4\"",
            "line 1, column 5: \"%4\": a percent sign needs two hexadecimal digits after it",
        ),
        ("#a: x & y", "line 1, column 9: expected '{' to begin a set of constraints, found y"),
        ("#a: x & { y: \"b\" }", "line 1, column 11: y does not occur in any name up to here"),
        ("#b: y\n#a: x & { y: \"b\" }", "line 2, column 11: y does not occur in the name of #a"),
        (
            "#a: x & { x: _ }",
            "line 1, column 14: _ begins with _, so it has no value to compare with",
        ),
        ("#a: x & { x: $is(x) }", "line 1, column 14: $is: only $eq and $eq_type are known"),
        (
            "#a: x & { x: $eq(x }",
            "line 1, column 20: expected ')' or ',' after an argument, found '}'",
        ),
        ("#a: #b", "line 1, column 5: #b: there is no such rule"),
        (
            "#a: #_b\n#_b: \"x\"",
            "line 1, column 5: #_b: a rule whose name begins with #_ cannot be referred to",
        ),
        ("#a: \"x\" <= #b", "line 1, column 12: #b: there is no such rule"),
        ("#a: \"x\"/#b\n#b: #c\n#c: #a", "line 1, column 1: #a: its name refers to itself"),
        (
            "#c: \"c\"\n#a: \"x\" <= #b\n#b: \"y\" <= #a",
            "line 2, column 1: a loop of signatures without an anchor, at #a",
        ),
        ("#a: \"x\" <= #a", "line 1, column 1: a loop of signatures without an anchor, at #a"),
        ("#9: x", "line 1, column 1: a rule's name begins with a letter or '_'"),
        ("#a: é", "line 1, column 5: 'é' has no meaning here"),
    ] {
        assert_eq!(Schema::compile(text).unwrap_err().to_string(), error, "{text}");
    }
}

#[test]
fn texts_that_expand_too_far_are_refused() {
    // Each rule stands for twice as many names as the one before.
    let mut text = String::from("#r0: \"a\"\n#r0: \"b\"\n");
    for i in 1..40 {
        writeln!(text, "#r{i}: #r{}/\"a\"\n#r{i}: #r{}/\"b\"", i - 1, i - 1).unwrap();
    }
    let CompileError { problem, .. } = Schema::compile(&text).unwrap_err();
    assert_eq!(problem, "the rules expand to too many names");
    let long = format!("#a: {}", ["\"a\""; 65].join("/"));
    assert!(Schema::compile(&long).unwrap_err().problem.contains("more than 64 components"));
    assert!(Schema::compile(&" ".repeat((1 << 20) + 1)).is_err());
}

/// Encodes an element by hand.
fn element(typ: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    tlv::write_element(&mut out, typ, value);
    out
}

fn number(typ: u32, number: u8) -> Vec<u8> {
    element(typ, &[number])
}

/// Encodes version, start and number of named patterns, followed by `rest`.
fn model(rest: &[Vec<u8>]) -> Vec<u8> {
    let mut out = [element(0x61, &[0, 1, 0x10, 0]), number(0x25, 0), number(0x69, 0)].concat();
    rest.iter().for_each(|part| out.extend_from_slice(part));
    out
}

fn node(parts: &[Vec<u8>]) -> Vec<u8> {
    element(0x63, &parts.concat())
}

fn edge(to: u8, text: &[u8]) -> Vec<u8> {
    element(0x51, &[number(0x25, to), element(0x21, &element(8, text))].concat())
}

fn id(at: u8) -> Vec<u8> {
    number(0x25, at)
}

fn parent(at: u8) -> Vec<u8> {
    number(0x57, at)
}

#[test]
fn inconsistent_schemas_are_refused() {
    let leaf = |at, of| node(&[id(at), parent(of)]);
    let good = model(&[node(&[id(0), edge(1, b"a")]), leaf(1, 0)]);
    assert!(Schema::decode(&good).is_ok());
    let pattern = |constraint: &[u8]| {
        let tagged = [number(0x25, 1), number(0x23, 1), element(0x43, constraint)].concat();
        model(&[node(&[id(0), element(0x53, &tagged)]), leaf(1, 0)])
    };
    let option = |value: &[u8]| pattern(&element(0x41, value));
    let call = |function: &[u8]| option(&element(0x31, &element(0x27, function)));
    assert!(Schema::decode(&call(b"$eq")).is_ok());
    let both = [element(0x21, &element(8, b"x")), number(0x23, 1)].concat();
    for (bytes, error) in [
        (good[6..].to_vec(), SchemaError::Missing(0x61)),
        (
            [element(0x61, &[0, 1, 0x10, 1]), good[6..].to_vec()].concat(),
            SchemaError::Version(0x11001),
        ),
        (model(&[]), SchemaError::NoNode(0)),
        (model(&[node(&[id(1)])]), SchemaError::NodeId { at: 0, found: 1 }),
        (model(&[node(&[id(0), edge(7, b"a")])]), SchemaError::NoNode(7)),
        (model(&[node(&[id(0), parent(0)])]), SchemaError::Parent(0)),
        (model(&[node(&[id(0), edge(0, b"a")])]), SchemaError::Parent(0)),
        (model(&[node(&[id(0), edge(1, b"a")]), leaf(1, 1)]), SchemaError::Parent(1)),
        (
            model(&[node(&[id(0), edge(1, b"a"), edge(1, b"b")]), leaf(1, 0)]),
            SchemaError::Parent(1),
        ),
        (
            model(&[node(&[id(0), edge(1, b"a"), edge(2, b"a")]), leaf(1, 0), leaf(2, 0)]),
            SchemaError::SameEdge(0),
        ),
        (model(&[node(&[id(0)]), leaf(1, 0)]), SchemaError::Unreachable(1)),
        // Two nodes that are each other's parents.
        (
            model(&[
                node(&[id(0)]),
                node(&[id(1), parent(2), edge(2, b"a")]),
                node(&[id(2), parent(1), edge(1, b"a")]),
            ]),
            SchemaError::Unreachable(1),
        ),
        (model(&[node(&[id(0), number(0x55, 9)])]), SchemaError::NoNode(9)),
        (model(&[node(&[id(0), number(0x55, 0)])]), SchemaError::SigningLoop("#_0".into())),
        (option(&both), SchemaError::Option),
        (option(b""), SchemaError::Option),
        (call(b"$open"), SchemaError::Function("$open".into())),
        (call(b"\x1b[2J"), SchemaError::Identifier),
        (
            option(&element(0x21, b"x")),
            SchemaError::Malformed(xylem_packet::DecodeError::Truncated),
        ),
        (option(&element(0x21, b"")), SchemaError::Component),
        ([good.clone(), element(0x6b, b"")].concat(), SchemaError::Unexpected(0x6b)),
        ([good.clone(), number(0x25, 0)].concat(), SchemaError::Unexpected(0x25)),
        (vec![0; (1 << 20) + 1], SchemaError::TooLarge),
    ] {
        let found = Schema::decode(&bytes);
        match (&found, &error) {
            // A component that cannot be decoded is also an error.
            (Err(SchemaError::Component), SchemaError::Malformed(_)) => {}
            _ => assert_eq!(found.as_ref(), Err(&error)),
        }
    }
    // Elements that the packet format permits to ignore are skipped.
    assert!(Schema::decode(&[good, element(0x6c, b"later")].concat()).is_ok());
}

#[test]
fn depth_is_bounded() {
    let chain = |len: u8| {
        let mut nodes = vec![node(&[id(0), edge(1, b"a")])];
        for at in 1..len {
            nodes.push(node(&[id(at), parent(at - 1), edge(at + 1, b"a")]));
        }
        nodes.push(node(&[id(len), parent(len - 1)]));
        Schema::decode(&model(&nodes))
    };
    assert!(chain(64).is_ok());
    assert_eq!(chain(65), Err(SchemaError::TooDeep));
}

/// No cut or changed schema causes a panic, and a schema that decodes encodes to the same bytes.
#[test]
fn cut_and_changed_schemas_never_panic() {
    let bytes = VECTORS[1].1;
    for cut in 0..bytes.len() {
        if let Ok(schema) = Schema::decode(&bytes[..cut]) {
            assert_eq!(schema.encode(), &bytes[..cut]);
        }
    }
    let (packet, key) =
        (name("/home/1/hall/lamp/x/reading/t=1"), name("/home/key/1/hall/KEY/1/a/b"));
    for bit in 0..bytes.len() * 8 {
        let mut other = bytes.to_vec();
        other[bit / 8] ^= 1 << (bit % 8);
        if let Ok(schema) = Schema::decode(&other) {
            let _ = schema.check(packet.as_ref(), key.as_ref());
        }
    }
}

/// Two thousand patterns in a row, each to be signed by any of two thousand, give four million combinations. A check
/// tries a few thousand of them.
#[test]
fn a_check_ends_for_any_schema() {
    let mut text = String::new();
    for i in 0..2000 {
        writeln!(text, "#k{i}: k{i}/_x & {{ _x: \"never\" }}\n#p{i}: p{i}/\"p\" <= #k{i}").unwrap();
    }
    let schema = Schema::compile(&text).unwrap();
    let (packet, key) = (name("/p/p"), name("/k/k"));
    let refusal = schema.check(packet.as_ref(), key.as_ref()).unwrap_err();
    assert_eq!(refusal, SchemaRefusal::TooMuch);
    assert_eq!(schema.suggest(packet.as_ref(), [key.as_ref()]), None);
    // A name with more components than any rule, in a packet of 8,800 bytes.
    let long = name(&"/a".repeat(2900));
    assert_eq!(schema.check(long.as_ref(), key.as_ref()).unwrap_err(), SchemaRefusal::NoRule);
}

// --- The slow matcher: rules as lists, without a tree, and nothing is shared between names.

#[derive(Debug, Clone)]
enum Part {
    Value(u8),
    Pattern(u8),
    Anything,
}

#[derive(Debug, Clone)]
enum Wanted {
    Value(u8),
    Pattern(u8),
    SameType(u8),
}

#[derive(Debug, Clone)]
struct Rule {
    name: Vec<Part>,
    /// The index of an earlier pattern, and the values that it may have.
    constraints: Vec<(usize, Vec<Wanted>)>,
    signers: Vec<usize>,
}

/// Components to choose from, of two types.
const VALUES: [&str; 4] = ["x", "y", "32=x", "32=y"];
const PATTERNS: [&str; 3] = ["a", "b", "c"];

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let part = prop_oneof![
        (0..4u8).prop_map(Part::Value),
        (0..3u8).prop_map(Part::Pattern),
        Just(Part::Anything)
    ];
    let wanted = prop_oneof![
        (0..4u8).prop_map(Wanted::Value),
        (0..3u8).prop_map(Wanted::Pattern),
        (0..4u8).prop_map(Wanted::SameType)
    ];
    let constraint = (0..4usize, prop::collection::vec(wanted, 1..3));
    let name = prop::collection::vec(part, 1..4);
    let constraints = prop::collection::vec(constraint, 0..3);
    let signers = prop::collection::vec(0..8usize, 0..3);
    let rule = (name, constraints, signers);
    prop::collection::vec(rule, 1..6).prop_map(|drawn| {
        let mut rules: Vec<Rule> = Vec::new();
        for (at, (name, constraints, signers)) in drawn.into_iter().enumerate() {
            let patterns = patterns_of(&name);
            // Constraints compare only with patterns of this name, and only earlier rules sign, so there are no loops.
            let constraints = constraints.into_iter().filter(|(pattern, wanted)| {
                *pattern < patterns.len()
                    && wanted.iter().all(|wanted| match wanted {
                        Wanted::Pattern(other) => patterns.contains(other),
                        _ => true,
                    })
            });
            let constraints = constraints.collect();
            let signers = signers.into_iter().filter(|signer| *signer < at).collect();
            rules.push(Rule { name, constraints, signers });
        }
        rules
    })
}

/// Each pattern once, in the order of occurrence.
fn patterns_of(name: &[Part]) -> Vec<u8> {
    let mut patterns = Vec::new();
    for part in name {
        if let Part::Pattern(pattern) = part
            && !patterns.contains(pattern)
        {
            patterns.push(*pattern);
        }
    }
    patterns
}

fn text_of(rules: &[Rule]) -> String {
    let mut text = String::new();
    for (at, rule) in rules.iter().enumerate() {
        let parts = rule.name.iter().map(|part| match part {
            Part::Value(value) => format!("\"{}\"", VALUES[usize::from(*value)]),
            Part::Pattern(pattern) => PATTERNS[usize::from(*pattern)].to_owned(),
            Part::Anything => "_".to_owned(),
        });
        write!(text, "#r{at}: {}", parts.collect::<Vec<_>>().join("/")).unwrap();
        let patterns = patterns_of(&rule.name);
        let terms = rule.constraints.iter().map(|(pattern, wanted)| {
            let wanted = wanted.iter().map(|wanted| match wanted {
                Wanted::Value(value) => format!("\"{}\"", VALUES[usize::from(*value)]),
                Wanted::Pattern(other) => PATTERNS[usize::from(*other)].to_owned(),
                Wanted::SameType(value) => format!("$eq_type(\"{}\")", VALUES[usize::from(*value)]),
            });
            let wanted = wanted.collect::<Vec<_>>().join(" | ");
            format!("{}: {wanted}", PATTERNS[usize::from(patterns[*pattern])])
        });
        let terms = terms.collect::<Vec<_>>().join(", ");
        if !terms.is_empty() {
            write!(text, " & {{ {terms} }}").unwrap();
        }
        let signers = rule.signers.iter().map(|signer| format!("#r{signer}"));
        let signers = signers.collect::<Vec<_>>().join(" | ");
        if !signers.is_empty() {
            write!(text, " <= {signers}").unwrap();
        }
        text.push('\n');
    }
    text
}

/// The bindings of the patterns after this name has matched, if it does.
fn slow_match(rule: &Rule, name: &[u8], bound: &HashMap<u8, u8>) -> Option<HashMap<u8, u8>> {
    if rule.name.len() != name.len() {
        return None;
    }
    let (mut bound, mut own) = (bound.clone(), Vec::new());
    let patterns = patterns_of(&rule.name);
    for (part, value) in rule.name.iter().zip(name) {
        match part {
            Part::Anything => {}
            Part::Value(wanted) if wanted == value => {}
            Part::Value(_) => return None,
            Part::Pattern(pattern) => {
                if bound.get(pattern).is_some_and(|known| known != value) {
                    return None;
                }
                let about = rule.constraints.iter().filter(|(at, _)| patterns[*at] == *pattern);
                let holds = about.clone().all(|(_, wanted)| {
                    wanted.iter().any(|wanted| match wanted {
                        Wanted::Value(other) => other == value,
                        Wanted::Pattern(other) => bound.get(other) == Some(value),
                        Wanted::SameType(other) => other / 2 == value / 2,
                    })
                });
                if !own.contains(pattern) && !holds {
                    return None;
                }
                own.push(*pattern);
                bound.insert(*pattern, *value);
            }
        }
    }
    Some(bound)
}

fn slow_check(rules: &[Rule], packet: &[u8], key: &[u8]) -> bool {
    rules.iter().any(|rule| {
        slow_match(rule, packet, &HashMap::new()).is_some_and(|bound| {
            rule.signers.iter().any(|signer| slow_match(&rules[*signer], key, &bound).is_some())
        })
    })
}

fn named(values: &[u8]) -> Name {
    let parts: Vec<_> = values.iter().map(|value| VALUES[usize::from(*value)]).collect();
    name(&format!("/{}", parts.join("/")))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        rng_seed: RngSeed::Fixed(17),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn checks_agree_with_a_slow_matcher(
        rules in rules(),
        pairs in prop::collection::vec(
            (prop::collection::vec(0..4u8, 1..4), prop::collection::vec(0..4u8, 1..4)),
            40,
        ),
    ) {
        let text = text_of(&rules);
        // Rules with the same name share a node, which may then sign itself.
        let schema = match Schema::compile(&text) {
            Err(error) if error.problem.starts_with("a loop") => return Ok(()),
            schema => schema.unwrap(),
        };
        prop_assert_eq!(Schema::decode(&schema.encode()).unwrap(), schema.clone());
        for (packet, key) in pairs {
            let slow = slow_check(&rules, &packet, &key);
            let (packet, key) = (named(&packet), named(&key));
            let fast = schema.check(packet.as_ref(), key.as_ref());
            prop_assert_eq!(fast.is_ok(), slow, "{} by {} in {}", packet, key, text);
        }
    }

    #[test]
    fn arbitrary_bytes_and_texts_never_panic(bytes: Vec<u8>, text in "[#$a-c_\"/:&|{}<=(), \n]{0,60}") {
        if let Ok(schema) = Schema::decode(&bytes) {
            let _ = schema.check(name("/a").as_ref(), name("/b").as_ref());
        }
        if let Ok(schema) = Schema::compile(&text) {
            prop_assert_eq!(Schema::decode(&schema.encode()).unwrap(), schema);
        }
    }
}

#[test]
fn matches_list_patterns_with_their_components() {
    let schema = Schema::compile(VECTORS[0].0).unwrap();
    let matches = schema.matches(name("/example/blog/post/bob/2026/v=3").as_ref()).unwrap();
    let [only] = &matches[..] else { panic!("{matches:?}") };
    assert_eq!(only.rules, ["#post"]);
    let bound: Vec<_> = only.bindings().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(bound, ["author=bob", "year=2026", "title=v=3"]);
    assert_eq!(Component::version(3).to_string(), "v=3");
}
