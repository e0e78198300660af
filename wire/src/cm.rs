//! Connection management messages (IBTA volume 1, chapter 12).

/// A CM message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a>(&'a [u8]);

impl Message<'_> {
    /// The specification's name of the message: `ConnectRequest`, `ConnectReply` …
    pub fn name(&self) -> &'static str {
        "CM"
    }
}
