//! The client against servers that fail in every way a test can script.

mod read;
mod support;
mod write;
