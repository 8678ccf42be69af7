//! The client against servers that fail in every way a test can script.

mod abilities;
mod local;
mod openings;
mod ranges;
mod read;
mod small;
mod staged;
mod store;
mod support;
mod write;
