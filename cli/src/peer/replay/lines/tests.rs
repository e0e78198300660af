//! Lines of a replay, as JSON.

use super::*;
use rdmascope_present::json::Json as _;

#[test]
fn line_with_all_fields() {
    let line = Replayed {
        connection: 1,
        transaction: Some(2),
        direction: Some("backward"),
        xid: Some(Xid(3)),
        name: Some("NFSv3 READ".to_owned()),
        verdict: "differs",
        own: 4,
        understood: false,
        differences: vec![Difference {
            kind: "content",
            operation: Some("GETATTR".to_owned()),
            field: "size".to_owned(),
            recorded: "5".to_owned(),
            live: "6".to_owned(),
            section: None,
        }],
        may_differ: vec![Difference {
            kind: "conveyance",
            operation: None,
            field: "Reply chunk".to_owned(),
            recorded: "8".to_owned(),
            live: "none".to_owned(),
            section: Some("rfc8166/4.3.3"),
        }],
        reason: Some("why".to_owned()),
        unknown: vec![Unknown { field: "handle", bytes: "0a".to_owned() }],
        latency_ns: Some(7),
    };
    assert_eq!(
        REPLAYED.of(&line).to_json(),
        r#"{"type":"peer_replayed","connection":1,"transaction":2,"direction":"backward","xid":"0x00000003","name":"NFSv3 READ","verdict":"differs","own":4,"understood":false,"differences":[{"kind":"content","operation":"GETATTR","field":"size","recorded":"5","live":"6","section":null}],"may_differ":[{"kind":"conveyance","operation":null,"field":"Reply chunk","recorded":"8","live":"none","section":"rfc8166/4.3.3"}],"reason":"why","unknown":[{"field":"handle","bytes":"0a"}],"latency_ns":7}"#
    );
}

#[test]
fn summary_line() {
    let mut summary = Summary {
        calls: 1,
        agree: 2,
        differ: 3,
        unanswered: 4,
        not_compared: 5,
        not_sent: 6,
        skipped: 16,
        granted_differ: 17,
        ..Summary::default()
    };
    (summary.not_understood, summary.own, summary.connections_differ) = (7, 8, 9);
    (summary.conveyance_differ, summary.conveyance_may_differ) = (14, 15);
    summary.counts = Counts { sent: 10, good: 11, bad: 12, unverified: 13, ..Counts::default() };
    assert_eq!(
        REPLAY_END.of(&summary).to_json(),
        r#"{"type":"peer_replay_end","calls":1,"agree":2,"differ":3,"unanswered":4,"not_compared":5,"not_sent":6,"skipped":16,"not_understood":7,"own":8,"granted_differ":17,"conveyance_differ":14,"conveyance_may_differ":15,"connections_differ":9,"sent":10,"icrc_good":11,"icrc_bad":12,"icrc_unverified":13}"#
    );
}

#[test]
fn summary_counts_one_connection() {
    let summary = Summary { calls: 1, connections_differ: 1, ..Summary::default() };
    let mut text = Vec::new();
    print_summary(&summary, Format::Text, Style::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("1 call: 0 agree, 0 differ; 1 connection differs\n"), "{text}");
}
