//! Holds the table of allowed edges between crates: a crate is a promise about effects, and arrows point inward only.

use std::collections::{BTreeMap, BTreeSet};

/// A crate and the crates of ours it may import.
const ALLOWED: &[(&str, &[&str])] = &[
    // ring 0: words
    ("types", &[]),
    // ring 1: pure
    ("wire", &["types"]),
    ("hdfs", &["types"]),
    ("namespace", &["types"]),
    ("blocks", &["types"]),
    ("lead", &["types", "namespace", "blocks", "security"]),
    ("xfer", &["types", "wire", "hdfs"]),
    ("datanode", &["types", "wire", "security"]),
    ("security", &["types", "wire", "hdfs"]),
    ("layout", &[]),
    ("prefetch", &["types", "layout"]),
    ("xroot", &["types"]),
    ("edge", &["types"]),
    // ring 2: effects
    ("io", &["types"]),
    ("metrics", &[]),
    ("host", &["types", "wire", "io", "metrics"]),
    ("kv", &["types", "io"]),
    ("container", &["types", "io", "metrics", "kv"]),
    ("disks", &["types", "io", "container"]),
    ("raft", &["types", "io", "metrics", "kv"]),
    ("tls", &["types", "io", "security"]),
    ("rpc", &["types", "io", "hdfs", "security", "tls"]),
    ("gss", &["types", "io", "security"]),
    ("sasl", &["io", "security", "xfer"]),
    // ring 3: services
    (
        "metad",
        &[
            "types",
            "wire",
            "hdfs",
            "namespace",
            "blocks",
            "security",
            "lead",
            "io",
            "metrics",
            "host",
            "kv",
            "raft",
            "rpc",
            "gss",
            "tls",
        ],
    ),
    (
        "datad",
        &[
            "types",
            "wire",
            "hdfs",
            "xfer",
            "security",
            "datanode",
            "io",
            "metrics",
            "host",
            "container",
            "disks",
            "layout",
            "rpc",
            "sasl",
            "tls",
        ],
    ),
    ("client", &["types", "wire", "hdfs", "security", "xfer", "layout", "prefetch", "io", "rpc", "gss", "sasl"]),
    ("http", &["types", "io", "metrics", "tls"]),
    // ring 4: products
    ("gateway", &["types", "wire", "hdfs", "xfer", "xroot", "edge", "rpc", "io", "metrics", "host", "client", "http"]),
    ("levada", &["types", "io", "metrics", "host", "security", "tls", "metad", "datad", "client", "http", "gateway"]),
    ("levada-object-store", &["types", "client"]),
    ("levada-py", &["types", "io", "client"]),
    // aside: development only
    ("testkit", &["types"]),
    (
        "fuzzed",
        &[
            "types",
            "wire",
            "hdfs",
            "xfer",
            "security",
            "prefetch",
            "namespace",
            "blocks",
            "kv",
            "container",
            "raft",
            "gateway",
            "layout",
            "xroot",
            "edge",
        ],
    ),
    (
        "levada-sim",
        &[
            "types",
            "wire",
            "hdfs",
            "namespace",
            "blocks",
            "lead",
            "xfer",
            "datanode",
            "security",
            "io",
            "kv",
            "raft",
            "rpc",
            "metad",
        ],
    ),
    ("xtask", &[]),
];

/// Rings 0 and 1 have no clock, socket, disk, thread, chance or `async`, so they may import only crates that have none.
const PURE: &[&str] = &[
    "types",
    "wire",
    "hdfs",
    "namespace",
    "blocks",
    "lead",
    "xfer",
    "datanode",
    "security",
    "layout",
    "prefetch",
    "xroot",
    "edge",
];
const PURE_EXTERNALS: &[&str] = &[
    "bytes",
    "crc32c",
    "crc32fast",
    "prost",
    "serde",
    "thiserror",
    // Of security: RustCrypto without its sources of chance, and regular expressions.
    "aes",
    "base64ct",
    "ctr",
    "ctutils",
    "hmac",
    "md-5",
    "rc4",
    "regex-lite",
    "sha2",
    // Of layout: decoders of bytes at hand.
    "lz4_flex",
    "lzma-rust2",
    "miniz_oxide",
    "ruzstd",
];

/// Every crate, and what it names under `[dependencies]`.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = testkit::cargo_metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    packages
        .iter()
        .map(|package| {
            let normal = package["dependencies"].as_array().expect("dependencies").iter();
            let normal = normal.filter(|dependency| dependency["kind"].is_null());
            (text(&package["name"]), normal.map(|dependency| text(&dependency["name"])).collect())
        })
        .collect()
}

#[test]
fn crates_import_only_what_the_table_allows() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let found = dependencies();
    let ours: BTreeSet<&str> = found.keys().map(String::as_str).collect();
    let table: BTreeSet<&str> = allowed.keys().copied().collect();
    assert_eq!(ours, table, "every crate has its line in the table");
    for (name, imports) in &found {
        for import in imports.iter().filter(|import| ours.contains(import.as_str())) {
            let may = allowed[name.as_str()].contains(&import.as_str());
            assert!(may, "{name} imports {import}; if that is right, change the table and DESIGN's with it");
        }
    }
}

#[test]
fn pure_crates_import_nothing_that_acts() {
    let found = dependencies();
    for name in PURE {
        for import in &found[*name] {
            let may = PURE.contains(&import.as_str()) || PURE_EXTERNALS.contains(&import.as_str());
            assert!(may, "{name} is pure and imports {import}");
        }
    }
}

/// Crates of a program's own business, and the external ones that are seen through them alone.
const PROGRAMS_ONLY: &[&str] = &["host", "libmimalloc-sys", "mimalloc", "nix"];

/// Whoever loads `client` into a process of theirs links no allocator, user database or limits of a process.
#[test]
fn the_client_links_nothing_of_a_program() {
    let found = dependencies();
    let mut reached = BTreeSet::new();
    let mut left = vec!["client"];
    while let Some(name) = left.pop() {
        let Some(imports) = found.get(name) else { continue };
        left.extend(imports.iter().map(String::as_str).filter(|import| reached.insert(*import)));
    }
    assert!(reached.contains("io") && reached.contains("rpc"), "{reached:?}");
    for name in PROGRAMS_ONLY {
        assert!(!reached.contains(name), "client comes to {name}");
    }
}

/// Deliberate faults are for the simulation: a binary that has them could be told to lose bytes.
#[test]
fn nobody_but_the_simulation_has_deliberate_faults() {
    let metadata = testkit::cargo_metadata();
    let packages = metadata["packages"].as_array().expect("packages").iter();
    let mut who = Vec::new();
    for package in packages {
        // What only tests link is in no binary.
        let linked = package["dependencies"].as_array().expect("dependencies").iter();
        let asks = linked.filter(|dependency| dependency["kind"].is_null()).any(|dependency| {
            dependency["features"].as_array().is_some_and(|features| features.iter().any(|name| name == "mutations"))
        });
        let offers = package["name"] != "types" && package["features"].get("mutations").is_some();
        who.extend((asks || offers).then(|| package["name"].as_str().unwrap_or_default().to_owned()));
    }
    assert_eq!(who, ["levada-sim"]);
}

/// `unsafe` lives in `io`, in the one call of `kv` that maps the store, in the one of `host` to the allocator, where
/// `types` and `security` use instructions of some processors, where `gss` calls Kerberos' library, and where `py`
/// reads and writes memory of Python's objects.
#[test]
fn unsafe_code_stays_where_it_is_kept() {
    const KEPT: &[&str] = &[
        "io/",
        "kv/src/disk.rs",
        "host/src/memory.rs",
        "security/src/sasl/digest/md5/eight.rs",
        "types/src/folded.rs",
        "types/src/side_by_side.rs",
        "gss/src/c/",
        "py/src/buffer.rs",
        "py/src/memory.rs",
        "testkit/",
    ];
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/");
    for entry in testkit::source_files(root) {
        let text = std::fs::read_to_string(&entry).expect("a source file");
        let place = entry.strip_prefix(root).expect("below crates/").display().to_string();
        let kept = KEPT.iter().any(|kept| place.starts_with(kept));
        let allows = ["allow(unsafe_code", "expect(unsafe_code"].iter().any(|text_of| text.contains(text_of));
        assert!(kept || !allows, "{place} allows unsafe code");
    }
}
