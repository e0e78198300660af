//! Facts from hand-written bytes. RFC 7531, 5662 and 7863 have the XDR.

use super::super::tests::{answered, called, xdr};
use super::super::{Chunks, Details, Payload, Procedure, call, reply};
use super::*;
use proptest::prelude::*;

const COMPOUND: Procedure = Procedure { program: 100_003, version: 4, number: 1 };
const CB_COMPOUND: Procedure = Procedure { program: 0x4000_0000, version: 1, number: 1 };

/// A stateid or session ID as words. The first word of a stateid is its sequence number.
fn id(words: [u32; 4]) -> [u8; 16] {
    let mut id = [0; 16];
    id.chunks_exact_mut(4).zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_be_bytes()));
    id
}

fn facts(details: &Details) -> Vec<FactKind> {
    details.states.iter().map(|fact| fact.kind).collect()
}

/// The facts in the arguments of one operation, and those in its results.
fn of(arguments: &str, results: &str) -> (Vec<FactKind>, Vec<FactKind>) {
    let mut details = called(COMPOUND, &format!("'' 1 1 {arguments}"), &[]);
    let of_call = facts(&details);
    let (code, _) = arguments.split_once(' ').unwrap();
    answered(COMPOUND, &mut details, &format!("0 '' 1 {code} {results}"), &[]);
    let of_reply = facts(&details).split_off(of_call.len());
    (of_call, of_reply)
}

#[test]
fn client_and_session_facts_are_found() {
    use FactKind::*;
    let (owner, given) = of("42 h9 'owner' 257 0 0", "0 h7 1 131072 0 h0 'major' 'scope' 0");
    let [Owner { owner, verifier: 9 }] = owner[..] else { panic!("{owner:?}") };
    let [ResultClient { client: 7, flags: 0x2_0000 }, Server(server)] = given[..] else {
        panic!("{given:?}")
    };
    // Equal names have equal hashes, for SETCLIENTID too. A name that ends elsewhere is another
    // name.
    let (again, given) = of("35 h8 'owner' 1073741824 'tcp' '10.0.0.1.8.1' 1", "0 h6 #8");
    assert_eq!(
        (again, given),
        (vec![Owner { owner, verifier: 8 }], vec![ResultClient { client: 6, flags: 0 }])
    );
    let (_, other) = of("42 h9 'owner' 257 0 0", "0 h7 1 131072 0 h0 'majors' 'cope' 0");
    assert!(matches!(other[..], [_, Server(other)] if other != server));

    let create = "43 h7 1 3 0 1 2 3 4 5 0 0 1 2 3 4 5 0 1073741824 1 0";
    assert_eq!(of(create, "0 #16 1 3 0 1 2 3 4 5 0 0 1 2 3 4 5 0").0, [ArgumentClient(7)]);
    assert_eq!(of("36 h7 #8", "0"), (vec![ArgumentClient(7)], vec![]));
    assert_eq!(of("57 h7", "0").0, [ArgumentClient(7)]);
    assert_eq!(of("44 1 2 3 4", "0").0, [Session(id([1, 2, 3, 4]))]);
    assert_eq!(of("58 1", "0").0, [ReclaimComplete { one_fs: true }]);
    assert_eq!(of("58 0", "0").0, [ReclaimComplete { one_fs: false }]);
}

#[test]
fn open_and_delegation_facts_are_found() {
    use FactKind::*;
    let (one, two) = (id([1, 0, 0, 5]), id([2, 0, 0, 6]));
    // seqid, share_access with OPEN4_SHARE_ACCESS_WANT_READ_DELEG, share_deny, owner,
    // OPEN4_NOCREATE, CLAIM_NULL.
    let (arguments, results) =
        of("18 1 257 2 h7 'owner' 0 0 'name'", "0 1 0 0 5 #20 4 0 2 2 0 0 6 0 1 h9 0 0 7 'who'");
    assert_eq!(arguments, [Share { access: 257, deny: 2 }, Open { client: 7, claim: 0 }]);
    assert_eq!(results, [ResultStateId(one), Delegation { id: two, writes: true }]);
    // CLAIM_DELEG_CUR_FH, and a delegation for reading.
    let (arguments, results) =
        of("18 1 1 0 h7 'owner' 0 5 2 0 0 6", "0 1 0 0 5 #20 4 0 4 2 0 0 6 0 0 0 7 'who'");
    assert_eq!(arguments[2..], [ArgumentStateId(two)]);
    assert_eq!(results[1], Delegation { id: two, writes: false });
    // No delegation, in both encodings.
    for none in ["0", "3 1 0"] {
        assert_eq!(
            of("18 1 1 0 h7 'owner' 0 4", &format!("0 1 0 0 5 #20 4 0 {none}")).1,
            [ResultStateId(one)]
        );
    }
    // A failure has no facts.
    assert_eq!(of("18 1 1 0 h7 'owner' 0 4", "13").1, []);
    assert_eq!(
        of("21 1 0 0 5 1 1 0", "0 2 0 0 5"),
        (vec![ArgumentStateId(one), Share { access: 1, deny: 0 }], vec![ResultStateId(id([2, 0, 0, 5]))])
    );
    assert_eq!(
        of("4 1 1 0 0 5", "0 2 0 0 5"),
        (vec![ArgumentStateId(one)], vec![ResultStateId(id([2, 0, 0, 5]))])
    );
    assert_eq!(of("20 1 0 0 5 1", "0 2 0 0 5").0, [ArgumentStateId(one)]);
    assert_eq!(of("8 2 0 0 6", "0"), (vec![ArgumentStateId(two)], vec![]));
    assert_eq!(of("56 256 6", "0 1 2 0 0 6 0 0 0 7 'who'").1, [Delegation { id: two, writes: false }]);
    let directory = of("46 0 1 63 #12 #12 0 0", "0 0 #8 2 0 0 6 1 63 0 0");
    assert_eq!(directory.1, [Delegation { id: two, writes: false }]);
}

#[test]
fn lock_and_stateid_facts_are_found() {
    use FactKind::*;
    let (one, two) = (id([1, 0, 0, 5]), id([2, 0, 0, 6]));
    let (arguments, results) = of("12 2 0 h0 h9 1 1 1 0 0 5 1 h7 'owner'", "0 2 0 0 6");
    let [ArgumentStateId(open), Lock { kind: 2, owner: Some(owner), reclaims: false }] = arguments[..] else {
        panic!("{arguments:?}")
    };
    assert_eq!((open, results), (one, vec![ResultStateId(two)]));
    let (again, _) = of("12 1 0 h8 h9 1 1 1 0 0 5 1 h7 'other'", "0 2 0 0 6");
    let [_, Lock { kind: 1, owner: Some(other), reclaims: false }] = again[..] else { panic!("{again:?}") };
    assert_ne!(owner, other);
    let (arguments, _) = of("12 1 1 h0 h9 0 2 0 0 6 1", "10010 h0 h9 2 h7 'owner'");
    assert_eq!(arguments, [ArgumentStateId(two), Lock { kind: 1, owner: None, reclaims: true }]);
    assert_eq!(
        of("14 1 1 2 0 0 6 h0 h9", "0 3 0 0 6"),
        (vec![ArgumentStateId(two)], vec![ResultStateId(id([3, 0, 0, 6]))])
    );
    for (arguments, results) in [
        ("25 1 0 0 5 h0 5", "0 1 'bytes'"),
        ("34 1 0 0 5 1 2 'mode'", "0 1 2"),
        ("38 1 0 0 5 h0 2 'bytes'", "0 5 2 #8"),
        ("45 1 0 0 5", "0"),
        ("59 1 0 0 5 h0 h9", "0"),
        ("62 1 0 0 5 h0 h9", "0"),
        ("63 1 0 0 5 h0 h9 1 4", "0 1 4"),
        ("64 h0 h9 1 0 0 5 0", "0"),
        ("65 h0 h9 1 0 0 5 h1 h2 h3 h4 #16 4 'update'", "0"),
        ("66 1 0 0 5", "0"),
        ("67 1 0 0 5", "0 h9 0"),
        ("68 1 0 0 5 h0 4096", "0 1 0"),
        ("69 1 0 0 5 h0 1", "0 0 h4096"),
    ] {
        assert_eq!(of(arguments, results), (vec![ArgumentStateId(one)], vec![]), "{arguments}");
    }
    assert_eq!(of("71 1 0 0 5 2 0 0 6 h0 h4 h9", "0").0, [ArgumentStateId(one), ArgumentStateId(two)]);
    assert_eq!(
        of("61 1 0 0 5 3 'rdma' '10.0.0.1.8.1'", "0 #12 2 0 0 6 0"),
        (vec![ArgumentStateId(one)], vec![ResultStateId(two)])
    );
    // The second of three is bad.
    let tested = of("55 3 1 0 0 5 2 0 0 6 1 0 0 5", "0 3 0 10025 0");
    assert_eq!(
        tested,
        (
            vec![ArgumentStateId(one), ArgumentStateId(two), ArgumentStateId(one)],
            vec![Tested { index: 1, status: 10025 }]
        )
    );
}

#[test]
fn layout_and_offload_facts_are_found() {
    use FactKind::*;
    let (one, two) = (id([1, 0, 0, 5]), id([2, 0, 0, 6]));
    let got = of("50 0 1 2 h0 h9 h1 1 0 0 5 4096", "0 1 2 0 0 6 1 h0 h4 1 1 'body'");
    assert_eq!(got, (vec![Layout { mode: 2, extent: 1 }, ArgumentStateId(one)], vec![ResultStateId(two)]));
    let left = of("51 0 1 3 1 h0 h9 2 0 0 6 'body'", "0 1 3 0 0 6");
    assert_eq!(
        left,
        (vec![Layout { mode: 3, extent: 1 }, ArgumentStateId(two)], vec![ResultStateId(id([3, 0, 0, 6]))])
    );
    assert_eq!(of("51 0 1 3 3", "0 0"), (vec![Layout { mode: 3, extent: 3 }], vec![NoLayoutLeft]));
    assert_eq!(of("49 h0 h9 0 2 0 0 6 0 0 1 ''", "0 0").0, [ArgumentStateId(two)]);

    let copy = "60 1 0 0 5 2 0 0 6 h0 h4 h9 0 0 0";
    assert_eq!(
        of(copy, "0 1 7 0 0 7 h0 0 #8 1 0"),
        (vec![ArgumentStateId(one), ArgumentStateId(two)], vec![OffloadStateId(id([7, 0, 0, 7]))])
    );
    assert_eq!(of(copy, "0 0 h9 2 #8 1 1").1, []);
    let back = |text: &str| facts(&called(CB_COMPOUND, &format!("'' 2 0 1 {text}"), &[]));
    assert_eq!(back("15 'handle' 1 0 0 5 28 h4"), [ArgumentStateId(one), OffloadStatus(28)]);
    assert_eq!(back("15 'handle' 1 0 0 5 0 0 h9 2 #8"), [ArgumentStateId(one), OffloadStatus(0)]);
    assert_eq!(back("4 1 0 0 5 0 'handle'"), [ArgumentStateId(one)]);
    assert_eq!(
        back("5 1 3 0 1 'handle' h0 h9 1 0 0 5"),
        [Layout { mode: 3, extent: 1 }, ArgumentStateId(one)]
    );
    assert_eq!(back("5 1 3 0 3"), [Layout { mode: 3, extent: 3 }]);
    assert_eq!(back("7 'handle' 2 2 0 0 6 0 1 h9 0 0 7 'who'"), [Delegation { id: two, writes: true }]);
}

#[test]
fn facts_name_their_operations_and_are_cleared_with_them() {
    // SEQUENCE, PUTFH, CLOSE, then READ.
    let mut details = called(COMPOUND, "'' 1 4 53 #16 1 0 0 1 22 'handle' 4 1 1 0 0 5 25 1 0 0 6 h0 5", &[]);
    let places = |details: &Details| details.states.iter().map(|fact| fact.operation).collect::<Vec<_>>();
    assert_eq!(places(&details), [2, 3]);
    answered(COMPOUND, &mut details, "10025 '' 4 53 0 #16 1 0 0 9 0 22 0 4 0 2 0 0 5 25 10025", &[]);
    assert_eq!(places(&details), [2, 2, 3], "those of the result of CLOSE are beside its arguments");
    details.clear();
    assert!(details.states.is_empty());
    // A result for another operation belongs to no operation of the call.
    let mut details = called(COMPOUND, "'' 0 1 24", &[]);
    answered(COMPOUND, &mut details, "0 '' 1 4 0 2 0 0 5", &[]);
    assert_eq!(places(&details), []);
}

#[test]
fn facts_are_bounded() {
    let many = StateFact::MOST + 10;
    // TEST_STATEID with this many stateids, all bad.
    let ids = " 1 0 0 5".repeat(many);
    let mut details = called(COMPOUND, &format!("'' 1 1 55 {many}{ids}"), &[]);
    answered(COMPOUND, &mut details, &format!("0 '' 1 55 0 {many}{}", " 10025".repeat(many)), &[]);
    assert_eq!(details.states.len(), StateFact::MOST);
    // Operations that are not stored have no facts.
    let many = Details::MOST_OPERATIONS + 10;
    let details = called(COMPOUND, &format!("'' 1 {many}{}", " 8 1 0 0 5".repeat(many)), &[]);
    assert_eq!(details.states.len(), Details::MOST_OPERATIONS.min(StateFact::MOST));
    assert!(size_of::<StateFact>() <= 32, "{}", size_of::<StateFact>());
    // A count that exceeds the bytes is malformed.
    let stream = xdr("'' 1 1 55 4294967295 1 0 0 5");
    let mut details = Details::default();
    assert!(call(COMPOUND, &mut Payload::new(&stream, Chunks::Read(&[])), &mut details).is_err());
    assert!(details.states.is_empty());
}

proptest! {
    /// For any bytes, the facts belong to stored operations and are bounded.
    #[test]
    fn facts_of_arbitrary_bytes_are_bounded(
        code in 0u32..80,
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        zeros in any::<bool>(),
    ) {
        let mut stream = xdr(&format!("'' 1 3 {code}"));
        // Small numbers reach more code than random ones.
        stream.extend(bytes.iter().enumerate().map(|(at, byte)| if zeros && at % 4 < 3 { 0 } else { byte % 8 }));
        for procedure in [COMPOUND, CB_COMPOUND] {
            let mut details = Details::default();
            let _ = call(procedure, &mut Payload::new(&stream, Chunks::Read(&[])), &mut details);
            let _ = reply(procedure, &mut Payload::new(&stream, Chunks::Write(&[])), &mut details);
            prop_assert!(details.states.len() <= StateFact::MOST);
            prop_assert!(details.states.is_sorted_by_key(|fact| fact.operation));
            for fact in &details.states {
                prop_assert!(usize::from(fact.operation) < details.operations.len());
            }
        }
    }
}
