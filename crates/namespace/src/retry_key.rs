//! How a call that is repeated is known again.

/// Names a call across its retries: a client takes a new number for each call, and keeps it when it repeats one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RetryKey {
    pub client: [u8; 16],
    pub call: i32,
}
types::record!(RetryKey { 0: client, 1: call });
