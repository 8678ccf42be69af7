//! What comes in: a request with everything the leader decided.

use crate::caller::Caller;
use crate::ops::Op;
use crate::retry_key::RetryKey;
use types::Millis;

/// One change of the namespace, as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The leader's clock. The state knows no other.
    pub now: Millis,
    pub caller: Caller,
    /// `None` if the client gave no usable id (empty client id, negative call id): then a repeat runs again.
    pub retry: Option<RetryKey>,
    pub op: Op,
}
types::record!(Request { 0: now, 1: caller, 2: retry, 3: op });
