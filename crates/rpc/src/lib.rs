//! Hadoop RPC over TCP: a server that answers stock HDFS clients and our own nodes, and a client.
//!
//! ```text
//!               ┌──────────── one task for each connection ────────────┐
//!   socket ────▶│ tls_opening, exchange: who calls                          │
//!               │ session (pure): frames ─▶ calls ──┐                  │
//!               │                                   ├─▶ a task a call ─┼─▶ Service::call
//!   socket ◀────│ writer: batches of answers ◀──────┘                  │
//!               └──────────────────────────────────────────────────────┘
//! ```
//!
//! Promise: calls of one connection run side by side up to a limit, and answers go out as they are done. Every queue,
//! length and wait has a limit: at a limit the server stops reading, and a client that takes no answers is cut off. A
//! call that panics is answered with an error, and its connection lives. No call is made before its caller proved what
//! the server's [`Authentication`] asks for; what was agreed on to protect the connection protects all of it.

mod answers;
mod beside;
mod budget;
mod call;
mod call_error;
mod calls;
mod client;
mod client_options;
mod coming;
mod connection;
mod exchange;
mod expected;
mod host;
mod identity;
mod introduction;
mod inward;
mod lane;
mod link;
mod log_text;
mod login;
mod options;
mod origins;
mod pace;
mod patience;
mod pending;
mod reader;
mod refusal;
mod request_header;
mod seal;
mod server;
mod servers;
mod session;
mod stream;
mod tls_opening;
mod writer;

pub use answers::AnswerRoom;
pub use budget::Usage;
pub use call::{Call, Service, Untaken};
pub use call_error::CallError;
pub use client::{Answer, Attempt, Client, Request};
pub use client_options::{ClientOptions, NodeProof};
pub use hdfs::Exception;
pub use identity::{Identity, Proof};
pub use log_text::log_text;
pub use login::{Kerberos, Login, LoginToken};
pub use options::{Authentication, FRAME_LEN_MAX, ServerOptions};
pub use origins::Origins;
pub use patience::Patience;
pub use server::{Server, UsageReader};
pub use servers::Servers;
