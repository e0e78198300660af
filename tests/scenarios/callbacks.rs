//! An NFSv4.1 server of one file and one client, with just enough operations to make callbacks.
//! Written by hand from RFC 5662.

use crate::responder::Wrong;
use rdmascope_wire::Xid;
use rdmascope_wire::rpc::{Auth, Call};
use std::cell::Cell;
use std::rc::Rc;

/// The XID of the server's callback.
pub(crate) const CALLBACK: Xid = Xid(0xbacc_0001);

const SESSION: [u8; 16] = *b"session of tests";
const DELEGATION: [u8; 16] = *b"delegation: read";

/// The state of the server.
#[derive(Default)]
pub(crate) struct Callbacks {
    backchannel: bool,
    delegated: bool,
    sequence: u32,
    /// Whether the file exists.
    file: Rc<Cell<bool>>,
    /// Calls back with or without a backchannel.
    calls_without_backchannel: bool,
    /// Never calls back.
    never_calls_back: bool,
    /// Grants no delegations.
    grants_none: bool,
    /// Refuses to remove the file.
    keeps: bool,
}

/// Writes XDR words, and opaque bytes that need no padding.
struct Out<'a>(&'a mut Vec<u8>);

impl Out<'_> {
    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.0.extend(word.to_be_bytes()));
    }
}

impl Callbacks {
    pub(crate) fn new(wrong: Wrong) -> Callbacks {
        Callbacks {
            calls_without_backchannel: wrong == Wrong::CallsWithoutBackchannel,
            never_calls_back: wrong == Wrong::NeverCallsBack,
            grants_none: wrong == Wrong::GrantsNone,
            keeps: wrong == Wrong::KeepsFile,
            ..Callbacks::default()
        }
    }

    /// A shared flag: whether the file exists.
    pub(crate) fn file(&self) -> Rc<Cell<bool>> {
        self.file.clone()
    }

    /// Whether a client holds a delegation.
    pub(crate) const fn is_delegated(&self) -> bool {
        self.delegated
    }

    /// Appends the results of a COMPOUND. Returns whether the server calls back.
    pub(crate) fn results(&mut self, out: &mut Vec<u8>, arguments: &[u8]) -> bool {
        let word = |at: usize| {
            let bytes = arguments.get(4 * at..4 * at + 4);
            bytes.map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().unwrap()))
        };
        let mut out = Out(out);
        // tag, minor version, number of operations, the first one
        let (minor, count, first) = (word(1), word(2), word(3));
        // The operation after SEQUENCE, which has a session ID and four numbers.
        let second = if first == 53 { word(12) } else { 0 };
        match (minor, first) {
            // EXCHANGE_ID: client ID, sequence ID, flags, no state protection, server_owner, scope,
            // no implementation ID.
            (1, 42) => out.words(&[0, 0, 1, 42, 0, 0, 77, 1, 0x10000, 0, 0, 0, 0, 0, 0]),
            // CREATE_SESSION: client ID (2 words), sequence ID, flags, both channels.
            (1, 43) => {
                self.backchannel = word(7) & 2 != 0;
                self.sequence = 0;
                out.words(&[0, 0, 1, 43, 0]);
                out.0.extend(SESSION);
                out.words(&[1, word(7), 0, 65536, 65536, 4096, 8, 1, 0, 0, 4096, 4096, 0, 2, 1, 0]);
            }
            (1, 53) => {
                assert_eq!(arguments[16..32], SESSION);
                self.sequence += 1;
                assert_eq!(word(8), self.sequence, "the sequence number of the slot");
                out.words(&[0, 0, count, 53, 0]);
                out.0.extend(SESSION);
                out.words(&[self.sequence, 0, 0, 0, 0]);
                match second {
                    58 => out.words(&[58, 0]),
                    // PUTROOTFH, followed by OPEN with its seqid, access, deny, client ID (2 words)
                    // and owner; or by LOOKUP.
                    24 if word(13) == 18 => {
                        let wants = word(15) & 0x100 != 0 && !self.grants_none;
                        self.delegated |= wants && self.backchannel;
                        // OPEN4_CREATE comes after the owner of 18 bytes.
                        self.file.set(self.file.get() || word(25) == 1);
                        out.words(&[24, 0, 18, 0, 1, 2, 3, 4, 1, 0, 1, 0, 2, 4, 0]);
                        if self.delegated && wants {
                            out.words(&[1]);
                            out.0.extend(DELEGATION);
                            // No recall; an access control entry with an empty name.
                            out.words(&[0, 0, 0, 0, 0]);
                        } else {
                            out.words(&[0]);
                        }
                    }
                    24 => {
                        assert!(arguments.ends_with(&DELEGATION));
                        self.delegated = false;
                        out.words(&[24, 0, 15, 0, 8, 0]);
                    }
                    other => panic!("unexpected operation {other}"),
                }
            }
            // PUTROOTFH, REMOVE: NFS4ERR_DELAY while a client holds a delegation.
            (0, 24) if self.delegated => {
                out.words(&[10008, 0, 2, 24, 0, 28, 10008]);
                return !self.never_calls_back;
            }
            // NFS4ERR_ACCESS; NFS4ERR_NOENT.
            (0, 24) if self.keeps => out.words(&[13, 0, 2, 24, 0, 28, 13]),
            (0, 24) if !self.file.take() => out.words(&[2, 0, 2, 24, 0, 28, 2]),
            (0, 24) => {
                out.words(&[0, 0, 2, 24, 0, 28, 0, 1, 0, 1, 0, 2]);
                return self.calls_without_backchannel;
            }
            other => panic!("unexpected minor version and operation {other:?}"),
        }
        false
    }
}

/// CB_COMPOUND of CB_SEQUENCE and CB_RECALL.
pub(crate) fn recall(xid: Xid) -> Vec<u8> {
    let mut bytes = Vec::new();
    let none = Auth { flavor: 0, body: &[] };
    let call = Call {
        xid,
        rpc_version: 2,
        program: 0x4000_0000,
        version: 1,
        procedure: 1,
        credential: none,
        verifier: none,
    };
    call.build(&mut bytes);
    let mut out = Out(&mut bytes);
    // No tag, minor version 1, no callback_ident, two operations.
    out.words(&[0, 1, 0, 2, 11]);
    out.0.extend(SESSION);
    // Sequence ID, slot ID, highest slot ID, not cached, no referring calls.
    out.words(&[1, 0, 0, 0, 0, 4]);
    out.0.extend(DELEGATION);
    out.words(&[0, 4, 0xcafe_cafe]);
    bytes
}
