use super::*;
use crate::record::Time;
use alloc::vec;

/// A lane with a step for each first position, extent and first frame.
fn lane(steps: &[(u32, u32, u64)]) -> Lane {
    let mut lane = Lane::default();
    for (step, (psn, extent, frame)) in (0..).zip(steps) {
        let noted = NotedStep {
            of: StepOf { begun: 1, step },
            from: End::First,
            is_response: false,
            is_read_request: false,
            position: Psn::new(*psn).into(),
            extent: *extent,
            frame: *frame,
            is_new: true,
        };
        lane.note(&noted, 100);
    }
    lane
}

/// Positions may be reused, if a retransmission after a gap is another message. A packet belongs to
/// the step that covers its position and began last before it; if none began before it, to the step
/// that began first.
#[test]
fn packet_belongs_to_latest_step_covering_its_position() {
    let lane = lane(&[(10, 4, 5), (11, 4, 9), (12, 4, 20)]);
    for (psn, frame, step) in [
        (10, 7, Some(0)),
        (11, 5, Some(0)),
        (11, 8, Some(0)),
        (11, 9, Some(1)),
        (12, 30, Some(2)),
        (12, 15, Some(1)),
        (12, 3, Some(0)),
        (14, 3, Some(1)),
        (15, 30, Some(2)),
        (16, 30, None),
        (9, 30, None),
    ] {
        let found = lane.covering(Psn::new(psn).into(), frame);
        assert_eq!(found.map(|of| of.step), step, "PSN {psn}, frame {frame}");
    }
}

/// A segment without data is an acknowledgement even if it acknowledges nothing new. A segment with
/// data is not.
#[test]
fn duplicate_ack_is_attributed_only_without_data() {
    for (length, is_reported) in [(0, true), (8, false)] {
        let mut attribution = Attribution::default();
        let at = Position::of_sequence;
        let of = StepOf { begun: 1, step: 0 };
        let call = NotedStep {
            of,
            from: End::First,
            is_response: false,
            is_read_request: false,
            position: at(1000),
            extent: 100,
            frame: 1,
            is_new: true,
        };
        attribution.note(&call, Room::AMPLE);
        let seen = |frame| Seen { frame, time: Time(0) };
        for (frame, length) in [(2, 0), (3, length)] {
            attribution.take_segment(End::Second, seen(frame), (at(50), length), Some(at(1099)));
        }
        let mut roles = Vec::new();
        attribution.report(3, Room::AMPLE, |_, _, _| true, &mut |it| {
            roles.push((it.seen.frame, it.role, it.acknowledged.to_vec()));
        });
        let ack = Some(Role::Acknowledgement(of));
        let mut expected = vec![(2, ack, vec![of])];
        expected.extend(is_reported.then(|| (3, ack, vec![])));
        assert_eq!(roles, expected);
    }
}
