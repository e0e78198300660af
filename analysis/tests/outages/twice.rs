//! Requests that were carried out twice.

use super::{Kind, SECOND, events_of, testkit};
use rdmascope_testkit::messages::{compound, message, msg, nfs3, reply};
use rdmascope_testkit::world::World;

/// An NFSv3 REMOVE or MKDIR of a name.
fn request(xid: u32, procedure: u32, name: &str) -> Vec<u8> {
    let attributes = if procedure == 9 { "0 0 0 0 0 0" } else { "" };
    message(&msg(xid), &nfs3(xid, procedure, &format!("'folder' '{name}' {attributes}")))
}

/// A request, and its reply with this status.
fn call(world: &mut World, xid: u32, (procedure, name): (u32, &str), status: u32) {
    world.send(testkit::CLIENT, &request(xid, procedure, name));
    world.ack(testkit::SERVER);
    let results = if procedure == 9 && status == 0 { "0 0 0 0 0" } else { "0 0" };
    world.send(testkit::SERVER, &message(&msg(xid), &reply(xid, &format!("{status} {results}"))));
    world.ack(testkit::CLIENT);
}

/// A connection on which a request has no reply, and the next one.
fn reconnected(unanswered: &[u8]) -> World {
    let mut world = World::connected();
    world.getattr(1);
    world.send(testkit::CLIENT, unanswered);
    world.wait(4 * SECOND);
    world.disconnect(testkit::CLIENT);
    world.add([0x31, 0x42], [7_000, 900_000]);
    world.connect();
    world
}

fn texts(world: &World) -> Vec<String> {
    let events = events_of(world).into_iter();
    events.filter(|event| event.kind == Kind::CarriedOutTwice).map(|event| event.text).collect()
}

const NOENT: u32 = 2;
const EXIST: u32 = 17;

#[test]
fn a_request_that_was_carried_out_fails() {
    let said = "the same request had no reply 4.00s before, and may have been carried out then";
    for (procedure, status, text) in [
        (12, NOENT, "NFSv3 REMOVE failed with NFS3ERR_NOENT (2)"),
        (9, EXIST, "NFSv3 MKDIR failed with NFS3ERR_EXIST (17)"),
    ] {
        let mut world = reconnected(&request(2, procedure, "one"));
        let mut other = world.clone();
        call(&mut world, 3, (procedure, "one"), status);
        assert_eq!(texts(&world), [format!("{text}: {said}")]);
        // Another name, and another status.
        call(&mut other, 3, (procedure, "two"), status);
        call(&mut other, 4, (procedure, "one"), 13);
        assert_eq!(texts(&other), [""; 0]);
    }
}

/// The second request succeeded, and a third one fails.
#[test]
fn a_request_that_succeeded_in_between_was_not_carried_out() {
    let mut world = reconnected(&request(2, 12, "one"));
    call(&mut world, 3, (12, "one"), 0);
    call(&mut world, 4, (12, "one"), NOENT);
    assert_eq!(texts(&world), [""; 0]);
}

/// After a restart of the server, a client of NFSv4 asks again under another XID, in its grace period too.
#[test]
fn nfs4_requests_have_another_xid() {
    let remove = |xid: u32| message(&msg(xid), &compound(xid, "2 22 'folder' 28 'one'"));
    let mut world = reconnected(&remove(2));
    for (xid, status) in [(3, 10_013), (4, NOENT)] {
        world.send(testkit::CLIENT, &remove(xid));
        world.ack(testkit::SERVER);
        let results = reply(xid, &format!("{status} '' 2 22 0 28 {status}"));
        world.send(testkit::SERVER, &message(&msg(xid), &results));
        world.ack(testkit::CLIENT);
    }
    let found = texts(&world);
    assert!(
        found.len() == 1 && found[0].starts_with("NFSv4.1 REMOVE failed with NFS4ERR_NOENT (2)"),
        "{found:?}"
    );
}
