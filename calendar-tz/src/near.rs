//! What a misspelt identifier may have meant.

use crate::zone::offset_id;

/// Longer texts are no misspelt identifiers.
const LONGEST: usize = 48;

/// The abbreviations of Java's `ZoneId.SHORT_IDS`, which neither Java's `ZoneId.of` nor Flink takes,
/// and what they stand for.
const ABBREVIATIONS: &[(&str, &str)] = &[
    ("ACT", "Australia/Darwin"),
    ("AET", "Australia/Sydney"),
    ("AGT", "America/Argentina/Buenos_Aires"),
    ("ART", "Africa/Cairo"),
    ("AST", "America/Anchorage"),
    ("BET", "America/Sao_Paulo"),
    ("BST", "Asia/Dhaka"),
    ("CAT", "Africa/Harare"),
    ("CNT", "America/St_Johns"),
    ("CST", "America/Chicago"),
    ("CTT", "Asia/Shanghai"),
    ("EAT", "Africa/Addis_Ababa"),
    ("ECT", "Europe/Paris"),
    ("EST", "America/Panama"),
    ("HST", "Pacific/Honolulu"),
    ("IET", "America/Indiana/Indianapolis"),
    ("IST", "Asia/Kolkata"),
    ("JST", "Asia/Tokyo"),
    ("MIT", "Pacific/Apia"),
    ("MST", "America/Phoenix"),
    ("NET", "Asia/Yerevan"),
    ("NST", "Pacific/Auckland"),
    ("PLT", "Asia/Karachi"),
    ("PNT", "America/Phoenix"),
    ("PRT", "America/Puerto_Rico"),
    ("PST", "America/Los_Angeles"),
    ("SST", "Pacific/Guadalcanal"),
    ("VST", "Asia/Ho_Chi_Minh"),
];

/// The identifier that is most like `text`, if one is like it at all: an abbreviation that Java once
/// knew, an offset in another form, or a name that differs in case, separators or a few letters.
pub(crate) fn near<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let text = text.trim();
    if text.is_empty() || text.len() > LONGEST {
        return None;
    }
    let abbreviation = ABBREVIATIONS
        .iter()
        .find(|(short, _)| short.eq_ignore_ascii_case(text));
    if let Some((_, name)) = abbreviation {
        return Some((*name).to_owned());
    }
    if let Some(offset) = near_offset(text) {
        return Some(offset);
    }
    let folded = fold(text);
    let best = names
        .chain(["UTC", "GMT"])
        .map(|name| (distance(&folded, &fold(name)), name))
        .min()?;
    // A third of it may differ: "Ams/Newyrk" is no New York.
    (best.0 <= folded.len().div_ceil(4)).then(|| best.1.to_owned())
}

/// `GMT+05:30` for `utc + 5:30`.
fn near_offset(text: &str) -> Option<String> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let text = text.to_ascii_uppercase();
    let offset = ["UTC", "GMT", "UT", ""]
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix))?;
    if offset.is_empty() || offset == "Z" {
        return Some("UTC".to_owned());
    }
    let (sign, digits) = match offset.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = digits.split_once(':').unwrap_or((digits, "0"));
    let number = |text: &str| -> Option<i32> {
        let few_digits = text.len() <= 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        if few_digits { text.parse().ok() } else { None }
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    if hours * 60 + minutes > 18 * 60 || minutes > 59 {
        return None;
    }
    match sign * (hours * 3_600 + minutes * 60) {
        0 => Some("UTC".to_owned()),
        seconds => Some(format!("GMT{}", offset_id(seconds))),
    }
}

/// Letters and digits alone, in lower case.
fn fold(text: &str) -> Vec<u8> {
    text.bytes()
        .filter(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii())
        .map(|byte| byte.to_ascii_lowercase())
        .collect()
}

/// How many bytes to insert, remove or change.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, near};

    const NAMES: [&str; 4] = [
        "Europe/Berlin",
        "America/New_York",
        "Asia/Kolkata",
        "Etc/GMT+8",
    ];

    #[test]
    fn a_near_match_is_found_by_case_separator_or_letter() {
        for (text, expected) in [
            ("europe/berlin", Some("Europe/Berlin")),
            ("America/NewYork", Some("America/New_York")),
            ("Asia/Kolkatta", Some("Asia/Kolkata")),
            ("utc", Some("UTC")),
            (" UTC", Some("UTC")),
            ("z", Some("UTC")),
            ("GMT+5:30", Some("GMT+05:30")),
            ("UTC+8", Some("GMT+08:00")),
            ("-03:30", Some("GMT-03:30")),
            ("PST", Some("America/Los_Angeles")),
            ("GMT+19:00", None),
            ("Foo/Bar", None),
            ("", None),
            ("+é", None),
        ] {
            assert_eq!(near(text, NAMES.into_iter()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance(b"kitten", b"sitting"), 3);
        assert_eq!(distance(b"", b"abc"), 3);
    }
}
