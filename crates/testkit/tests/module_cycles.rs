//! Holds that modules of a crate import each other in one direction only: in each directory, files and directories can
//! be put in an order in which each knows but those before it.
//!
//! A path names the module it stands for: `crate::a::X` is an import of `a`, wherever `X` is defined. So a file takes
//! an item from where it is, and not from the `mod.rs` or `lib.rs` that shows it to others. What a method of a type
//! does in another file is not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use testkit::source::{Source, Token};

/// In `sim` the world holds all that a run is made of, and each of those asks the world: there is no order to be had
/// that would help a reader.
const EXEMPT: &[&str] = &["sim"];

/// A module by its names from the crate's root on, which has none.
type Module = Vec<String>;
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// Of the files of one crate, by their paths below `src`.
fn imports(files: &BTreeMap<String, String>) -> Imports {
    let sources: BTreeMap<Module, Source<'_>> =
        files.iter().map(|(path, text)| (module_of(path), Source::parse(text))).collect();
    let of_tests: Vec<Module> = sources
        .iter()
        .flat_map(|(module, source)| source.test_modules.iter().map(|name| child(module, name)))
        .collect();
    let ships = |module: &Module| !of_tests.iter().any(|test| module.starts_with(test));
    let known: BTreeSet<&Module> = sources.keys().filter(|module| ships(module)).collect();
    let shipped = sources.iter().filter(|(module, _)| ships(module));
    shipped
        .map(|(module, source)| {
            let named = paths(&source.tokens).into_iter().filter_map(|path| resolve(&known, module, &path));
            (module.clone(), named.filter(|named| named != module).collect())
        })
        .collect()
}

fn module_of(path: &str) -> Module {
    let path = path.strip_suffix(".rs").expect("a source file");
    let mut names: Module = path.split('/').map(str::to_owned).collect();
    names.pop_if(|last| last == "mod" || last == "lib");
    names
}

fn child(module: &Module, name: &str) -> Module {
    [module.as_slice(), &[name.to_owned()]].concat()
}

/// All paths of a file: those that it uses, each with all of its names, and those in its code.
fn paths<'a>(tokens: &[Token<'a>]) -> Vec<Vec<&'a str>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let is_bound = tokens.get(at + 1).is_some_and(|next| next.text == "<");
        if token.text == "use" && !is_bound {
            at = use_tree(tokens, at + 1, &[], &mut found);
        } else if is_name(token.text) {
            let mut path = vec![token.text];
            while let [colons, name, ..] = &tokens[at + 1..]
                && colons.text == "::"
                && is_name(name.text)
            {
                path.push(name.text);
                at += 2;
            }
            found.push(path);
        }
        at += 1;
    }
    found
}

/// Reads what begins at `at`, below `prefix`, and answers where it ends.
fn use_tree<'a>(tokens: &[Token<'a>], mut at: usize, prefix: &[&'a str], found: &mut Vec<Vec<&'a str>>) -> usize {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(at) {
        match token.text {
            "::" => {}
            "{" => {
                loop {
                    at = use_tree(tokens, at + 1, &path, found);
                    if tokens.get(at).is_none_or(|token| token.text != ",") {
                        break;
                    }
                }
                at += 1;
                return at;
            }
            "as" => at += 1,
            "," | "}" | ";" => break,
            name => path.push(name),
        }
        at += 1;
    }
    if path.len() > prefix.len() {
        found.push(path);
    }
    at
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// The module that a path in `module` is of; `None` if it leads out of the crate, or names nothing but an item here.
fn resolve(known: &BTreeSet<&Module>, module: &Module, path: &[&str]) -> Option<Module> {
    let (first, mut rest) = path.split_first()?;
    let mut names = match *first {
        // As in `pub(crate)`.
        "crate" | "super" if rest.is_empty() => return None,
        "crate" => Vec::new(),
        "self" => module.clone(),
        "super" => {
            let mut above = module.clone();
            above.pop();
            while let Some(("super", behind)) = rest.split_first().map(|(name, behind)| (*name, behind)) {
                above.pop();
                rest = behind;
            }
            above
        }
        name if path.len() > 1 && known.contains(&child(module, name)) => child(module, name),
        _ => return None,
    };
    for name in rest {
        let next = child(&names, name);
        if !known.contains(&next) {
            break;
        }
        names = next;
    }
    Some(names)
}

/// One cycle among the entries of some directory, as text.
fn cycle(imports: &Imports) -> Option<String> {
    let directories: BTreeSet<&[String]> =
        imports.keys().flat_map(|module| (0..=module.len()).map(|len| &module[..len])).collect();
    directories.into_iter().find_map(|directory| {
        // What stands for the directory itself, `mod.rs` or `lib.rs`, is an entry as well.
        let entry = |module: &Module| match module.strip_prefix(directory)? {
            [] => Some("mod".to_owned()),
            [first, ..] => Some(first.clone()),
        };
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (module, imported) in imports {
            let Some(from) = entry(module) else { continue };
            let to = imported.iter().filter_map(entry).filter(|to| *to != from);
            edges.entry(from.clone()).or_default().extend(to);
        }
        let cycle = cycle_in(&edges)?;
        Some(format!("in {}/: {}", directory.join("/"), cycle.join(" -> ")))
    })
}

/// Takes away whoever imports nothing that is left. From what stays each step leads on, and sometime back.
fn cycle_in(edges: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut left = edges.clone();
    loop {
        let ends: Vec<String> = left
            .iter()
            .filter(|(_, to)| !to.iter().any(|to| left.contains_key(to)))
            .map(|(name, _)| name.clone())
            .collect();
        if ends.is_empty() {
            break;
        }
        ends.iter().for_each(|name| _ = left.remove(name));
    }
    let mut way = vec![left.keys().next()?.clone()];
    loop {
        let next = left[way.last()?].iter().find(|to| left.contains_key(*to))?.clone();
        if let Some(begin) = way.iter().position(|name| *name == next) {
            way.push(next);
            return Some(way.split_off(begin));
        }
        way.push(next);
    }
}

fn files_of(src: &Path) -> BTreeMap<String, String> {
    let of_root = |path: &Path| path.strip_prefix(src).expect("below src").display().to_string();
    let files = testkit::source_files(src).into_iter();
    files.map(|path| (of_root(&path), std::fs::read_to_string(&path).expect("a source file"))).collect()
}

#[test]
fn crates_have_no_import_cycles() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/");
    let crates = std::fs::read_dir(crates).expect("crates/").map(|entry| entry.expect("an entry").path());
    let held: Vec<_> = crates.filter(|path| !EXEMPT.iter().any(|name| path.ends_with(name))).collect();
    let mut count = 0;
    for path in &held {
        let (name, imports) = (path.display(), imports(&files_of(&path.join("src"))));
        count += imports.values().map(BTreeSet::len).sum::<usize>();
        assert_eq!(cycle(&imports), None, "{name} has an import cycle: move what both need into a file of its own");
    }
    assert!(count > 3000, "{count} imports were read, of {held:?}");
}

/// Of made-up files.
fn found(files: &[(&str, &str)]) -> Option<String> {
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    cycle(&imports(&files.collect()))
}

#[test]
fn cycles_are_seen_in_whatever_way_a_module_is_named() {
    let of = |a, b| found(&[("lib.rs", "mod a; mod b; mod c; pub use a::A;"), ("a.rs", a), ("b.rs", b), ("c.rs", "")]);
    let seen = Some("in /: a -> b -> a".to_owned());
    assert_eq!(of("use crate::b::B;", "use types::Id; pub(crate) struct B;"), None);
    assert_eq!(of("use crate::b::B;", "use crate::a::A;"), seen);
    assert_eq!(of("use crate::{c, b};", "fn f() { crate::a::f(); }"), seen);
    assert_eq!(of("pub use crate::{c::{C as D, E}, b::B};", "pub fn f(a: &super::a::A) -> impl D + use<> { a }"), seen);
    assert_eq!(of("fn f() { use super::b::*; }", "type T = crate::a::T;"), seen);
    assert_eq!(of("", "use crate::A; mod d;"), None, "the root names a, and nobody names b");
    assert_eq!(of("use crate::b::B;", "use crate::A;"), Some("in /: a -> b -> mod -> a".to_owned()), "by the root");
}

#[test]
fn a_directory_counts_as_one() {
    let of = |one, two| {
        let x = "mod one; mod two; pub use one::One;";
        found(&[
            ("lib.rs", "mod x; mod y;"),
            ("x/mod.rs", x),
            ("x/one.rs", one),
            ("x/two.rs", two),
            ("y.rs", "use crate::x::two::T;"),
        ])
    };
    assert_eq!(of("use super::two::T;", ""), None);
    assert_eq!(of("use crate::y::Y;", ""), Some("in /: x -> y -> x".to_owned()), "no file of them imports itself");
    assert_eq!(of("use super::T;", ""), Some("in x/: mod -> one -> mod".to_owned()));
    assert_eq!(of("use super::two::T;", "fn f() -> super::one::One {}"), Some("in x/: one -> two -> one".to_owned()));
}

#[test]
fn what_does_not_ship_makes_no_cycle() {
    let tests = "#[cfg(test)]\nmod tests { use crate::b::B; }\n// crate::b\nconst T: &str = \"crate::b\";";
    let lib = "mod a; mod b; #[cfg(test)] mod golden;";
    let files =
        [("lib.rs", lib), ("a.rs", tests), ("b.rs", "use crate::a::A;"), ("golden.rs", "use crate::a::golden;")];
    assert_eq!(found(&files), None);
}
