//! Requests that a server puts off.

use super::{Kind, SECOND, SessionEvent, events_of, events_within, follow, testkit};
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::report::{Harm, Report};
use rdmascope_testkit::messages::{
    WRITE_POSITION, call_to, compound, data, message, msg, nfs3, read_segment, reply, segment,
};
use rdmascope_testkit::world::World;
use rdmascope_wire::rpcrdma::Builder;

/// An NFSv3 READ of a file, and the answer with this status.
fn read(xid: u32, file: &str, status: u32) -> (Vec<u8>, Vec<u8>) {
    let results = if status == 0 { "0 0 5 1 'bytes'".to_owned() } else { format!("{status} 0") };
    (nfs3(xid, 6, &format!("'{file}' h0 5")), reply(xid, &results))
}

/// An RPC call, its reply, and the packets that acknowledge them.
fn call(world: &mut World, (call, reply): (Vec<u8>, Vec<u8>)) {
    let xid = u32::from_be_bytes(call[..4].try_into().expect("it begins with the XID"));
    world.send(testkit::CLIENT, &message(&msg(xid), &call));
    world.ack(testkit::SERVER);
    world.send(testkit::SERVER, &message(&msg(xid), &reply));
    world.ack(testkit::CLIENT);
}

const JUKEBOX: u32 = 10_008;

fn delayed(world: &World) -> Vec<SessionEvent> {
    events_of(world).into_iter().filter(|event| event.kind == Kind::CallDelayed).collect()
}

fn texts(world: &World) -> Vec<String> {
    delayed(world).into_iter().map(|event| event.text).collect()
}

/// Other calls are carried out meanwhile.
#[test]
fn a_request_that_is_put_off_waits() {
    let mut world = World::connected();
    world.getattr(1);
    let since = world.now;
    let frame = world.frames.len() as u64 + 1;
    for xid in 0..6 {
        call(&mut world, read(10 + xid, "tape", JUKEBOX));
        call(&mut world, read(20 + xid, "disk", 0));
        world.wait(5 * SECOND);
    }
    assert_eq!(
        texts(&world),
        [
            "NFSv3 READ waited 25.0s: server answered NFS3ERR_JUKEBOX (10008) 6 times; not carried out before the \
          capture ends"
        ]
    );
    call(&mut world, read(50, "tape", 0));
    let [event] = &delayed(&world)[..] else { panic!("{:#?}", events_of(&world)) };
    assert_eq!(event.text, "NFSv3 READ waited 30.0s: server answered NFS3ERR_JUKEBOX (10008) 6 times");
    assert_eq!((event.count, event.by_requester, event.other), (6, None, None));
    assert_eq!((event.time.0 >= since, event.frames[0]), (true, Some(frame)));
    assert!(events_of(&world).iter().all(|event| event.kind != Kind::ServiceLost));
}

/// The harm and the statements about a capture.
fn verdict(world: &World) -> Vec<(Harm, String)> {
    let mut report = Report::default();
    let totals = follow(world, usize::MAX, &mut report);
    let statements = report.verdict(&Ending { totals, ..Ending::default() }, 0);
    statements.into_iter().map(|statement| (statement.harm, statement.text)).collect()
}

/// The application sees no error.
#[test]
fn a_delay_is_a_wait_and_no_error() {
    let mut world = World::connected();
    call(&mut world, read(1, "tape", JUKEBOX));
    world.wait(SECOND / 2);
    let mut late = world.clone();
    call(&mut world, read(2, "tape", 0));
    let error = (Harm::Note, "NFSv3 READ failed with NFS3ERR_JUKEBOX (10008), 1 time".to_owned());
    assert_eq!(verdict(&world), std::slice::from_ref(&error));
    late.wait(SECOND);
    call(&mut late, read(2, "tape", 0));
    let wait = "NFSv3 READ waited 1.50s: server answered NFS3ERR_JUKEBOX (10008) 1 time";
    assert_eq!(verdict(&late), [(Harm::Waits, wait.to_owned()), error]);
}

/// A request that is carried out within a second did not wait, and one that the client sends again
/// much later is a new one.
#[test]
fn short_waits_and_new_requests_are_no_delay() {
    let mut world = World::connected();
    for xid in 1..4 {
        call(&mut world, read(10 * xid, "tape", JUKEBOX));
        world.wait(SECOND / 2);
        call(&mut world, read(10 * xid + 1, "tape", 0));
        world.wait(SECOND);
        call(&mut world, read(10 * xid + 2, "other", JUKEBOX));
        world.wait(60 * SECOND);
    }
    assert_eq!(texts(&world), [""; 0]);
}

/// A grace period concerns all opens of the client.
#[test]
fn requests_put_off_together_are_one_event() {
    let mut world = World::connected();
    let open = |xid: u32, name: &str, status: u32| {
        let call = compound(xid, &format!("2 22 'folder' 18 0 1 2 h7 'owner' 0 0 '{name}'"));
        let opened = "18 0 1 0 0 5 0 h0 h0 4 0 0 0";
        let result = if status == 0 { opened.to_owned() } else { format!("18 {status}") };
        (call, reply(xid, &format!("{status} '' 2 22 0 {result}")))
    };
    for round in 0..3 {
        for file in 0..4 {
            call(&mut world, open(100 * round + file, &format!("file{file}"), 10_013));
        }
        world.wait(5 * SECOND);
    }
    for file in 0..3 {
        call(&mut world, open(1000 + file, &format!("file{file}"), 0));
    }
    assert_eq!(
        texts(&world),
        [
            "4 NFSv4.1 OPEN requests waited, the longest 15.0s: server answered NFS4ERR_GRACE (10013) 12 times; 1 \
          not carried out before the capture ends"
        ]
    );
}

/// The client reconnects before it sends the request again.
#[test]
fn a_delay_lasts_over_a_reconnect() {
    let mut world = World::connected();
    call(&mut world, read(1, "tape", JUKEBOX));
    world.disconnect(testkit::CLIENT);
    world.wait(5 * SECOND);
    world.add([0x31, 0x42], [7_000, 900_000]);
    world.connect();
    call(&mut world, read(2, "tape", 0));
    let [event] = &delayed(&world)[..] else { panic!("{:#?}", events_of(&world)) };
    assert_eq!((event.connection.0, event.other.map(|id| id.0), event.count), (1, Some(2), 1));
}

/// Only NFS knows these statuses.
#[test]
fn an_equal_number_of_another_program_is_no_delay() {
    let mut world = World::connected();
    for xid in 1..4 {
        call(&mut world, (call_to(xid, [100_005, 3, 1], "'/export'"), reply(xid, "10008")));
        world.wait(5 * SECOND);
    }
    assert_eq!(texts(&world), [""; 0]);
}

/// A snap length that cuts file handles makes requests for different files look equal.
#[test]
fn requests_that_the_capture_cuts_are_not_taken_for_one() {
    let mut world = World::connected();
    for xid in 0..6 {
        call(&mut world, read(10 + xid, &format!("a-very-long-file-handle-{xid}"), JUKEBOX));
        world.wait(5 * SECOND);
    }
    for snap_length in 60..300 {
        let events = events_within(&world, snap_length);
        assert!(events.iter().all(|event| event.kind != Kind::CallDelayed), "{snap_length}: {events:#?}");
    }
}

/// Two owners wait for locks, one of them with an existing lock stateid. A LOCK that does not wait, and
/// one that is granted at once, are no wait.
#[test]
fn a_lock_that_another_owner_holds_is_waited_for() {
    let mut world = World::connected();
    let lock = |xid: u32, kind: u32, owner: &str, status: u32| {
        let call = compound(xid, &format!("2 22 'folder' 12 {kind} 0 h0 h9 {owner}"));
        let result = match status {
            0 => "1 #16".to_owned(),
            _ => "h0 h9 2 h7 'other'".to_owned(),
        };
        (call, reply(xid, &format!("{status} '' 2 22 0 12 {status} {result}")))
    };
    let new = |owner: u32| format!("1 1 #16 1 h7 'owner{owner}'");
    let old = "0 #16 1";
    const DENIED: u32 = 10_010;
    for round in 0..3 {
        for (place, (kind, owner)) in [(4, new(1)), (3, old.to_owned()), (2, new(2))].into_iter().enumerate()
        {
            call(&mut world, lock(10 * round + place as u32, kind, &owner, DENIED));
        }
        call(&mut world, lock(10 * round + 5, 4, &new(3), 0));
        world.wait(31 * SECOND);
    }
    call(&mut world, lock(50, 4, &new(1), 0));
    assert_eq!(
        texts(&world),
        ["2 NFSv4.1 LOCK requests waited, the longest 93.0s for a lock of another owner: server answered \
          NFS4ERR_DENIED (10010) 6 times; 1 not carried out before the capture ends"]
    );
}

/// Four WRITEs whose data takes 2.4 s to move. Between the second and the third, nothing moves for
/// `pause` nanoseconds.
fn slow_writes(pause: i64) -> World {
    let mut world = World::connected();
    world.getattr(1);
    world.wait(3 * SECOND);
    let memory = |xid: u32| segment(xid, 1_000, 0x1000);
    for xid in 2..6 {
        let header = Builder { reads: vec![read_segment(WRITE_POSITION, memory(xid))], ..msg(xid) };
        world.send(testkit::CLIENT, &message(&header, &nfs3(xid, 7, "'handle' h0 1000 2 1000")));
    }
    world.ack(testkit::SERVER);
    for xid in 2..6 {
        world.wait(if xid == 4 { pause } else { 6 * SECOND / 10 });
        world.read(testkit::SERVER, memory(xid), &data(1_000));
    }
    for xid in 2..6 {
        world.send(testkit::SERVER, &message(&msg(xid), &reply(xid, "0 0 0 1000 2 h0")));
    }
    world.ack(testkit::CLIENT);
    world
}

/// A slow link serves its calls. If nothing moves for a second, it does not.
#[test]
fn calls_whose_data_moves_are_not_without_service() {
    let lost = |pause| {
        let events = events_of(&slow_writes(pause)).into_iter();
        events.filter(|event| event.kind == Kind::ServiceLost).map(|event| event.text).collect::<Vec<_>>()
    };
    assert_eq!(lost(6 * SECOND / 10), [""; 0]);
    assert_eq!(lost(2 * SECOND), ["no reply for 3.80s while 4 calls waited"]);
}
