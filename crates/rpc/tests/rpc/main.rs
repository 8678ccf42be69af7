//! The server and the client over real sockets: with each other, with strangers, and with recorded Java clients.

mod authentication;
mod golden;
mod groups;
mod hostile;
mod nodes;
#[path = "../../../security/tests/support/played_kerberos.rs"]
mod played_kerberos;
mod stories;
mod support;
mod urgent;
