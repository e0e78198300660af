//! Looks up rules by name.

use crate::filters::{Named, similar};
use anyhow::bail;
use rdmascope_conformance::{Rule, SUBJECTS, rules};
use rdmascope_present::check::slug;

/// The rule ids, for completion scripts. Other names are checked where they are used: `--allow`
/// also takes subjects.
pub(crate) const RULE_NAME: Named = Named {
    kind: "rule",
    names: || rdmascope_conformance::rules().map(|rule| rule.id).collect(),
    is_other: |_| true,
};

/// The rules whose findings are allowed.
#[derive(Debug, Default)]
pub(crate) struct Allowed(Vec<&'static str>);

impl Allowed {
    /// The rules with these ids, and all rules of the subjects with these names.
    pub(crate) fn of(names: &[String]) -> anyhow::Result<Allowed> {
        let mut ids = Vec::new();
        for name in names {
            ids.extend(self::ids(name)?);
        }
        Ok(Allowed(ids))
    }

    /// The ids of the rules.
    pub(crate) fn ids(self) -> Vec<&'static str> {
        self.0
    }

    pub(crate) fn has(&self, rule: &Rule) -> bool {
        self.0.contains(&rule.id)
    }
}

/// The rule with this id, or all rules of the subject with this name.
pub(crate) fn ids(name: &str) -> anyhow::Result<Vec<&'static str>> {
    match SUBJECTS.iter().find(|subject| slug(subject.name) == name) {
        Some(subject) => Ok(subject.rules.iter().map(|rule| rule.id).collect()),
        None => Ok(vec![find(name)?.id]),
    }
}

/// The rule with this id. The error suggests similar ids.
pub(crate) fn find(id: &str) -> anyhow::Result<&'static Rule> {
    let Some(rule) = rdmascope_conformance::rule(id) else {
        let near = near(id);
        match near.as_slice() {
            [] => bail!("unknown rule {id:?}; rdmascope check --rules lists them"),
            near => bail!("unknown rule {id:?}: did you mean {}?", near.join(" or ")),
        }
    };
    Ok(rule)
}

/// The rules with similar ids, the most similar first.
fn near(id: &str) -> Vec<&'static str> {
    similar(&slug(id.trim()), rules().map(|rule| rule.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_found_by_name() {
        let error = |id: &str| find(id).expect_err("there is no such rule").to_string();
        assert!(find("credit-limit").is_ok());
        assert_eq!(error("credit-limt"), "unknown rule \"credit-limt\": did you mean credit-limit?");
        assert!(
            error("Inline Threshold").contains(": did you mean inline-threshold"),
            "{}",
            error("Inline Threshold")
        );
        for nothing in ["", "zzz", "\u{1b}[31m"] {
            assert!(error(nothing).ends_with("rdmascope check --rules lists them"), "{}", error(nothing));
        }
        assert!(Allowed::of(&["credits".into(), "nonsense".into()]).is_err());
        let allowed = Allowed::of(&["credits".into()]).expect("it is a subject");
        for rule in rdmascope_conformance::rules() {
            let of_credits = rdmascope_conformance::SUBJECTS[0].rules.iter().any(|one| one.id == rule.id);
            assert_eq!(allowed.has(rule), of_credits, "{}", rule.id);
        }
    }
}
