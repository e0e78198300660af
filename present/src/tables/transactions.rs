//! Properties of transactions, in words.

use core::fmt;
use rdmascope_analysis::names::{self, Failure, Label, Quoted};
use rdmascope_analysis::paths::TransactionRow;
use rdmascope_analysis::replies::Mechanism;
use rdmascope_analysis::units::{Bytes, Duration};
use rdmascope_dissector::transaction::{Outcome, Transaction};
use rdmascope_dissector::ulb::{Details, Operation};
use rdmascope_wire::rpcrdma;

/// The status, or the reason for its absence.
pub struct Ending<'a>(pub &'a Transaction);

impl fmt::Display for Ending<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transaction = self.0;
        match Failure::of(transaction) {
            Some(Failure::Transport(Some(error))) => return write!(f, "{error}"),
            Some(Failure::Transport(None)) => return f.write_str("RDMA_ERROR"),
            Some(Failure::Rpc(status)) => return write!(f, "{status}"),
            Some(Failure::Status(_)) | None => {}
        }
        if transaction.outcome != Outcome::Completed {
            return f.write_str(names::outcome(transaction.outcome));
        }
        let Some(status) = transaction.status else { return f.write_str("-") };
        match names::status_of(transaction, status) {
            Some(name) => f.write_str(names::short_status(name)),
            None => write!(f, "{status}"),
        }
    }
}

/// How long the caller waited: the latency, or, without a reply, the time that it waited at least.
pub struct Waited<'a>(pub &'a Transaction);

impl fmt::Display for Waited<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.waited(), &self.0.reply) {
            (Some(waited), Some(_)) => Duration(waited).fmt(f),
            (Some(waited), None) => f.pad(&format!(">={}", Duration(waited))),
            (None, _) => f.pad("-"),
        }
    }
}

/// The files of a transaction, with which [`Remarks`] begin: the file, and the second one.
pub struct FilesOf<'a>(pub [Option<&'a [u8]>; 2]);

impl fmt::Display for FilesOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.map(|path| path.map(Quoted)) {
            [None, None] => Ok(()),
            [Some(file), None] => write!(f, "{file}"),
            [None, Some(other)] => write!(f, "to {other}"),
            [Some(file), Some(other)] => write!(f, "{file}; to {other}"),
        }
    }
}

/// The files, the chunks moved, the missing data, and the operations.
pub struct Remarks<'a>(pub TransactionRow<'a>);

impl fmt::Display for Remarks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transaction = self.0.transaction;
        let mut separator = "";
        let mut remark = |f: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>| {
            let written = write!(f, "{separator}{text}");
            separator = "; ";
            written
        };
        let [mut file, mut other] = [None::<Vec<u8>>, None];
        self.0.file(&mut |path| file = Some(path.into()));
        self.0.other_file(&mut |path| other = Some(path.into()));
        let (has_file, has_other) = (file.is_some(), other.is_some());
        if has_file || has_other {
            remark(f, format_args!("{}", FilesOf([file.as_deref(), other.as_deref()])))?;
        }
        let long_reply = match Mechanism::of(transaction) {
            Some(Mechanism::ReadChunk) => "reply in a Read chunk",
            _ => "Long Reply",
        };
        for (message, long) in [(&transaction.call, "Long Call"), (&transaction.reply, long_reply)] {
            if message.as_ref().is_some_and(|message| message.procedure == rpcrdma::Procedure::Nomsg) {
                remark(f, format_args!("{long}"))?;
            }
        }
        for (bytes, verb) in
            [(transaction.timing.read_bytes, "read"), (transaction.timing.written_bytes, "written")]
        {
            if bytes > 0 {
                remark(f, format_args!("{} {verb}", Bytes(bytes)))?;
            }
        }
        if transaction.messages().any(|message| !message.missing.is_empty()) {
            let problem = if transaction.memory_unseen { "data not captured" } else { "bytes missing" };
            remark(f, format_args!("{problem}"))?;
        } else if transaction.capture_gap {
            remark(f, format_args!("gap in the capture"))?;
        }
        let details = &transaction.details;
        match details.operations.as_slice() {
            [] => Ok(()),
            [operation] => {
                // The paths already contain the names of the operation.
                let mut operation = *operation;
                operation.file_name = operation.file_name.filter(|_| !has_file);
                operation.other_name = operation.other_name.filter(|_| !has_other);
                let shows = operation_details(&operation) || operation.other_name.is_some();
                if shows { remark(f, format_args!("{}", Arguments(details, &operation))) } else { Ok(()) }
            }
            _ => remark(f, format_args!("{}", Compound(details))),
        }
    }
}

/// The operations of a COMPOUND.
struct Compound<'a>(&'a Details);

impl fmt::Display for Compound<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, operation) in self.0.operations.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{}", Label::of_operation(operation))?;
            if operation_details(operation) {
                write!(f, "({})", Arguments(self.0, operation))?;
            }
        }
        Ok(())
    }
}

/// Whether [`Arguments`] shows anything.
pub fn operation_details(operation: &Operation) -> bool {
    operation.file_name.is_some() || operation.offset.is_some() || operation.count.is_some()
}

/// Name, offset and count of one operation.
pub struct Arguments<'a>(pub &'a Details, pub &'a Operation);

impl fmt::Display for Arguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Arguments(details, operation) = self;
        let mut space = "";
        for name in [operation.file_name, operation.other_name].into_iter().flatten() {
            write!(f, "{space}{}", Quoted(details.bytes(name)))?;
            space = " ";
        }
        match (operation.offset, operation.count) {
            (Some(offset), Some(u64::MAX)) => write!(f, "{space}to the end from {offset}"),
            (Some(offset), Some(count)) => write!(f, "{space}{count} at {offset}"),
            (Some(offset), None) => write!(f, "{space}at {offset}"),
            (None, Some(count)) => write!(f, "{space}{count}"),
            (None, None) => Ok(()),
        }
    }
}
