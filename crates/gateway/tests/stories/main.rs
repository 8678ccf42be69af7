//! A gateway before a store in this process: what goes through it, files over HTTP, and files over XRootD; and an edge.

mod edge;
mod files;
mod root;
mod root_peer;
mod support;
mod tunnel;
