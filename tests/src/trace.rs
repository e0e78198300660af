//! The rpcrdma tracepoints of both kernels: their own record of the messages that they sent and
//! received.
//!
//! A line is `comm-pid [cpu] flags time: event: fields`. XIDs are printed in wire order
//! (big-endian). Segments are `length@offset:handle`.

use std::collections::HashMap;

/// A segment as printed by a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Bytes.
    pub length: u32,
    /// Offset.
    pub offset: u64,
    /// Handle.
    pub handle: u32,
}

/// An `xprtrdma_marshal` event with the preceding chunk lines of its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marshal {
    /// The XID.
    pub xid: u32,
    /// Bytes of the RPC-over-RDMA header.
    pub header_length: u32,
    /// Head, pages and tail of the RPC call, in bytes. The tail begins with the padding of the
    /// pages.
    pub xdr: [u32; 3],
    /// The transfer of the call as printed: `pullup`, `mapped`, `read list`, `inline` …
    pub call: String,
    /// The expected transfer of the reply: `inline`, `write list`, `reply chunk`.
    pub reply: String,
    /// Read segments with their positions.
    pub reads: Vec<(u32, Segment)>,
    /// Segments of the Write chunk.
    pub writes: Vec<Segment>,
    /// Segments of the Reply chunk.
    pub reply_chunk: Vec<Segment>,
}

impl Marshal {
    /// The length of the call before reduction, in bytes.
    pub fn length(&self) -> u64 {
        self.xdr.iter().map(|part| u64::from(*part)).sum()
    }
}

/// The client's trace.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// Calls in the order in which they were sent.
    pub marshals: Vec<Marshal>,
    /// Replies: XID and credits granted.
    pub replies: Vec<(u32, u32)>,
    /// XIDs of received callbacks.
    pub callbacks: Vec<u32>,
    /// XIDs of the replies to callbacks.
    pub callback_replies: Vec<u32>,
    /// `xprtrdma_inline_thresh`: the negotiated Send and Receive sizes.
    pub thresholds: Vec<(u32, u32)>,
    /// The status of each failed `xprtrdma_connect`.
    pub refused: Vec<i32>,
    /// Chunk lines of marshalling attempts that were abandoned for lack of memory regions.
    pub abandoned_segments: usize,
    /// All chunk lines by kind: read, write, reply.
    pub segments: [usize; 3],
}

#[derive(Clone, Debug, Default)]
struct Pending {
    reads: Vec<(u32, Segment)>,
    writes: Vec<Segment>,
    reply_chunk: Vec<Segment>,
}

impl Client {
    /// Parses the trace.
    ///
    /// # Panics
    /// If a line of a known event has an unexpected form.
    pub fn parse(text: &str) -> Client {
        let mut client = Client::default();
        let mut pending: HashMap<String, Pending> = HashMap::new();
        for line in text.lines() {
            let Some((event, fields)) = event(line) else { continue };
            match event {
                "xprtrdma_chunk_read"
                | "xprtrdma_chunk_write"
                | "xprtrdma_chunk_wp"
                | "xprtrdma_chunk_reply" => {
                    let task = value(fields, "task:").expect(line);
                    let segment = segment(fields).expect(line);
                    let pending = pending.entry(task.to_owned()).or_default();
                    // The list of this event; (more) and (last) only mark its end.
                    let dropped = match event {
                        "xprtrdma_chunk_read" => {
                            let position = number(value(fields, "pos=").expect(line));
                            client.segments[0] += 1;
                            restart(&mut pending.reads, (position, segment), |(_, old)| {
                                old.offset == segment.offset
                            })
                        }
                        // The second event has the segment for the padding.
                        "xprtrdma_chunk_write" | "xprtrdma_chunk_wp" => {
                            client.segments[1] += 1;
                            restart(&mut pending.writes, segment, |old| old.offset == segment.offset)
                        }
                        _ => {
                            client.segments[2] += 1;
                            restart(&mut pending.reply_chunk, segment, |old| old.offset == segment.offset)
                        }
                    };
                    client.abandoned_segments += dropped;
                }
                "xprtrdma_marshal" => {
                    let lists = pending.remove(value(fields, "task:").expect(line)).unwrap_or_default();
                    let xdr = value(fields, "xdr=").expect(line);
                    let mut parts = xdr.split('/').map(number);
                    let how = fields.split_once(xdr).expect(line).1.trim();
                    let (call, reply) = how.split_once('/').expect(line);
                    client.marshals.push(Marshal {
                        xid: hex(value(fields, "xid=").expect(line)) as u32,
                        header_length: number(value(fields, "hdr=").expect(line)),
                        xdr: core::array::from_fn(|_| parts.next().expect(line)),
                        call: call.to_owned(),
                        reply: reply.to_owned(),
                        reads: lists.reads,
                        writes: lists.writes,
                        reply_chunk: lists.reply_chunk,
                    });
                }
                "xprtrdma_reply" => client.replies.push((
                    hex(value(fields, "xid=").expect(line)) as u32,
                    number(value(fields, "credits=").expect(line)),
                )),
                "xprtrdma_cb_call" => client.callbacks.push(hex(value(fields, "xid=").expect(line)) as u32),
                "xprtrdma_cb_reply" => {
                    client.callback_replies.push(hex(value(fields, "xid=").expect(line)) as u32);
                }
                "xprtrdma_inline_thresh" => {
                    // "neg send/recv=4096/4096, calc send/recv=3780/3884"
                    let negotiated = value(fields, "neg send/recv=").expect(line).trim_end_matches(',');
                    let (send, receive) = negotiated.split_once('/').expect(line);
                    client.thresholds.push((number(send), number(receive)));
                }
                "xprtrdma_connect" => {
                    let status: i32 = value(fields, "rc=").expect(line).parse().expect(line);
                    if status != 0 {
                        client.refused.push(status);
                    }
                }
                _ => {}
            }
        }
        client
    }
}

/// Appends a segment and returns the number of segments that it replaces. If memory regions run
/// out, the kernel abandons a partly marshalled call and later restarts with the same memory and
/// new handles; the segments of the abandoned attempt are dropped.
fn restart<T>(list: &mut Vec<T>, item: T, same: impl Fn(&T) -> bool) -> usize {
    let dropped = if list.first().is_some_and(same) { core::mem::take(list).len() } else { 0 };
    list.push(item);
    dropped
}

/// An `svcrdma_decode_rqst` event with the preceding segment lines of the same completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The XID.
    pub xid: u32,
    /// rdma_vers.
    pub version: u32,
    /// The credits: requested in a call, granted in the reply to a callback.
    pub credits: u32,
    /// `RDMA_MSG` …
    pub procedure: String,
    /// Bytes of the RPC-over-RDMA header.
    pub header_length: u32,
    /// Read segments with their positions.
    pub reads: Vec<(u32, Segment)>,
    /// Segments of all Write chunks and the Reply chunk, in that order.
    pub writes: Vec<Segment>,
}

/// The server's trace.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Received messages in order: calls and replies to callbacks.
    pub requests: Vec<Request>,
    /// Segments of Write and Reply chunks as returned in replies, with the lengths used, in order.
    pub returned: Vec<Segment>,
}

impl Server {
    /// Parses the trace.
    ///
    /// # Panics
    /// If a line of a known event has an unexpected form.
    pub fn parse(text: &str) -> Server {
        let mut server = Server::default();
        let mut pending: HashMap<String, Pending> = HashMap::new();
        for line in text.lines() {
            let Some((event, fields)) = event(line) else { continue };
            match event {
                "svcrdma_decode_rseg" => {
                    let position = number(value(fields, "position=").expect(line));
                    let pending = pending.entry(value(fields, "cid=").expect(line).to_owned()).or_default();
                    pending.reads.push((position, segment(fields).expect(line)));
                }
                "svcrdma_decode_wseg" => {
                    let pending = pending.entry(value(fields, "cid=").expect(line).to_owned()).or_default();
                    pending.writes.push(segment(fields).expect(line));
                }
                "svcrdma_encode_wseg" => server.returned.push(segment(fields).expect(line)),
                "svcrdma_decode_rqst" => {
                    let lists = pending.remove(value(fields, "cid=").expect(line)).unwrap_or_default();
                    server.requests.push(Request {
                        xid: hex(value(fields, "xid=").expect(line)) as u32,
                        version: number(value(fields, "vers=").expect(line)),
                        credits: number(value(fields, "credits=").expect(line)),
                        procedure: value(fields, "proc=").expect(line).to_owned(),
                        header_length: number(value(fields, "hdrlen=").expect(line)),
                        reads: lists.reads,
                        writes: lists.writes,
                    });
                }
                _ => {}
            }
        }
        server
    }
}

/// The name of the event and its fields.
fn event(line: &str) -> Option<(&str, &str)> {
    let start = line.find("xprtrdma_").or_else(|| line.find("svcrdma_"))?;
    line[start..].split_once(": ")
}

/// The word after `key`.
fn value<'a>(fields: &'a str, key: &str) -> Option<&'a str> {
    let start = fields.find(key)? + key.len();
    fields[start..].split_ascii_whitespace().next()
}

fn segment(fields: &str) -> Option<Segment> {
    let word = fields.split_ascii_whitespace().find(|word| word.contains("@0x"))?;
    let (length, rest) = word.split_once('@')?;
    let (offset, handle) = rest.split_once(':')?;
    Some(Segment { length: number(length), offset: hex(offset), handle: hex(handle) as u32 })
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn hex(text: &str) -> u64 {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}
