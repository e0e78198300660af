//! The options of `peer serve` that choose how replies are conveyed.

use clap::{Args, ValueEnum};
use core::time::Duration;
use rdmascope_analysis::time::parse_duration;
use rdmascope_peer::rpcrdma::{Config, Mechanism, OfferLimits};

#[derive(Args, Debug)]
pub(super) struct ReplyArguments {
    /// Send a reply that fits neither inline nor in the Reply chunk of its call in a Read chunk;
    /// clients need the same option
    ///
    /// The reliable-reply draft describes this. RFC 8166 has no way to negotiate it. Without this
    /// option the answer is ERR_CHUNK.
    #[arg(long)]
    reliable_reply: bool,
    /// How to convey replies
    #[arg(long, value_enum, default_value_t = Choice::Auto, value_name = "KIND")]
    reply_mechanism: Choice,
    /// Free a Read chunk after this time without RDMA_DONE [default: 10s]
    #[arg(long, value_name = "TIME", requires = "reliable_reply", value_parser = parse_duration)]
    offer_time: Option<u64>,
    /// Free the oldest Read chunks of a connection beyond this many bytes [default: 64M]
    #[arg(long, value_name = "SIZE", requires = "reliable_reply", value_parser = crate::extract::parse_size)]
    offer_bytes: Option<u64>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// Inline if the reply fits, else the Reply chunk, else a Read chunk
    Auto,
    /// The Reply chunk if the reply fits, else as auto
    ReplyChunk,
    /// A Read chunk for every reply; needs --reliable-reply
    ReadChunk,
    /// Inline only; ERR_CHUNK for a reply that does not fit
    Send,
}

impl ReplyArguments {
    /// Sets the choices in the configuration of sessions.
    pub(super) fn apply(&self, config: &mut Config) {
        let default = OfferLimits::default();
        let time = self.offer_time.map_or(default.time, Duration::from_nanos);
        let limits = OfferLimits { time, bytes: self.offer_bytes.unwrap_or(default.bytes) };
        config.reliable_reply = self.reliable_reply.then_some(limits);
        config.reply_mechanism = match self.reply_mechanism {
            Choice::Auto => None,
            Choice::ReplyChunk => Some(Mechanism::ReplyChunk),
            Choice::ReadChunk => Some(Mechanism::ReadChunk),
            Choice::Send => Some(Mechanism::Send),
        };
    }

    /// Reports an invalid combination of options.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.reply_mechanism == Choice::ReadChunk && !self.reliable_reply {
            anyhow::bail!("--reply-mechanism read-chunk needs --reliable-reply");
        }
        Ok(())
    }
}
