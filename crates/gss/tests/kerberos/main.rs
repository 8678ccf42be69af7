//! Logins at a real KDC: each story has one of its own, with two realms, in a process of its own.

mod hostile;
mod jdk;
mod keys;
mod load;
mod logins;
mod negotiation;
mod sealing;
mod support;
mod times;
