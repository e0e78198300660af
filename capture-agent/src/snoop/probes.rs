//! The dynamic events that fetch messages: functions, fields and bytes.
//!
//! ```text
//! p:rdmascope_17/receive0 rpcrdma_reply_handler key=$arg1 qp=+8(+24(+16($arg1))):x64 …
//! - ------------- ------- --------------------- ------------------------------------
//!    group        event   function              values, and bytes in arrays of 64 words
//! ```
//!
//! Offsets and argument numbers come from the kernel's own type information, because they differ
//! between kernels. An event must fit in a page of the kernel's ring, so a message takes several
//! events at the same function, its parts.

use super::btf::{Btf, TypeId};

/// Maximum number of bytes of a message that are fetched.
pub(crate) const MOST: usize = 4096;
/// The bytes of a long piece that each part fetches, as offsets between the parts. A part has at
/// most 2,560 bytes: kernels since 6.13 refuse events of more than 3 KiB.
pub(crate) const PARTS: [usize; 4] = [0, 1024, 3584, MOST];
/// Bytes of an array, the most that a kernel allows.
pub(crate) const ARRAY: usize = 512;
/// Number of send SGEs whose address and length are fetched.
pub(crate) const SGES: usize = 8;

/// The function at which a message is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Point {
    /// The client posts a Send.
    ClientSend,
    /// The client takes a received message.
    ClientReceive,
    /// The server has mapped an RPC message for a Send. The Send itself follows.
    ServerMap,
    /// The server posts a Send.
    ServerSend,
    /// The server's receive is complete.
    ServerReceive,
}

impl Point {
    pub(crate) const ALL: [Point; 5] =
        [Point::ClientSend, Point::ClientReceive, Point::ServerMap, Point::ServerSend, Point::ServerReceive];

    const fn spec(self) -> &'static Spec {
        match self {
            Point::ClientSend => &CLIENT_SEND,
            Point::ClientReceive => &CLIENT_RECEIVE,
            Point::ServerMap => &SERVER_MAP,
            Point::ServerSend => &SERVER_SEND,
            Point::ServerReceive => &SERVER_RECEIVE,
        }
    }

    /// The name of the value that is the length of the piece in several parts.
    pub(crate) fn length(self) -> &'static str {
        self.spec().length.0
    }

    /// The name of the event of a part.
    pub(crate) fn event(self, part: usize) -> String {
        format!("{}{part}", self.spec().name)
    }
}

/// A function and the values at its entry.
struct Spec {
    /// Name of the events.
    name: &'static str,
    /// Names of the function. Kernels have one of them.
    functions: &'static [&'static str],
    /// The structure of the argument that identifies the message.
    key: &'static str,
    /// Values, by name. A path begins with the structure that an argument points to. Each `.` is a
    /// member, through a pointer where the member before is one. `[1]` is the second of the structures
    /// that a pointer points to. `<S.m` goes from a pointer to member `m` back to its structure `S`.
    values: &'static [(&'static str, &'static str)],
    /// The SGEs of a Send.
    sges: Option<&'static str>,
    /// The pieces of the message: name, pointer, and bytes in the first part. The first piece
    /// continues in the other parts.
    pieces: &'static [(&'static str, &'static str, usize)],
    /// The value that is the length of the first piece, for these parts.
    length: (&'static str, &'static str),
}

const CLIENT_SEND: Spec = Spec {
    name: "client_send",
    functions: &["frwr_send"],
    key: "rpcrdma_req",
    values: &[
        ("qp", "rpcrdma_xprt.rx_ep.re_id.qp"),
        ("number", "rpcrdma_xprt.rx_ep.re_id.qp.qp_num"),
        ("device", "rpcrdma_xprt.rx_ep.re_id.qp.device.index"),
        ("opcode", "rpcrdma_req.rl_wr.opcode"),
        ("rkey", "rpcrdma_req.rl_wr.ex.invalidate_rkey"),
        ("sges", "rpcrdma_req.rl_wr.num_sge"),
        ("head", "rpcrdma_req.rl_slot.rq_snd_buf.head.iov_base"),
        ("head_length", "rpcrdma_req.rl_slot.rq_snd_buf.head.iov_len"),
        ("tail", "rpcrdma_req.rl_slot.rq_snd_buf.tail.iov_base"),
        ("tail_length", "rpcrdma_req.rl_slot.rq_snd_buf.tail.iov_len"),
    ],
    sges: Some("rpcrdma_req.rl_wr.sg_list"),
    pieces: &[
        ("b", "rpcrdma_req.rl_slot.rq_snd_buf.head.iov_base", 1024),
        ("h", "rpcrdma_req.rl_rdmabuf.rg_data", 1024),
        ("t", "rpcrdma_req.rl_slot.rq_snd_buf.tail.iov_base", 512),
    ],
    // The second SGE is the head, or the whole RPC message if the client pulled it together.
    length: ("length", "rpcrdma_req.rl_wr.sg_list[1].length"),
};

const CLIENT_RECEIVE: Spec = Spec {
    name: "client_receive",
    functions: &["rpcrdma_reply_handler"],
    key: "rpcrdma_rep",
    values: &[
        ("qp", "rpcrdma_rep.rr_rxprt.rx_ep.re_id.qp"),
        ("number", "rpcrdma_rep.rr_rxprt.rx_ep.re_id.qp.qp_num"),
        ("device", "rpcrdma_rep.rr_rxprt.rx_ep.re_id.qp.device.index"),
        ("flags", "rpcrdma_rep.rr_wc_flags"),
        ("rkey", "rpcrdma_rep.rr_inv_rkey"),
    ],
    sges: None,
    pieces: &[("b", "rpcrdma_rep.rr_rdmabuf.rg_data", 1024)],
    length: ("length", "rpcrdma_rep.rr_hdrbuf.len"),
};

const SERVER_MAP: Spec = Spec {
    name: "server_map",
    functions: &["svc_rdma_map_reply_msg"],
    key: "svc_rdma_send_ctxt",
    values: &[
        ("head", "xdr_buf.head.iov_base"),
        ("tail", "xdr_buf.tail.iov_base"),
        ("tail_length", "xdr_buf.tail.iov_len"),
    ],
    sges: None,
    pieces: &[("b", "xdr_buf.head.iov_base", 1024), ("t", "xdr_buf.tail.iov_base", 512)],
    length: ("head_length", "xdr_buf.head.iov_len"),
};

const SERVER_SEND: Spec = Spec {
    name: "server_send",
    functions: &["svc_rdma_post_send", "svc_rdma_send"],
    key: "svc_rdma_send_ctxt",
    values: &[
        ("qp", "svcxprt_rdma.sc_qp"),
        ("number", "svcxprt_rdma.sc_qp.qp_num"),
        ("device", "svcxprt_rdma.sc_qp.device.index"),
        ("opcode", "svc_rdma_send_ctxt.sc_send_wr.opcode"),
        ("rkey", "svc_rdma_send_ctxt.sc_send_wr.ex.invalidate_rkey"),
        ("sges", "svc_rdma_send_ctxt.sc_send_wr.num_sge"),
    ],
    sges: Some("svc_rdma_send_ctxt.sc_send_wr.sg_list"),
    pieces: &[("b", "svc_rdma_send_ctxt.sc_xprt_buf", 1024)],
    length: ("length", "svc_rdma_send_ctxt.sc_send_wr.sg_list.length"),
};

const SERVER_RECEIVE: Spec = Spec {
    name: "server_receive",
    functions: &["svc_rdma_wc_receive"],
    key: "ib_wc",
    values: &[
        ("qp", "ib_wc.qp"),
        ("number", "ib_wc.qp.qp_num"),
        ("device", "ib_wc.qp.device.index"),
        ("status", "ib_wc.status"),
        ("flags", "ib_wc.wc_flags"),
        ("rkey", "ib_wc.ex.invalidate_rkey"),
    ],
    sges: None,
    pieces: &[("b", "ib_wc.wr_cqe<svc_rdma_recv_ctxt.rc_cqe.rc_recv_buf", 1024)],
    length: ("length", "ib_wc.byte_len"),
};

/// An event to define.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    /// The function at which it is seen.
    pub(crate) point: Point,
    /// The part of the message, from 0.
    pub(crate) part: usize,
    /// The definition, after the group and the name.
    pub(crate) text: String,
    /// The condition under which the event is needed.
    pub(crate) filter: Option<String>,
}

/// The reason why a kernel's messages cannot be fetched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The kernel has none of these functions.
    #[error("this kernel has no function {0}: it is not known how to snoop on it")]
    NoFunction(String),
    /// A structure or a member is missing.
    #[error(
        "in this kernel, {path} of the function {function} was not found: it is not known how to snoop on it"
    )]
    NoMember {
        /// Name of the function.
        function: &'static str,
        /// The path to the value.
        path: &'static str,
    },
}

/// Returns the events that fetch the first `bytes` of each message, at most [`MOST`].
pub(crate) fn definitions(btf: &Btf, bytes: usize) -> Result<Vec<Definition>, ProbeError> {
    let parts = PARTS[1..].iter().position(|end| *end >= bytes).unwrap_or(PARTS.len() - 2) + 1;
    let mut found = Vec::new();
    for point in Point::ALL {
        let fetch = Fetch::new(btf, point.spec())?;
        for part in 0..parts {
            found.push(fetch.part(point, part)?);
        }
    }
    Ok(found)
}

/// Makes the definitions of a function's events.
struct Fetch<'a> {
    btf: &'a Btf,
    spec: &'static Spec,
    function: &'static str,
}

impl<'a> Fetch<'a> {
    fn new(btf: &'a Btf, spec: &'static Spec) -> Result<Fetch<'a>, ProbeError> {
        let exists = |function: &&&'static str| btf.parameter(function, spec.key).is_some();
        let function = spec.functions.iter().find(exists);
        let function = function.ok_or_else(|| ProbeError::NoFunction(spec.functions.join(" or ")))?;
        Ok(Fetch { btf, spec, function })
    }

    fn part(&self, point: Point, part: usize) -> Result<Definition, ProbeError> {
        let Spec { key, values, sges, pieces, length, .. } = self.spec;
        let mut text = format!("{} key={}:x64", self.function, self.argument(key)?);
        let values = if part == 0 { *values } else { &[] };
        for (name, path) in core::iter::once(length).chain(values) {
            let (place, size) = self.value(path)?;
            text += &format!(" {name}={place}:x{size}");
        }
        if let Some(path) = sges.filter(|_| part == 0) {
            // An SGE has an address, a length and a key, 16 bytes.
            text += &format!(" sge=+0({}):x64[{}]", self.value(path)?.0, 2 * SGES);
        }
        for (index, (name, path, first)) in pieces.iter().enumerate() {
            let (start, end) = match (part, index) {
                (0, _) => (0, *first),
                (_, 0) => (PARTS[part], PARTS[part + 1]),
                _ => continue,
            };
            let pointer = self.value(path)?.0;
            for offset in (start..end).step_by(ARRAY) {
                text += &format!(" {name}{}=+{offset}({pointer}):x64[{}]", offset / ARRAY, ARRAY / 8);
            }
        }
        let filter = (part > 0).then(|| format!("{} > {}", length.0, PARTS[part]));
        Ok(Definition { point, part, text, filter })
    }

    /// The argument that points to a structure.
    fn argument(&self, structure: &'static str) -> Result<String, ProbeError> {
        let number = self.btf.parameter(self.function, structure).flatten();
        let number = number.ok_or(ProbeError::NoMember { function: self.function, path: structure })?;
        Ok(format!("$arg{number}"))
    }

    /// The fetch of a value at the end of a path, and its size in bits.
    fn value(&self, path: &'static str) -> Result<(String, u32), ProbeError> {
        let structure = path.split('.').next().unwrap_or_default();
        let argument = self.argument(structure)?;
        let missing = ProbeError::NoMember { function: self.function, path };
        self.walk(argument, path).ok_or(missing)
    }

    fn walk(&self, argument: String, path: &str) -> Option<(String, u32)> {
        let (path, back) = path.split_once('<').map_or((path, None), |(path, back)| (path, Some(back)));
        let mut words = path.split('.');
        let start = Place { base: argument, offset: 0, of: self.btf.structure(words.next()?)? };
        let place = words.try_fold(start, |place, name| place.member(self.btf, name))?;
        let Some(back) = back else { return place.fetch(self.btf) };
        let mut words = back.split('.');
        let of = self.btf.structure(words.next()?)?;
        let (inward, _) = self.btf.member(of, words.next()?)?;
        let start = Place { base: place.fetch(self.btf)?.0, offset: -i64::from(inward), of };
        words.try_fold(start, |place, name| place.member(self.btf, name))?.fetch(self.btf)
    }
}

/// A value in memory: its address is that of `base` plus the offset.
struct Place {
    base: String,
    offset: i64,
    of: TypeId,
}

impl Place {
    /// A member of the structure here, or of the one that the pointer here points to.
    fn member(self, btf: &Btf, name: &str) -> Option<Place> {
        let (name, is_second) = name.strip_suffix("[1]").map_or((name, false), |name| (name, true));
        let place = self.followed(btf);
        let (offset, of) = btf.member(place.of, name)?;
        let place = Place { offset: place.offset + i64::from(offset), of, ..place };
        if !is_second {
            return Some(place);
        }
        let place = place.followed(btf);
        Some(Place { offset: btf.size(place.of)?.into(), ..place })
    }

    /// The structure that the pointer here points to. Anything else stays as it is.
    fn followed(self, btf: &Btf) -> Place {
        match btf.pointee(self.of) {
            Some(of) => Place { base: format!("{:+}({})", self.offset, self.base), offset: 0, of },
            None => self,
        }
    }

    /// The text that fetches the value, and its size in bits.
    fn fetch(&self, btf: &Btf) -> Option<(String, u32)> {
        let size = btf.size(self.of).filter(|size| [1, 2, 4, 8].contains(size))?;
        Some((format!("{:+}({})", self.offset, self.base), 8 * size))
    }
}

#[cfg(test)]
mod tests;
