use super::netlink::{Answered, CmIdEntry, Command, Device, QpEntry, cm_ids, devices, queue_pairs, request};
use super::{Connected, connected, from_text, joined, to_text};

/// An attribute: length, type, value, padding.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend([2, 0]); // NLM_F_MULTI
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

const NESTED: u16 = 0x8000;

/// The client queue pair of the lab, as shown by `rdma resource show qp` in rdma-netlink.txt of the
/// prototype.
fn qp_answer() -> Vec<u8> {
    let entry: Vec<u8> = [
        attribute(3, &1u32.to_ne_bytes()),
        attribute(21, &17u32.to_ne_bytes()),
        attribute(22, &18u32.to_ne_bytes()),
        attribute(23, &11_400_384u32.to_ne_bytes()),
        attribute(24, &2_624_235u32.to_ne_bytes()),
        attribute(26, &[2]),
        attribute(27, &[3]),
        attribute(29, b"rdma_cm\0"),
        // An unknown attribute.
        attribute(99, b"?"),
    ]
    .concat();
    let gsi: Vec<u8> =
        [attribute(21, &1u32.to_ne_bytes()), attribute(26, &[1]), attribute(27, &[3])].concat();
    let table = [attribute(20 | NESTED, &entry), attribute(20 | NESTED, &gsi)].concat();
    let body =
        [attribute(1, &0u32.to_ne_bytes()), attribute(2, b"rxe0\0"), attribute(19 | NESTED, &table)].concat();
    message(5 << 10 | 10, &body)
}

fn cm_id_answer() -> Vec<u8> {
    // sockaddr_storage: family, port, address; 128 bytes.
    let address = |port: u16, last: u8| {
        let mut bytes = 2u16.to_ne_bytes().to_vec();
        bytes.extend(port.to_be_bytes());
        bytes.extend([10, 77, 0, last]);
        bytes.resize(128, 0);
        bytes
    };
    let entry = [
        attribute(3, &1u32.to_ne_bytes()),
        attribute(21, &17u32.to_ne_bytes()),
        attribute(29, b"rpcrdma\0"),
        attribute(33, &address(60_900, 2)),
        attribute(34, &address(20_049, 1)),
    ]
    .concat();
    let table = attribute(31 | NESTED, &entry);
    message(5 << 10 | 11, &[attribute(1, &0u32.to_ne_bytes()), attribute(30 | NESTED, &table)].concat())
}

#[test]
fn request_has_the_netlink_format() {
    let bytes = request(Command::QueuePairs, Some(7), 3);
    let mut expected = 24u32.to_ne_bytes().to_vec();
    expected.extend((5u16 << 10 | 10).to_ne_bytes());
    expected.extend(0x305u16.to_ne_bytes());
    expected.extend(3u32.to_ne_bytes());
    expected.extend(0u32.to_ne_bytes());
    expected.extend(attribute(1, &7u32.to_ne_bytes()));
    assert_eq!(bytes, expected);
    assert_eq!(request(Command::Devices, None, 1).len(), 16);
}

#[test]
fn devices_queue_pairs_and_cm_ids_are_parsed() {
    let mut found = Vec::new();
    let answer = [
        message(5 << 10 | 1, &[attribute(1, &4u32.to_ne_bytes()), attribute(2, b"rxe0\0")].concat()),
        message(3, &0i32.to_ne_bytes()),
    ]
    .concat();
    assert_eq!(devices(&answer, &mut found), Answered::Done);
    assert_eq!(found, [Device { index: 4, name: "rxe0".into() }]);

    let mut pairs = Vec::new();
    assert_eq!(queue_pairs(&qp_answer(), &mut pairs), Answered::More);
    assert_eq!(
        pairs[0],
        QpEntry {
            local_qp: Some(17),
            remote_qp: Some(18),
            receive_psn: Some(11_400_384),
            send_psn: Some(2_624_235),
            kind: Some(2),
            state: Some(3),
            owner: Some("rdma_cm".into()),
            process: None,
        }
    );
    assert_eq!((pairs.len(), pairs[1].kind, pairs[1].remote_qp), (2, Some(1), None));

    let mut ids = Vec::new();
    assert_eq!(cm_ids(&cm_id_answer(), &mut ids), Answered::More);
    let [CmIdEntry { local_qp, source, destination, owner, .. }] = &ids[..] else { panic!("{ids:?}") };
    assert_eq!((*local_qp, owner.as_deref()), (Some(17), Some("rpcrdma")));
    assert_eq!(source.unwrap().to_string(), "10.77.0.2:60900");
    assert_eq!(destination.unwrap().to_string(), "10.77.0.1:20049");

    let all = connected("rxe0", &pairs, &ids);
    let [one] = &all[..] else { panic!("{all:?}") };
    assert_eq!((one.local_qp, one.remote_qp, one.send_psn), (17, 18, Some(2_624_235)));
    assert_eq!(
        to_text(&all),
        "device=rxe0 local-qp=17 remote-qp=18 send-psn=2624235 receive-psn=11400384 source=10.77.0.2:60900 \
         destination=10.77.0.1:20049 owner=rpcrdma\n"
    );
    assert_eq!(from_text(&to_text(&all)), all);
    let snooped = vec![Connected { is_snooped: true, ..one.clone() }];
    assert!(to_text(&snooped).ends_with(" owner=rpcrdma snooped=yes\n"));
    assert_eq!(from_text(&to_text(&snooped)), snooped);
    assert_eq!((snooped[0].known().is_snooped, one.known().is_snooped), (true, false));
    let known = one.known();
    assert_eq!((known.local_is_requester, known.port, known.speaks_rpc), (Some(true), Some(20049), true));
}

#[test]
fn unconnected_queue_pairs_are_left_out() {
    let (mut pairs, mut ids) = (Vec::new(), Vec::new());
    queue_pairs(&qp_answer(), &mut pairs);
    cm_ids(&cm_id_answer(), &mut ids);
    let is_left_out = |change: fn(&mut QpEntry)| {
        let mut changed = pairs.clone();
        change(&mut changed[0]);
        connected("rxe0", &changed, &ids).is_empty()
    };
    assert!(is_left_out(|pair| pair.remote_qp = Some(0)));
    assert!(is_left_out(|pair| pair.kind = Some(4)));
    assert!(is_left_out(|pair| pair.state = Some(6)));
    assert!(is_left_out(|pair| pair.local_qp = Some(3)));
    // Software iWARP reports no remote QP number. `joined` keeps such a connection.
    let mut unnumbered = pairs.clone();
    unnumbered[0].remote_qp = Some(0);
    assert_eq!(joined("siw0", &unnumbered, &ids)[0].remote_qp, 0);
    // Its queue pairs at a client seem to be unused.
    unnumbered[0].state = Some(0);
    assert_eq!(joined("siw0", &unnumbered, &ids)[0].remote_qp, 0);
    unnumbered[0].state = Some(6);
    assert!(joined("siw0", &unnumbered, &ids).is_empty());
    // PSNs of 0 mean that the device does not report them.
    pairs[0].send_psn = Some(0);
    pairs[0].receive_psn = Some(0);
    assert_eq!(connected("siw0", &pairs, &ids)[0].send_psn, None);
}

#[test]
fn refusals_are_reported() {
    assert_eq!(devices(&message(2, &(-1i32).to_ne_bytes()), &mut Vec::new()), Answered::Refused(1));
    assert_eq!(devices(&message(2, &0i32.to_ne_bytes()), &mut Vec::new()), Answered::More);
    assert_eq!(devices(&message(3, &(-22i32).to_ne_bytes()), &mut Vec::new()), Answered::Refused(22));
}

#[test]
fn truncated_or_changed_bytes_do_not_panic() {
    let bytes = [qp_answer(), cm_id_answer(), message(3, &[0; 4])].concat();
    for length in 0..bytes.len() {
        queue_pairs(&bytes[..length], &mut Vec::new());
        cm_ids(&bytes[..length], &mut Vec::new());
        devices(&bytes[..length], &mut Vec::new());
        for value in [0, 1, 3, 0xff] {
            let mut changed = bytes.clone();
            changed[length] = value;
            queue_pairs(&changed, &mut Vec::new());
            cm_ids(&changed, &mut Vec::new());
        }
    }
}

#[test]
fn invalid_lines_are_skipped() {
    let good = "device=a local-qp=1 remote-qp=2 source=[fe80::1]:5 destination=[fe80::2]:20049 new-word=7";
    let text = format!("\nnonsense\ndevice=a local-qp=1\n{good}\ndevice=a local-qp=99999999 remote-qp=2\n");
    let found = from_text(&text);
    let [Connected { local_qp: 1, remote_qp: 2, send_psn: None, owner: None, .. }] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(found[0].source.to_string(), "[fe80::1]:5");
}
