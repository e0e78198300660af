//! Suggestions for misspelled names.

/// Returns the names most similar to `wanted`, the most similar first.
pub fn similar<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    const MOST: usize = 3;
    /// The least similarity of a suggestion.
    const LIKE: f64 = 0.6;
    let wanted = wanted.trim().to_ascii_lowercase();
    let likeness = |name: &str| match name.contains(wanted.as_str()) {
        true => 1.0,
        false => strsim::normalized_damerau_levenshtein(&wanted, name),
    };
    let mut found: Vec<(f64, &'a str)> = names
        .into_iter()
        .filter(|_| !wanted.is_empty())
        .map(|name| (likeness(&name.to_ascii_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= LIKE)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// Checks that `wanted` is one of the names of a kind of thing, ignoring case. The error suggests
/// the most similar names.
pub fn known<'a>(kind: &str, wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let names: Vec<&str> = names.into_iter().collect();
    if names.iter().any(|name| name.eq_ignore_ascii_case(wanted)) {
        return Ok(());
    }
    Err(match similar(wanted, names).as_slice() {
        [] => format!("unknown {kind}"),
        near => format!("unknown {kind}: did you mean {}?", near.join(" or ")),
    })
}
