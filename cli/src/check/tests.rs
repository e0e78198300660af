use super::*;

#[test]
fn rules_are_found_by_name() {
    let error = |id: &str| find(id).expect_err("there is no such rule").to_string();
    assert!(find("credit-limit").is_ok());
    assert_eq!(error("credit-limt"), "no rule is called \"credit-limt\": is it credit-limit?");
    assert!(error("Inline Threshold").contains(": is it inline-threshold"), "{}", error("Inline Threshold"));
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
