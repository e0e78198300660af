use super::*;

/// The ends of the lifetimes of a kind, with the frames of their ends, in the order of their numbers.
fn ends_of(kind: Kind, found: &[Lifetime]) -> Vec<(End, Option<u64>)> {
    let mut found: Vec<&Lifetime> = found.iter().filter(|one| one.kind == kind).collect();
    found.sort_by_key(|one| one.number);
    found.iter().map(|one| (one.end, one.ended.map(|at| at.frame))).collect()
}

const OPEN: (End, Option<u64>) = (End::Open, None);

fn closed(frame: u64) -> (End, Option<u64>) {
    (End::Closed, Some(frame))
}

/// Opens the file with the stateid `id`, and locks a range of it with the stateid `lock`.
fn open_and_lock(capture: &mut Capture, id: u32, lock: u32) {
    let opened = format!("22 0;18 0 1 0 0 {id} 0 h0 h0 4 0 0");
    capture.on("22 'file';18 1 1 0 h7 'owner' 0 4", &opened);
    let call = format!("22 'file';12 2 0 h0 h9 1 1 1 0 0 {id} 1 h7 'owner'");
    capture.on(&call, &format!("22 0;12 0 1 0 0 {lock}"));
}

#[test]
fn a_close_ends_the_locks_of_its_open_only() {
    let mut capture = Capture::new(1);
    capture.mounted();
    (0..4).for_each(|at| open_and_lock(&mut capture, 20 + at, 30 + at));
    // One lock is unlocked before. Another one is refused, and then used.
    capture.on("22 'file';14 2 1 1 0 0 32 h0 h9", "22 0;14 0 2 0 0 32");
    capture.on("22 'file';25 1 0 0 31 h0 5", "22 0;25 10025");
    capture.on("22 'file';25 1 0 0 31 h0 5", "22 0;25 0 1 'bytes'");
    for id in [21, 22, 23] {
        capture.on(&format!("22 'file';4 1 1 0 0 {id}"), &format!("22 0;4 0 2 0 0 {id}"));
    }
    let (found, _) = capture.end();
    assert_eq!(ends_of(Kind::Open, &found), [OPEN, closed(142), closed(152), closed(162)]);
    let unlocked = (End::Unlocked, Some(112));
    assert_eq!(ends_of(Kind::Lock, &found), [OPEN, closed(142), unlocked, closed(162)]);
}
