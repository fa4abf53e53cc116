//! Messages of a group's members about their folders: indexes, statements and invitations are parsed or refused, and a
//! parsed one is written the same. A merge of any two indexes ends.
#![no_main]
use xylem_folder::{
    AdoptedState, Index, Invitation, MemberStatement, ProofRequest, RoleSchema, SyncGroup, merge,
};
use xylem_object::PublisherId;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let group = SyncGroup::new([7; 32], PublisherId([1; 32]));
    let _ = MemberStatement::read(input, &group);
    // A schema, and the certificates that a stranger shows for it.
    let (schema, shown) = input.split_at(input.len() / 2);
    for schema in [schema, input] {
        if let Some(read) = RoleSchema::read(schema) {
            assert_eq!(read.as_bytes(), schema);
            let (founder, member) = (PublisherId([1; 32]), PublisherId([2; 32]));
            let _ = read.judge(&founder, &member, shown, 1_800_000_000_000);
        }
    }
    if let Some(adopted) = AdoptedState::read(&[b"xst1", input].concat()) {
        assert_eq!(AdoptedState::read(&adopted.to_bytes()), Some(adopted));
    }
    for magic in ["xsq2", "xsa2"] {
        let whole = [magic.as_bytes(), input].concat();
        if let Some(asked) = ProofRequest::read(&whole) {
            assert_eq!(asked.to_bytes(), whole);
        }
        if let Some((asked, proof)) = ProofRequest::read_answer(&whole) {
            assert_eq!(asked.answer(proof), whole);
        }
    }
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = text.parse::<Invitation>();
        let _ = format!("xylem-sync:{text}").parse::<Invitation>();
    }
    let at = input.len() / 2;
    let index = |bytes: &[u8]| {
        let mut whole = [b"xylem sync index 3\n", bytes, &[0, 0]].concat();
        let hash = xylem_hash::hash(&whole);
        whole.extend_from_slice(hash.as_bytes());
        let (index, about) = Index::decode(&whole).ok()?;
        assert_eq!(index.encode(&about).unwrap(), whole);
        Some(index)
    };
    if let Some(theirs) = index(input) {
        let _ = merge(&Index::default(), &theirs, &|_, _| false, None).unwrap().wanted(&theirs);
    }
    if let (Some(ours), Some(theirs)) = (index(&input[..at]), index(&input[at..])) {
        for reader in [None, Some([1; 8])] {
            let _ = merge(&ours, &theirs, &|_, _| false, reader).unwrap();
        }
    }
});
