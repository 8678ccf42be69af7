//! Every target, briefly, as continuous integration runs it: all it begins with, and mutations of that, the same at
//! each run. More of them: `LEVADA_FUZZ_TRIES=1000000 cargo test --release -p fuzzed`.

use fuzzed::{TARGETS, Target, seeds};
use types::random::{Random, Seeded};

const TRIES: usize = 3000;
/// A store is opened, changed and synced each time.
const TRIES_OF_STORES: usize = 150;

fn tries(target: &Target) -> usize {
    let usual = if target.name == "kv_store" { TRIES_OF_STORES } else { TRIES };
    std::env::var("LEVADA_FUZZ_TRIES").ok().and_then(|tries| tries.parse().ok()).unwrap_or(usual)
}

/// Says which input it was before the panic goes on.
struct Guilty<'t>(&'t str, &'t [u8]);

impl Drop for Guilty<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let digits: String = self.1.iter().take(4096).map(|byte| format!("{byte:02x}")).collect();
            eprintln!("{} fails on {} bytes: {digits}", self.0, self.1.len());
        }
    }
}

fn run(target: &Target, bytes: &[u8]) {
    let _guilty = Guilty(target.name, bytes);
    (target.run)(bytes);
}

/// Some of what disks and strangers do to bytes.
fn mutated(bytes: &[u8], other: &[u8], random: &mut Seeded) -> Vec<u8> {
    const NUMBERS: [u32; 6] = [0, 1, 0x7f, 0xff, 0x7fff_ffff, 0xffff_ffff];
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(7) {
            0 => bytes.truncate(at),
            1 => drop(bytes.splice(at..at, (0..random.below(9)).map(|place| (place * 37) as u8))),
            2 if !other.is_empty() => {
                bytes.truncate(at);
                bytes.extend_from_slice(&other[random.below(other.len())..]);
            }
            3 => {
                let number = NUMBERS[random.below(NUMBERS.len())];
                let number = if random.below(2) == 0 { number.to_be_bytes() } else { number.to_le_bytes() };
                let end = bytes.len().min(at + number.len());
                bytes[at..end].copy_from_slice(&number[..end - at]);
            }
            4 => {
                let end = bytes.len().min(at + random.below(40));
                bytes.drain(at..end);
            }
            _ if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            _ => bytes.push(random.below(256) as u8),
        }
    }
    bytes
}

#[test]
fn no_bytes_break_a_parser() {
    for target in TARGETS {
        let mut random = Seeded(1);
        let mut seeds = seeds(target);
        seeds.push(Vec::new());
        for seed in &seeds {
            run(target, seed);
        }
        for _ in 0..tries(target) {
            let (one, other) = (&seeds[random.below(seeds.len())], &seeds[random.below(seeds.len())]);
            run(target, &mutated(one, other, &mut random));
        }
    }
}

/// A target that knows only noise stays outside the door.
#[test]
fn targets_begin_with_something() {
    for target in TARGETS {
        assert!(
            !seeds(target).is_empty(),
            "{}: put something into {}",
            target.name,
            fuzzed::kept(target.name).display()
        );
    }
}

/// Not a test: writes what libFuzzer begins with, target by target, into a directory.
#[test]
fn write_seeds() {
    let Some(dir) = std::env::var_os("LEVADA_FUZZ_SEEDS") else { return };
    for target in TARGETS {
        let dir = std::path::Path::new(&dir).join(target.name);
        std::fs::create_dir_all(&dir).unwrap();
        for (number, seed) in seeds(target).iter().enumerate() {
            std::fs::write(dir.join(format!("seed{number}")), seed).unwrap();
        }
    }
}

/// Each target has its binary for libFuzzer, which is outside of this workspace.
#[test]
fn every_target_can_be_fuzzed() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/Cargo.toml")).unwrap();
    for target in TARGETS {
        assert!(text.contains(&format!("name = \"{}\"", target.name)), "{} is missing in fuzz/Cargo.toml", target.name);
    }
}
