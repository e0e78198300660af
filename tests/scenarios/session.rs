//! The project's own Responder (peer/src/rpcrdma) as a target. Its results are those of the test
//! responder.

use super::callbacks::{CALLBACK, Callbacks, recall};
use super::responder::results;
use rdmascope_peer::endpoint;
use rdmascope_peer::packet::Datagram;
use rdmascope_peer::pair::End;
use rdmascope_peer::peer::{Config, Event, Peer};
use rdmascope_peer::rpcrdma::{self, Call as Backward, OfferLimits, Reply};
use rdmascope_peer::time::Instant;
use rdmascope_wire::Layer;
use rdmascope_wire::rpc::{self, Auth, Call, Status};
use rdmascope_wire::xdr::Reader;

pub(crate) struct Session(Peer, Callbacks);

impl Session {
    pub(crate) fn new() -> Session {
        Session::with(None)
    }

    /// A session that offers Read chunks within these limits.
    pub(crate) fn reliable(limits: OfferLimits) -> Session {
        Session::with(Some(limits))
    }

    fn with(reliable_reply: Option<OfferLimits>) -> Session {
        let endpoint = endpoint::Config { guid: 2, source_port: 0xc001, ..endpoint::Config::default() };
        let session = rpcrdma::Config { reliable_reply, ..rpcrdma::Config::default() };
        let mut peer = Peer::new(Config { endpoint, session, ..Config::default() }, 77);
        peer.listen(20049);
        Session(peer, Callbacks::default())
    }

    fn pump(&mut self) {
        while let Some(event) = self.0.poll_event() {
            let Event::Rpc { connection, event: rpcrdma::Event::Called(called) } = event else {
                continue;
            };
            let mut reader = Reader::new(&called.message, Layer::Rpc);
            let call = Call::parse(&mut reader).ok();
            let status = if call.is_some() { Status::Success } else { Status::GarbageArguments };
            let verifier = Some(Auth { flavor: 0, body: &[] });
            let mut message = Vec::new();
            rpc::Reply { xid: called.xid, status, verifier }.build(&mut message);
            let calls_back =
                call.is_some_and(|call| results(&mut self.1, &mut message, &call, reader.rest()));
            // The connection may be closed already.
            let _ = self.0.reply(connection, called.xid, Reply::inline(message));
            if calls_back {
                self.0.call(connection, Backward::inline(recall(CALLBACK))).expect("it can be sent");
            }
        }
    }
}

impl End for Session {
    fn handle(&mut self, now: Instant, datagram: &Datagram) {
        self.0.handle(now, datagram);
        self.pump();
    }

    fn handle_time(&mut self, now: Instant) {
        self.0.handle_time(now);
        self.pump();
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.0.next_deadline()
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        self.0.poll_transmit(now)
    }
}
