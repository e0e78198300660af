//! Arbitrary bytes cause no panic, and every call with a readable RPC header gets a readable reply.

use proptest::prelude::*;
use rdmascope_peer::nfs3::mount::{MOST_MESSAGE, Records, Services, marked, mounted, port};
use rdmascope_peer::nfs3::{
    CallError, Caller, Entry, Export, Handle, Job, Limits, Operation, Outcome, SetAttributes, SetTime,
    Stable, Task, Time,
};
use rdmascope_peer::rpcrdma::{Conveyance, Event, Replied};
use rdmascope_wire::xdr::Reader;
use rdmascope_wire::{Layer, Xid, rpc};

const LIMITS: Limits = Limits { most_names: 12, most_file: 3000, most_bytes: 5000 };

fn export() -> Export {
    let mut export = Export::new(LIMITS, 1, Time::default());
    for name in [&b"f"[..], b"g"] {
        export.put(name, b"some bytes", Time::default()).unwrap();
    }
    export
}

/// Builds an AUTH_SYS call with these arguments.
fn call(program: u32, version: u32, procedure: u32, arguments: &[u8]) -> Vec<u8> {
    let mut message = Caller::new(Xid(7), 0, 0).call(&Operation::Null).message;
    for (at, word) in [(12, program), (16, version), (20, procedure)] {
        message[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }
    message.extend_from_slice(arguments);
    message
}

/// Parses a reply and returns its status.
fn status(reply: &[u8]) -> rpc::Status {
    rpc::Reply::parse(&mut Reader::new(reply, Layer::Rpc)).unwrap().status
}

fn handle() -> impl Strategy<Value = Handle> {
    let known = (0u64..8).prop_map(|id| [1u64.to_be_bytes(), id.to_be_bytes()].concat());
    prop_oneof![9 => known, 1 => proptest::collection::vec(any::<u8>(), 0..=64)]
        .prop_map(|bytes| Handle::new(&bytes).unwrap())
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let names = ["f", "g", "h", "d", ".", "..", "", "a/b"].map(|name| name.as_bytes().to_vec());
    prop_oneof![8 => proptest::sample::select(names.to_vec()), 1 => proptest::collection::vec(any::<u8>(), 0..300)]
}

fn set() -> impl Strategy<Value = SetAttributes> {
    let numbers = any::<[Option<u32>; 3]>();
    (numbers, proptest::option::of(prop_oneof![0u64..4000, any::<u64>()]), 0..3, any::<u32>()).prop_map(
        |(numbers, size, how, seconds)| SetAttributes {
            mode: numbers[0],
            uid: numbers[1],
            gid: numbers[2],
            size,
            accessed: [SetTime::Keep, SetTime::Server, SetTime::Client(Time { seconds, nanoseconds: 0 })]
                [how as usize],
            modified: SetTime::Keep,
        },
    )
}

fn operation() -> impl Strategy<Value = Operation> {
    let offset = || prop_oneof![0u64..4000, any::<u64>()];
    let bytes = || proptest::collection::vec(any::<u8>(), 0..2000);
    prop_oneof![
        handle().prop_map(|object| Operation::Getattr { object }),
        (handle(), set()).prop_map(|(object, set)| Operation::Setattr { object, set }),
        (handle(), name()).prop_map(|(directory, name)| Operation::Lookup { directory, name }),
        handle().prop_map(|link| Operation::Readlink { link }),
        (handle(), offset(), any::<u32>()).prop_map(|(file, offset, count)| Operation::Read {
            file,
            offset,
            count
        }),
        (handle(), offset(), bytes()).prop_map(|(file, offset, data)| Operation::Write {
            file,
            offset,
            stable: Stable::Unstable,
            data
        }),
        (handle(), name(), set()).prop_map(|(directory, name, set)| Operation::Create {
            directory,
            name,
            set
        }),
        (handle(), name(), set()).prop_map(|(directory, name, set)| Operation::Mkdir {
            directory,
            name,
            set
        }),
        (handle(), name(), bytes()).prop_map(|(directory, name, path)| Operation::Symlink {
            directory,
            name,
            path
        }),
        (handle(), name()).prop_map(|(directory, name)| Operation::Remove { directory, name }),
        (handle(), name()).prop_map(|(directory, name)| Operation::Rmdir { directory, name }),
        ((handle(), name()), (handle(), name())).prop_map(|(from, to)| Operation::Rename { from, to }),
        (handle(), handle(), name()).prop_map(|(file, directory, name)| Operation::Link {
            file,
            directory,
            name
        }),
        (handle(), offset(), any::<u64>(), any::<u32>()).prop_map(|(directory, cookie, verifier, count)| {
            Operation::Readdir { directory, cookie, verifier, count }
        }),
        (handle(), 0u64..20, 0u64..3, 0u32..5000).prop_map(|(directory, cookie, verifier, count)| {
            Operation::Readdirplus { directory, cookie, verifier, count }
        }),
        handle().prop_map(|root| Operation::Fsinfo { root }),
        (handle(), offset(), any::<u32>()).prop_map(|(file, offset, count)| Operation::Commit {
            file,
            offset,
            count
        }),
    ]
}

fn replied(message: Vec<u8>, items: Vec<Vec<u8>>) -> Replied {
    Replied { xid: Xid(7), message, items, conveyance: Conveyance::default(), credits: 1 }
}

/// Visits all names below a directory, and looks up each of them.
fn walk(export: &mut Export, directory: &Handle, depth: u32) -> usize {
    assert!(depth <= 14, "a circle of directories");
    let operation =
        Operation::Readdirplus { directory: directory.clone(), cookie: 0, verifier: 0, count: 1 << 16 };
    let answer = export.call(&Caller::new(Xid(7), 0, 0).call(&operation).message, Time::default()).unwrap();
    let Ok(rdmascope_peer::nfs3::Results::Names { entries, is_end: true, .. }) =
        operation.results(&replied(answer.message, vec![]))
    else {
        panic!()
    };
    let mut names = 0;
    for Entry { name, handle, attributes, .. } in entries {
        if name != b"." && name != b".." {
            let attributes = attributes.expect("each listed name has attributes");
            let is_directory = attributes.kind == rdmascope_peer::nfs3::FileType::Directory;
            assert!(attributes.links >= if is_directory { 2 } else { 1 });
            names += 1 + if is_directory { walk(export, &handle.unwrap(), depth + 1) } else { 0 };
        }
    }
    names
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_bytes_as_a_call_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (mut export, services) = (export(), services());
        export.call(&bytes, Time::default());
        services.call(&bytes);
        let mut records = Records::default();
        records.push(&bytes);
        while let Ok(Some(_)) = records.message() {}
    }

    #[test]
    fn arbitrary_arguments_get_a_readable_reply(procedure in 0u32..23, arguments in proptest::collection::vec(any::<u8>(), 0..200)) {
        let answer = export().call(&call(100_003, 3, procedure, &arguments), Time::default()).unwrap();
        status(&answer.message);
        for program in [100_000, 100_005] {
            for version in 2..5 {
                status(&services().call(&call(program, version, procedure, &arguments)).unwrap());
            }
        }
    }

    #[test]
    fn truncated_or_changed_arguments_get_a_readable_reply(operation in operation(), cut in 0usize..200, changed in any::<(usize, u8)>()) {
        let complete = Caller::new(Xid(7), 0, 0).call(&operation).message;
        let (mut export, header) = (export(), call(0, 0, 0, &[]).len());
        let shorter = &complete[..complete.len().saturating_sub(1 + cut).max(header)];
        let answer = export.call(shorter, Time::default()).unwrap();
        prop_assert_eq!(status(&answer.message), rpc::Status::GarbageArguments);
        let mut other = complete;
        let at = header + changed.0 % (other.len() - header);
        other[at] = changed.1;
        let answer = export.call(&other, Time::default()).unwrap();
        status(&answer.message);
    }

    #[test]
    fn random_operations_leave_a_consistent_file_system(work in proptest::collection::vec((operation(), any::<bool>()), 1..60)) {
        let mut export = export();
        for (number, (operation, is_root)) in work.iter().enumerate() {
            let uid = if *is_root { 0 } else { 1000 };
            let call = Caller::new(Xid(number as u32), uid, uid).call(operation);
            let answer = export.call(&call.message, Time::default()).unwrap();
            if let Some(item) = &answer.item {
                // The count precedes the item.
                let count = u32::from_be_bytes(answer.message[item.start - 4..item.start].try_into().unwrap());
                prop_assert_eq!(count as usize, item.len());
                prop_assert_eq!(answer.message.len(), item.end.next_multiple_of(4));
            }
            prop_assert!(answer.message.len() <= call.most_reply as usize + answer.item.clone().map_or(0, |item| item.len() + 3));
            match operation.results(&replied(answer.message, vec![])) {
                Ok(_) | Err(CallError::Status(..)) => {}
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
        let root = export.root();
        let names = walk(&mut export, &root, 0);
        prop_assert!(names <= LIMITS.most_names);
    }

    #[test]
    fn arbitrary_replies_cause_no_panic(
        job in 0..4,
        replies in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..300), any::<bool>()), 1..8),
    ) {
        let path = b"d/f".to_vec();
        let job = match job {
            0 => Job::Read { path },
            1 => Job::Write { path, bytes: vec![1; 5000] },
            2 => Job::List { path },
            _ => Job::Remove { path },
        };
        let mut task = Task::new(Caller::new(Xid(7), 0, 0), export().root(), job, 4096);
        for (bytes, is_success) in replies {
            let Some(call) = task.poll() else { break };
            let xid = call.xid().unwrap();
            // A header with SUCCESS and NFS3_OK, or arbitrary bytes.
            let front: &[u32] = if is_success { &[xid.0, 1, 0, 0, 0, 0, 0] } else { &[xid.0, 1] };
            let mut message: Vec<u8> = front.iter().flat_map(|word| word.to_be_bytes()).collect();
            message.extend_from_slice(&bytes);
            mounted(xid, &message).ok();
            port(xid, &message).ok();
            task.handle(&Event::Replied(Replied { xid, ..replied(message, vec![bytes]) }));
        }
        if let Some(Ok(outcome)) = task.outcome() {
            prop_assert!(matches!(outcome, Outcome::Read(_) | Outcome::Written | Outcome::Removed | Outcome::Listed(_)));
        }
    }

    #[test]
    fn record_marking_round_trips(
        messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..6),
        piece in 1usize..40,
        split in 0usize..50,
    ) {
        let mut stream = Vec::new();
        for message in &messages {
            // Two fragments: the first mark lacks the last-fragment bit.
            let (first, last) = message.split_at(split.min(message.len()));
            stream.extend((first.len() as u32).to_be_bytes());
            stream.extend_from_slice(first);
            stream.extend(marked(last));
        }
        let (mut records, mut found) = (Records::default(), Vec::new());
        for piece in stream.chunks(piece) {
            records.push(piece);
            while let Some(message) = records.message().unwrap() {
                found.push(message);
            }
        }
        prop_assert_eq!(found, messages);
    }
}

#[test]
fn oversized_record_is_an_error() {
    let mut records = Records::default();
    records.push(&(1 << 31 | (MOST_MESSAGE as u32 + 1)).to_be_bytes());
    assert!(records.message().is_err());
}

fn services() -> Services {
    Services {
        path: b"/export".to_vec(),
        root: export().root(),
        address: [192, 0, 2, 2].into(),
        mount_port: 20048,
        nfs_port: 20049,
    }
}
