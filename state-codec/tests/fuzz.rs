//! What reads saved bytes survives any bytes: no panic, no hang, and no allocation beyond a multiple of the
//! input. The functions of `fuzz_targets` are those of the fuzz targets in `fuzz/`.

#[path = "../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "the fuzz targets are crates of their own")]
mod fuzz_targets;

use fuzz_targets::{manifest, rows, section, valid_manifest, valid_rows, valid_section};

/// Inputs of each test; times as many if `WEIR_TEST_TIMES` is set.
const INPUTS: u64 = 60_000;
const TIMES: &str = "WEIR_TEST_TIMES";

/// splitmix64
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// Bytes that are arbitrary, or valid ones with some of them changed, cut, doubled or moved.
    fn input(&mut self, valid: &[Vec<u8>]) -> Vec<u8> {
        if self.below(8) == 0 {
            let length = self.below(300);
            return (0..length).map(|_| self.next() as u8).collect();
        }
        let mut bytes = valid[self.below(valid.len())].clone();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(8) {
                0 => bytes.truncate(at),
                1 => {
                    let end = at + self.below(bytes.len() - at);
                    let piece = bytes[at..end].to_vec();
                    let to = self.below(bytes.len());
                    bytes.splice(to..to, piece);
                }
                2 => drop(bytes.drain(at..at + self.below(bytes.len() - at))),
                3..5 => {
                    // A number, as lengths and places are.
                    let few = [
                        0,
                        1,
                        7,
                        0x7f,
                        0xff,
                        0xffff,
                        0x7fff_ffff,
                        u64::MAX,
                        u64::MAX >> 1,
                    ];
                    let number = few[self.below(few.len())].to_le_bytes();
                    let width = [1, 2, 4, 8][self.below(4)];
                    let end = (at + width).min(bytes.len());
                    bytes[at..end].copy_from_slice(&number[..end - at]);
                }
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << self.below(8);
                    }
                }
            }
        }
        bytes
    }
}

fn survives(valid: &[Vec<u8>], read: impl Fn(&[u8]) -> bool, multiple: u64, constant: u64) {
    for bytes in valid {
        assert!(read(bytes), "a valid input is read");
    }
    let times = std::env::var(TIMES).map_or(1, |times| times.parse().unwrap());
    let mut draw = Draw(1);
    let mut accepted = 0_u64;
    for number in 0..INPUTS * times {
        let bytes = draw.input(valid);
        let limit = multiple * bytes.len() as u64 + constant;
        let allocated = allocation_counter::measure(|| accepted += u64::from(read(&bytes)));
        assert!(
            allocated.bytes_max <= limit,
            "input {number} of {} bytes allocates {}: {bytes:02x?}",
            bytes.len(),
            allocated.bytes_max
        );
    }
    assert!(
        accepted > 0 && accepted < INPUTS * times,
        "{accepted} accepted"
    );
}

#[test]
fn rows_survive_any_bytes() {
    survives(&valid_rows(), rows, 64, 64 << 10);
}

#[test]
fn sections_survive_any_bytes() {
    survives(&valid_section(), section, 16, 64 << 10);
}

#[test]
fn manifests_survive_any_bytes() {
    survives(&valid_manifest(), manifest, 32, 64 << 10);
}
