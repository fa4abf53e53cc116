//! Parts of a hash (`xylem sum --merge`): any text as lines, and true parts with false lines.
#![no_main]
use xylem_hash::tree::Tree;
use xylem_tree::parts::{Merged, MessagePart, PartLine, PartMerger, PartMode, lines, subtrees};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let tree = Tree::plain();
    let text = String::from_utf8_lossy(input);
    let mut whole = PartMerger::default();
    for line in text.lines() {
        if let Ok(line) = line.parse::<PartLine>() {
            assert_eq!(line.to_string().parse(), Ok(line), "what is read has one form");
        }
    }
    let _ = whole.add_text(&text);
    let _ = whole.output(&tree, PartMode::Plain);

    // The message is the input itself, cut at a place that it chooses: the parts give its hash.
    let at = input.first().map_or(0, |at| usize::from(*at) * 1024).min(input.len()) / 1024 * 1024;
    let mut whole = PartMerger::default();
    for (start, bytes) in [(at, &input[at..]), (0, &input[..at])] {
        if bytes.is_empty() && !(at == 0 && input.is_empty()) {
            continue;
        }
        let mut part = MessagePart::default();
        let nodes = subtrees(&tree, start as u64, bytes).expect("cut between chunks");
        nodes.for_each(|node| part.push(&tree, node));
        let own = || xylem_hash::hash(bytes);
        for line in lines(PartMode::Plain, Some(input.len() as u64), &part, own) {
            whole.add(line).expect("parts of one message agree");
        }
    }
    let hash = match whole.output(&tree, PartMode::Plain).expect("all of it is there") {
        Merged::Hash(hash) => hash,
        Merged::Output(mut output) => {
            let mut bytes = [0; 32];
            output.fill(&mut bytes);
            xylem_hash::Hash::from_bytes(bytes)
        }
    };
    assert_eq!(hash, xylem_hash::hash(input));
});
