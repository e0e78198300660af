//! The client's mountstats: the counts per operation of the Linux NFS client.

/// One line of "per-op statistics".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The client's name of the operation. For NFSv4 it names a procedure of the client, not an
    /// operation on the wire.
    pub name: String,
    /// Operations completed.
    pub operations: u64,
    /// Transmissions.
    pub transmissions: u64,
    /// Major timeouts.
    pub timeouts: u64,
    /// Bytes of the calls: the RPC messages before reduction.
    pub bytes_sent: u64,
    /// Bytes of the replies: the RPC messages before reduction.
    pub bytes_received: u64,
    /// Replies with an error.
    pub errors: u64,
}

/// A mount's statistics.
#[derive(Clone, Debug, Default)]
pub struct Mountstats {
    /// The operations with at least one call.
    pub rows: Vec<Row>,
    /// Messages that the transport sent: calls, and answers to callbacks.
    pub sends: u64,
    /// Replies that the transport received.
    pub receives: u64,
    /// Segments registered for Read, Write and Reply chunks, including abandoned ones.
    pub segments: [u64; 3],
    /// The bytes of Read segments, by the transport's count.
    pub rdma_request_bytes: u64,
    /// Bytes of replies that arrived in Write or Reply chunks.
    pub rdma_reply_bytes: u64,
}

impl Mountstats {
    /// Parses the mountstats in truth.txt.
    pub fn parse(text: &str) -> Option<Mountstats> {
        let transport = text.lines().find_map(|line| line.trim().strip_prefix("xprt:\trdma "))?;
        // port, bind count, connect count, connect time, idle time, sends, receives, bad XIDs, two
        // sums; then those of rpcrdma: read, write, reply chunk segments, bytes by RDMA in requests
        // and replies … (net/sunrpc/xprtrdma/transport.c).
        let fields: Vec<u64> =
            transport.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
        let field = |index: usize| fields.get(index).copied();
        let mut rows = Vec::new();
        let (_, operations) = text.split_once("per-op statistics\n")?;
        for line in operations.lines().take_while(|line| line.starts_with(char::is_whitespace)) {
            let (name, numbers) = line.trim().split_once(": ")?;
            let numbers: Vec<u64> =
                numbers.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
            let [operations, transmissions, timeouts, bytes_sent, bytes_received, _, _, _, errors] =
                numbers[..]
            else {
                return None;
            };
            if operations > 0 {
                let name = name.to_owned();
                rows.push(Row {
                    name,
                    operations,
                    transmissions,
                    timeouts,
                    bytes_sent,
                    bytes_received,
                    errors,
                });
            }
        }
        Some(Mountstats {
            rows,
            sends: field(5)?,
            receives: field(6)?,
            segments: [field(10)?, field(11)?, field(12)?],
            rdma_request_bytes: field(13)?,
            rdma_reply_bytes: field(14)?,
        })
    }

    /// The sum of a column.
    pub fn total(&self, column: impl Fn(&Row) -> u64) -> u64 {
        self.rows.iter().map(column).sum()
    }
}

/// The md5 lines in truth.txt, as printed by md5sum: digest and file.
pub fn digests(text: &str) -> Vec<(&str, &str)> {
    text.lines()
        .filter_map(|line| line.split_once("  "))
        .filter(|(digest, _)| digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .collect()
}
