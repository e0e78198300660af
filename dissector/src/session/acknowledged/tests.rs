use super::*;
use rdmascope_wire::psn::Psn;

/// The PSNs of the Sends that wait, after one-packet Sends with these PSNs.
fn waiting(psns: &[u32]) -> Vec<u32> {
    let mut kept = Acknowledgements::default();
    for (frame, psn) in (1..).zip(psns) {
        let seen = Seen { frame, time: Time(0) };
        let send = Send {
            first: seen,
            seen,
            position: Psn::new(*psn).into(),
            extent: 1,
            bytes: &[],
            length: Some(0),
            missing: None,
            invalidated: None,
        };
        kept.note(&send, None, &Peers::new(0), &mut Transactions::default());
    }
    kept.waiting.iter().map(|waiting| waiting.last.number()).collect()
}

/// Sends wait in the order in which they were sent. A late Send is not added: later Sends may have
/// been acknowledged already. A larger distance than a sender can be ahead means that the queue
/// pair was reused.
#[test]
fn sends_wait_for_acks_in_order() {
    assert_eq!(waiting(&[10, 11, 15]), [10, 11, 15]);
    assert_eq!(waiting(&[10, 12, 11]), [10, 12]);
    assert_eq!(waiting(&[10, 12, 12]), [10, 12], "a repetition");
    assert_eq!(waiting(&[100_000, 100_000 - 65_536]), [100_000]);
    assert_eq!(waiting(&[100_000, 100_000 - 65_537]), [100_000 - 65_537]);
    assert_eq!(waiting(&[10, 10 + 65_536]), [10, 10 + 65_536]);
    assert_eq!(waiting(&[10, 10 + 65_537]), [10 + 65_537]);
}
