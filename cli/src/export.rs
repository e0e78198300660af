//! `rdmascope export`: what was found, in forms that other programs work on.

mod html;
#[cfg(feature = "parquet")]
mod parquet;
mod pcapng;
mod rpc;

use crate::confine::Paths;
use crate::input::Input;
use crate::mode::NewFiles;
use crate::output::{Out, Status};
use crate::whole::OutputFile;
use anyhow::{Context as _, Result, anyhow};
use clap::{Args, Subcommand};
use html::Html;
pub(crate) use html::page;
use pcapng::Pcapng;
use rpc::Rpc;
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;

#[derive(Args, Debug)]
pub(crate) struct Export {
    #[command(subcommand)]
    form: Form,
}

/// What is written.
#[derive(Subcommand, Debug)]
enum Form {
    /// Write tables for DuckDB, Polars or Spark
    ///
    /// There are tables of transactions, operations, RPC-over-RDMA messages, packets, connections and findings. They are
    /// partitioned by capture, so that captures in one folder can be queried together. docs/parquet.md describes the
    /// columns.
    #[cfg(feature = "parquet")]
    #[command(after_help = parquet::EXAMPLES)]
    Parquet(Box<parquet::Parquet>),
    /// Write the packets as pcapng, with comments that Wireshark shows
    ///
    /// The output holds all packets in their order, with time stamps in nanoseconds and original lengths. The comment of a packet
    /// names its connection and transaction, and its role: a call, bytes of a chunk, a reply with its status and latency, an
    /// acknowledgement, or a retransmission with the frame that it repeats. The comment also names errors: a bad ICRC, a NAK,
    /// data that the capture lacks. Of a pcapng input file, what `rdmascope capture` noted of
    /// connections and of the kernel is copied; comments and other blocks are not. `--anonymize` writes a capture without names, addresses and data.
    ///
    /// The capture is read twice; standard input is kept in a temporary file. Memory use grows with the number of transactions,
    /// Sends and RDMA operations: a few hundred bytes each.
    #[command(after_help = pcapng::EXAMPLES)]
    Pcapng(Box<Pcapng>),
    /// Write the RPC messages as RPC over TCP
    ///
    /// The output is pcapng, which Wireshark, tshark and other tools for NFS read without knowing RPC-over-RDMA: each message as it was before chunks took parts
    /// of it, in one TCP connection for each RDMA connection, at the time at which its Send was complete. Addresses are those of the connection; the server's
    /// port is 2049. A comment names transaction and frames. Segments, acknowledgements and the handshake are made up.
    ///
    /// A message of which the capture lacks bytes is cut off there, as by a snap length. RDMA_ERROR has no form in RPC, and is left out. What is left out is told
    /// on standard error. A temporary file takes as much as the messages.
    #[command(after_help = rpc::EXAMPLES)]
    Rpc(Box<Rpc>),
    /// Write a report as one page of HTML
    ///
    /// The page needs no network. It holds the report of `analyze`, charts of latencies, throughput, transactions and credits over
    /// time, and drawings of the slowest and of the failed transactions.
    ///
    /// The capture is read twice; standard input is kept in a temporary file. The size of the page and the memory use do not grow
    /// with the length of the capture.
    #[command(after_help = html::EXAMPLES)]
    Html(Box<Html>),
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope export parquet mount.pcap --output tables
  rdmascope export pcapng mount.pcap --output mount.pcapng
  rdmascope export rpc mount.pcap --output nfs.pcapng
  rdmascope export html mount.pcap --output mount.html";

impl Export {
    /// What is read as one capture. Nothing where folders may be many: those are left to the command.
    pub(crate) fn input(&mut self) -> Option<&mut Input> {
        match &mut self.form {
            #[cfg(feature = "parquet")]
            Form::Parquet(_) => None,
            Form::Pcapng(pcapng) => Some(&mut pcapng.input),
            Form::Rpc(rpc) => Some(&mut rpc.input),
            Form::Html(html) => Some(&mut html.input),
        }
    }

    /// The files besides [`Export::input`] that it works on.
    pub(crate) fn add_to(&self, paths: &mut Paths) {
        let output = match &self.form {
            #[cfg(feature = "parquet")]
            Form::Parquet(parquet) => {
                paths.read(&parquet.input.files);
                &parquet.output
            }
            Form::Pcapng(pcapng) => {
                paths.read(&pcapng.key);
                &pcapng.output
            }
            Form::Rpc(rpc) => {
                // The messages.
                paths.temporary(1);
                &rpc.output
            }
            Form::Html(html) => {
                paths.read(&html.kernel);
                &html.output
            }
        };
        if output != Path::new("-") {
            paths.write(output);
        }
    }

    pub(crate) fn new_files(&self) -> NewFiles {
        match &self.form {
            #[cfg(feature = "parquet")]
            Form::Parquet(parquet) => parquet.new_files,
            Form::Pcapng(pcapng) => pcapng.new_files,
            Form::Rpc(rpc) => rpc.new_files,
            Form::Html(html) => html.new_files,
        }
    }
}

/// Writes pcapng to the file `output`, which appears when it is complete, or to standard output where it is `-` and no terminal. `write` returns what comes of it: its outer error
/// is one of the output. So is the outer error here, of standard output.
fn pcapng_to<T>(
    output: &Path,
    input: &Input,
    out: &mut Out,
    write: impl FnOnce(&mut dyn Write) -> io::Result<Result<T>>,
) -> io::Result<Result<T>> {
    if output == Path::new("-") {
        if io::stdout().is_terminal() {
            return Ok(Err(anyhow!(
                "pcapng is nothing for a terminal: name a file with --output, or pipe it on"
            )));
        }
        return write(out);
    }
    let to_file = || {
        let cannot = || format!("{}: cannot be written", output.display());
        let mut file = OutputFile::create(output, &input.files, "--output")?;
        let written = write(&mut file).with_context(cannot)??;
        file.finish().with_context(cannot)?;
        Ok(written)
    };
    Ok(to_file())
}

/// Runs one of the exports.
pub(crate) fn run(command: &mut Export, out: &mut Out) -> io::Result<Status> {
    match &mut command.form {
        #[cfg(feature = "parquet")]
        Form::Parquet(parquet) => parquet::run(parquet, out),
        Form::Pcapng(pcapng) => pcapng::run(pcapng, out),
        Form::Rpc(rpc) => rpc::run(rpc, out),
        Form::Html(html) => html::run(html, out),
    }
}
