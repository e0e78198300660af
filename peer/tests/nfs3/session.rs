//! Jobs of the client on the export, over two peers.

use md5::{Digest, Md5};
use rdmascope_peer::endpoint::{self, ConnectionId};
use rdmascope_peer::nfs3::{
    CallError, Caller, Export, Handle, Job, Limits, Outcome, Procedure, Status, Task, Time,
};
use rdmascope_peer::pair::{Network, Pair};
use rdmascope_peer::peer::{Config, Event, Peer};
use rdmascope_peer::random::Random;
use rdmascope_peer::rpcrdma;
use rdmascope_wire::Xid;

const NOW: Time = Time { seconds: 1_700_000_000, nanoseconds: 5 };

struct Bench {
    pair: Pair<Peer>,
    a: ConnectionId,
    b: ConnectionId,
    export: Export,
    root: Handle,
    caller: Caller,
    /// Replies in a Reply chunk, calls with Read chunks, replies with an item in a Write chunk.
    by_chunk: [u32; 3],
}

impl Bench {
    fn new(seed: u64, network: Network) -> Bench {
        let mut pair =
            Pair::new(Peer::new(Config::default(), seed), Peer::new(Config::default(), seed + 1), seed);
        pair.network = network;
        assert!(pair.b.listen(20049));
        let a = pair.a.connect(pair.address_a, pair.address_b, 20049).unwrap();
        let b = loop {
            assert!(pair.step());
            let event = pair.b.poll_event();
            if let Some(Event::Endpoint(endpoint::Event::Connected { connection })) = event {
                break connection;
            }
        };
        let export =
            Export::new(Limits { most_bytes: 4 << 20, most_file: 3 << 20, ..Limits::default() }, 0xfeed, NOW);
        let (root, caller) = (export.root(), Caller::new(Xid(0x1000), 1000, 1000));
        Bench { pair, a, b, export, root, caller, by_chunk: [0; 3] }
    }

    fn run(&mut self, job: Job, piece: u32) -> Result<Outcome, CallError> {
        let mut task = Task::new(self.caller.clone(), self.root.clone(), job, piece);
        while task.outcome().is_none() {
            if let Some(call) = task.poll() {
                self.pair.a.call(self.a, call).unwrap();
            }
            assert!(self.pair.step());
            while let Some(event) = self.pair.b.poll_event() {
                if let Event::Rpc { event: rpcrdma::Event::Called(called), .. } = event {
                    self.by_chunk[1] += u32::from(!called.items.is_empty());
                    let answer = self.export.call(&called.message, NOW).unwrap();
                    let item = answer.item.as_ref().is_some_and(|item| !item.is_empty());
                    self.by_chunk[2] += u32::from(item && !called.write_chunks.is_empty());
                    self.pair.b.reply(self.b, called.xid, answer.into()).unwrap();
                }
            }
            while let Some(event) = self.pair.a.poll_event() {
                if let Event::Rpc { event, .. } = event {
                    if let rpcrdma::Event::Replied(replied) = &event {
                        self.by_chunk[0] += u32::from(!replied.conveyance.is_inline());
                    }
                    task.handle(&event);
                }
            }
        }
        let (outcome, caller) = task.finish().unwrap();
        self.caller = caller;
        outcome
    }
}

fn path(path: &str) -> Vec<u8> {
    path.as_bytes().to_vec()
}

fn digest(bytes: &[u8]) -> String {
    format!("{:x}", Md5::digest(bytes))
}

fn work(network: Network, seed: u64) -> u64 {
    let mut bench = Bench::new(seed, network);
    let mut random = Random::new(seed);
    let bytes: Vec<u8> = (0..1 << 20).map(|_| random.number() as u8).collect();
    let written = bench.run(Job::Write { path: path("big"), bytes: bytes.clone() }, 60_001);
    assert_eq!(written, Ok(Outcome::Written));
    assert_eq!(digest(bench.export.bytes(b"big").unwrap()), digest(&bytes));
    assert_eq!(bench.by_chunk, [0, 18, 0]);
    // 18 WRITEs of at most 60,001 bytes, and 18 READs; the last one reaches the end.
    let Ok(Outcome::Read(read)) = bench.run(Job::Read { path: path("/big") }, 60_001) else { panic!() };
    assert_eq!(digest(&read), digest(&bytes));
    assert_eq!(bench.by_chunk, [0, 18, 18]);
    for number in 0..300 {
        bench.export.put(format!("a-name-that-is-not-short-{number:03}").as_bytes(), b"x", NOW).unwrap();
    }
    let Ok(Outcome::Listed(names)) = bench.run(Job::List { path: path("/") }, 4096) else { panic!() };
    let listed: Vec<String> =
        names.iter().map(|entry| String::from_utf8(entry.name.clone()).unwrap()).collect();
    let expected = [".", "..", "big"].map(str::to_owned).into_iter();
    let expected = expected.chain((0..300).map(|number| format!("a-name-that-is-not-short-{number:03}")));
    assert_eq!(listed, expected.collect::<Vec<_>>());
    assert_eq!(names[2].attributes.unwrap().size, 1 << 20);
    assert!(bench.by_chunk[0] > 0, "no Reply chunk was used");
    assert_eq!(bench.run(Job::Remove { path: path("big") }, 1), Ok(Outcome::Removed));
    let gone = Err(CallError::Status(Procedure::Lookup, Status::NoEnt));
    assert_eq!(bench.run(Job::Read { path: path("big") }, 1), gone);
    assert!(bench.export.bytes(b"big").is_none());
    bench.pair.run();
    for (peer, connection) in [(&bench.pair.a, bench.a), (&bench.pair.b, bench.b)] {
        assert!(peer.endpoint().queue_pair(connection).unwrap().memory().is_empty());
    }
    bench.pair.sent
}

#[test]
fn jobs_complete_over_a_good_network() {
    work(Network::GOOD, 1);
}

#[test]
fn jobs_complete_over_a_bad_network() {
    let good = work(Network::GOOD, 2);
    for seed in 2..6 {
        let network = Network { loss: 10, duplication: 10, corruption: 5, reordering: 20, ..Network::GOOD };
        // A packet was lost and retransmitted.
        assert!(work(network, seed) > good);
    }
}

#[test]
fn files_beyond_the_limits_are_refused() {
    let mut bench = Bench::new(9, Network::GOOD);
    let too_big = Job::Write { path: path("f"), bytes: vec![1; (3 << 20) + 1] };
    assert_eq!(bench.run(too_big, 1 << 20), Err(CallError::Status(Procedure::Write, Status::FBig)));
    assert_eq!(bench.export.bytes(b"f").unwrap().len(), 3 << 20);
    let too_much = Job::Write { path: path("g"), bytes: vec![2; (1 << 20) + 1] };
    assert_eq!(bench.run(too_much, 1 << 20), Err(CallError::Status(Procedure::Write, Status::NoSpc)));
    assert_eq!(bench.run(Job::Remove { path: path("f") }, 1), Ok(Outcome::Removed));
    let fits = Job::Write { path: path("g"), bytes: vec![3; 2 << 20] };
    assert_eq!(bench.run(fits, 1 << 20), Ok(Outcome::Written));
}

#[test]
fn files_are_stored_and_listed_by_path() {
    let mut export = Export::new(Limits { most_names: 40, ..Limits::default() }, 1, NOW);
    for (path, bytes) in [("b", "1"), ("/a/x", "22"), ("a//y/", "333"), ("a/c/d", ""), ("b", "4444")] {
        export.put(path.as_bytes(), bytes.as_bytes(), NOW).unwrap();
    }
    let found = |export: &Export| -> Vec<(String, usize)> {
        export.files().map(|(path, bytes)| (String::from_utf8(path).unwrap(), bytes.len())).collect()
    };
    let expected =
        [("a/c/d", 0), ("a/x", 2), ("a/y", 3), ("b", 4)].map(|(path, length)| (path.to_owned(), length));
    assert_eq!(found(&export), expected);
    assert_eq!(
        (export.bytes(b"a/y"), export.bytes(b"/a"), export.bytes(b"a/z")),
        (Some(&b"333"[..]), None, None)
    );
    assert_eq!(export.put(b"", b"", NOW), Err(Status::Inval));
    // RFC 1813, section 3.3.2: the size of a directory cannot be set.
    assert_eq!(export.put(b"a", b"", NOW), Err(Status::Inval));
    assert_eq!(export.put(b"b/c", b"", NOW), Err(Status::NotDir));
    // Directories are not listed as files; existing objects stay.
    for path in ["", "a", "/a/c/", "e", "f/g"] {
        assert_eq!(export.make_directory(path.as_bytes(), NOW), Ok(()), "{path}");
    }
    assert_eq!(export.make_directory(b"b", NOW), Err(Status::NotDir));
    assert_eq!(export.make_directory(b"b/c", NOW), Err(Status::NotDir));
    assert_eq!(found(&export), expected);
    // They exist: a file cannot get their names.
    assert_eq!(["e", "f", "f/g"].map(|path| export.put(path.as_bytes(), b"", NOW)), [Err(Status::Inval); 3]);
    // Longer than `MOST_FILE_PATH`: 18 names of 255 bytes.
    export.put([&[b'n'; 255][..]; 18].join(&b'/').as_slice(), b"deep", NOW).unwrap();
    assert_eq!(found(&export), expected);
}
