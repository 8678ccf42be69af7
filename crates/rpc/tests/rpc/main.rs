//! The server and the client over real sockets: with each other, with strangers, and with recorded Java clients.

mod golden;
mod hostile;
mod stories;
mod support;
mod urgent;
