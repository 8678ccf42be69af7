//! Logins at a real KDC: each story has one of its own, with two realms, in a process of its own.

mod hostile;
mod keys;
mod load;
mod logins;
mod sealing;
mod support;
mod times;
