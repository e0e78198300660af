//! `rdmascope export`: results in formats of other programs.

mod html;
#[cfg(feature = "parquet")]
mod parquet;
mod pcapng;
mod rpc;

use crate::atomic_file::OutputFile;
use crate::confine::Paths;
use crate::input::Input;
use crate::mode::NewFiles;
use crate::output::{Failure, Out, Status};
use crate::terminal;
use anyhow::Context as _;
use clap::{Args, Subcommand};
use html::Html;
pub(crate) use html::page;
use pcapng::Pcapng;
use rdmascope_capture_agent::{Compression, Compressor};
use rpc::Rpc;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(crate) struct Export {
    #[command(subcommand)]
    form: Form,
}

/// The output of an export to one file.
#[derive(Args, Debug)]
struct FileArguments {
    /// Output file, or `-` for standard output
    ///
    /// The file appears when it is complete. It replaces an existing regular file and keeps its
    /// mode.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    new_files: NewFiles,
}

/// The export formats.
#[derive(Subcommand, Debug)]
enum Form {
    /// Write tables for DuckDB, Polars or Spark
    ///
    /// There are tables of transactions, operations, RPC-over-RDMA messages, packets, connections
    /// and findings. They are partitioned by capture, so captures in one folder can be queried
    /// together. docs/parquet.md describes the columns.
    #[cfg(feature = "parquet")]
    #[command(after_help = parquet::EXAMPLES)]
    Parquet(Box<parquet::Parquet>),
    /// Write the packets as pcapng, with comments for Wireshark
    ///
    /// A file whose name ends in .gz or .zst is compressed.
    ///
    /// The output has all packets in order, with time stamps in nanoseconds and original lengths.
    /// The comment of a packet gives its connection and transaction, and its role: a call, bytes of
    /// a chunk, a reply with status and latency, an acknowledgement, or a retransmission with the
    /// original frame. The comment also lists errors: a bad ICRC, a NAK, data missing from the
    /// capture. Notes of `rdmascope capture` in a pcapng input (connections, kernel traces) are
    /// copied; comments and other blocks are not. `--anonymize` writes a capture without names,
    /// addresses and data.
    ///
    /// The capture is read twice; standard input is kept in a temporary file. Memory use grows with
    /// the number of transactions, Sends and RDMA operations: a few hundred bytes each.
    #[command(after_help = pcapng::EXAMPLES)]
    Pcapng(Box<Pcapng>),
    /// Write the RPC messages as RPC over TCP
    ///
    /// A file whose name ends in .gz or .zst is compressed.
    ///
    /// The output is pcapng for NFS tools that do not support RPC-over-RDMA; Wireshark and tshark
    /// read it, too. It has each message before reduction, in one TCP connection per RDMA
    /// connection, at the time its Send was complete. Addresses are those of the connection; the
    /// server's port is 2049. A comment gives the transaction and the frames. Segments,
    /// acknowledgements and the handshake are synthetic.
    ///
    /// A message with bytes missing from the capture is truncated there, as by a snap length.
    /// RDMA_ERROR has no RPC form and is omitted. Standard error lists what is omitted. The
    /// messages need a temporary file of their total size.
    #[command(after_help = rpc::EXAMPLES)]
    Rpc(Box<Rpc>),
    /// Write a report as a single HTML page
    ///
    /// The page needs no network. It has the report of `analyze`, charts of latencies, throughput,
    /// transactions and credits over time, and drawings of the slowest and the failed transactions.
    ///
    /// The capture is read twice; standard input is kept in a temporary file. The size of the page
    /// and the memory use do not grow with the length of the capture.
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
    /// The input that is read as one capture. `None` for Parquet, which expands folders itself.
    pub(crate) fn input(&mut self) -> Option<&mut Input> {
        match &mut self.form {
            #[cfg(feature = "parquet")]
            Form::Parquet(_) => None,
            Form::Pcapng(pcapng) => Some(&mut pcapng.input),
            Form::Rpc(rpc) => Some(&mut rpc.input),
            Form::Html(html) => Some(&mut html.input),
        }
    }

    /// Adds the files besides [`Export::input`] that the command works on.
    pub(crate) fn add_to(&self, paths: &mut Paths) {
        let output = match &self.form {
            #[cfg(feature = "parquet")]
            Form::Parquet(parquet) => {
                paths.read(&parquet.input.files);
                paths.read(parquet.input.with.others());
                &parquet.output
            }
            Form::Pcapng(pcapng) => {
                paths.read(&pcapng.key);
                paths.read(&pcapng.notes);
                &pcapng.file.output
            }
            Form::Rpc(rpc) => {
                // The messages are spooled to it.
                paths.temporary(1);
                &rpc.file.output
            }
            Form::Html(html) => {
                paths.read(&html.kernel);
                &html.file.output
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
            Form::Pcapng(pcapng) => pcapng.file.new_files,
            Form::Rpc(rpc) => rpc.file.new_files,
            Form::Html(html) => html.file.new_files,
        }
    }
}

/// Writes pcapng to the file `output`, which appears when it is complete, or to standard output for
/// `-`, unless that is a terminal. The file is compressed if its name ends in .gz or .zst.
fn pcapng_to<T>(
    output: &Path,
    input: &Input,
    out: &mut Out,
    write: impl FnOnce(&mut dyn Write) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if output == Path::new("-") {
        terminal::refuse_pcapng("--output")?;
        return write(out);
    }
    let cannot = || format!("{}: cannot be written", output.display());
    let file = OutputFile::create(output, &input.files, "--output")?;
    let mut file = Compressor::new(Compression::of_name(output), file).with_context(cannot)?;
    let written = write(&mut file).map_err(|failure| failure.about(cannot()))?;
    file.finish().and_then(OutputFile::finish).with_context(cannot)?;
    Ok(written)
}

/// The first `most` characters of a text, and an ellipsis if it is longer.
fn beginning(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}\u{2026}", &text[..end]),
        None => text.to_owned(),
    }
}

/// Runs the export.
pub(crate) fn run(command: &mut Export, out: &mut Out) -> Result<Status, Failure> {
    match &mut command.form {
        #[cfg(feature = "parquet")]
        Form::Parquet(parquet) => parquet::run(parquet, out),
        Form::Pcapng(pcapng) => pcapng::run(pcapng, out),
        Form::Rpc(rpc) => rpc::run(rpc, out),
        Form::Html(html) => html::run(html, out),
    }
}
