//! Random numbers that are the same on every machine and in every version: SplitMix64.
//!
//! Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.

/// A stream of random numbers that its seed decides.
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    /// The stream of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream of a name: equal names give equal streams.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        Self(
            name.bytes()
                .fold(0, |state, byte| scramble(state ^ u64::from(byte))),
        )
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        let number = scramble(self.0);
        self.0 = self.0.wrapping_add(INCREMENT);
        number
    }

    /// The next number below `bound`, with a bias below 2^-32 for bounds of 32 bits.
    ///
    /// # Panics
    ///
    /// If `bound` is 0: there is no number below it.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a bound is at least 1");
        self.next_u64() % bound
    }
}

const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// One to one on 64-bit numbers: different inputs give different, scattered outputs.
#[must_use]
pub fn scramble(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(INCREMENT);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::Seed;

    #[test]
    fn the_numbers_are_those_of_the_reference_implementation() {
        let mut seed = Seed::new(1_234_567);
        let numbers = [seed.next_u64(), seed.next_u64(), seed.next_u64()];
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }
}
