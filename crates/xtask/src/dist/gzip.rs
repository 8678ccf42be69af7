//! A gzip member (RFC 1952) without a name and a time, so that equal bytes stay equal.

/// Of the program, level 9 of gzip makes 0.7 % less in three times as long.
const LEVEL: u8 = 6;

pub(super) fn compress(bytes: &[u8]) -> Vec<u8> {
    // Magic, deflate, no flags, no time, nothing about the compression, any system.
    let mut member = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    member.extend(miniz_oxide::deflate::compress_to_vec(bytes, LEVEL));
    member.extend(crc32fast::hash(bytes).to_le_bytes());
    // Modulo 2³², as the standard has it.
    member.extend((bytes.len() as u32).to_le_bytes());
    member
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    #[test]
    fn gzip_reads_it() {
        let bytes: Vec<u8> = (0..200_000_u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
        let compressed = super::compress(&bytes);
        assert!(compressed.len() < bytes.len() / 4);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.gz");
        std::fs::write(&path, compressed).unwrap();
        assert!(Command::new("gzip").arg("-dc").arg(path).output().unwrap().stdout == bytes);
    }
}
