//! Bytes → hash: MurmurHash3, once over the key row and once more over its result.

const ROW_SEED: u32 = 42;

/// Hashes the bytes of a key row, as Flink's `BinaryRowData.hashCode` does: MurmurHash3 x86_32 with
/// seed 42. One pass, no allocation.
///
/// A key row is a multiple of 8 bytes long, so for Flink the hash has no tail. For bytes of any other
/// length the result is the standard MurmurHash3 x86_32 of all of them.
///
/// The result is the same on machines of either byte order.
///
/// ```
/// use keygroup::hash_of;
///
/// let no_columns = [0; 8]; // the key row of a query without PARTITION BY
/// assert_eq!(hash_of(&no_columns), -1_670_924_195);
/// ```
#[must_use]
pub fn hash_of(key_row: &[u8]) -> i32 {
    let (words, tail) = key_row.as_chunks::<4>();
    let mut state = ROW_SEED;
    for word in words {
        state = mix_state(state ^ mix_word(u32::from_le_bytes(*word)));
    }
    if !tail.is_empty() {
        let mut word = [0; 4];
        word[..tail.len()].copy_from_slice(tail);
        state ^= mix_word(u32::from_le_bytes(word));
    }
    // Java counts the length in an `int`, so the low 32 bits are what it would mix in.
    finish(state ^ key_row.len() as u32).cast_signed()
}

/// Spreads a hash over `0..=i32::MAX`, as Flink's `MathUtils.murmurHash` does: MurmurHash3 of the
/// one word with seed 0, then the magnitude. The one word without a magnitude gives 0.
pub(crate) fn spread(hash: i32) -> u32 {
    let mixed = finish(mix_state(mix_word(hash.cast_unsigned())) ^ 4).cast_signed();
    mixed.checked_abs().unwrap_or(0).cast_unsigned()
}

fn mix_word(word: u32) -> u32 {
    word.wrapping_mul(0xcc9e_2d51)
        .rotate_left(15)
        .wrapping_mul(0x1b87_3593)
}

fn mix_state(state: u32) -> u32 {
    state
        .rotate_left(13)
        .wrapping_mul(5)
        .wrapping_add(0xe654_6b64)
}

fn finish(mut hash: u32) -> u32 {
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::{finish, hash_of, mix_state, mix_word, spread};

    #[test]
    fn a_tail_is_hashed_as_murmur3_does() {
        let cases: [(&[u8], i32); 7] = [
            (b"", 142_593_372),
            (b"a", -1_293_573_533),
            (b"ab", -684_913_081),
            (b"abc", 1_313_807_976),
            (b"abcd", -396_302_900),
            (b"abcdefg", 1_781_200_409),
            (b"\xff\xfe\xfd", -1_774_787_642),
        ];
        for (bytes, expected) in cases {
            assert_eq!(hash_of(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn the_hash_without_a_magnitude_spreads_to_zero() {
        let hash = word_that_mixes_to(0x8000_0000);
        assert_eq!(
            finish(mix_state(mix_word(hash.cast_unsigned())) ^ 4).cast_signed(),
            i32::MIN
        );
        assert_eq!(spread(hash), 0);
    }

    #[test]
    fn hashes_that_mix_to_opposite_numbers_spread_alike() {
        for magnitude in [1, 2, 77, 0x7fff_ffff] {
            let (above, below) = (magnitude, 0_u32.wrapping_sub(magnitude));
            assert_eq!(spread(word_that_mixes_to(above)), magnitude);
            assert_eq!(spread(word_that_mixes_to(below)), magnitude);
        }
    }

    /// The word that the steps of [`spread`] take to `target`, each step undone in turn.
    fn word_that_mixes_to(target: u32) -> i32 {
        let mut word = target;
        word ^= word >> 16;
        word = word.wrapping_mul(inverse(0xc2b2_ae35));
        word ^= (word >> 13) ^ (word >> 26);
        word = word.wrapping_mul(inverse(0x85eb_ca6b));
        word ^= word >> 16;
        word ^= 4;
        word = word.wrapping_sub(0xe654_6b64).wrapping_mul(inverse(5));
        word = word.rotate_right(13).wrapping_mul(inverse(0x1b87_3593));
        word.rotate_right(15)
            .wrapping_mul(inverse(0xcc9e_2d51))
            .cast_signed()
    }

    /// The inverse of an odd number modulo 2³², by Newton's iteration.
    fn inverse(odd: u32) -> u32 {
        let mut inverse = odd;
        for _ in 0..5 {
            inverse = inverse.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(inverse)));
        }
        inverse
    }
}
