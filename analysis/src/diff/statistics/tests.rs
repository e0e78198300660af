//! The expected values come from scipy 1.17.1, by the calls in the comments.

use super::*;

fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
    let mut histogram = Histogram::new(3).unwrap();
    values.into_iter().for_each(|value| histogram.record(value).unwrap());
    histogram
}

fn close(actual: f64, expected: f64) {
    assert!((actual - expected).abs() <= expected * 1e-6, "{actual} is not {expected}");
}

/// `scipy.stats.mannwhitneyu(a, b, method="asymptotic")`. Values below 2048 have a bucket each.
#[test]
fn mann_whitney_matches_scipy() {
    let a = [1010, 1100, 1200, 1230, 1440, 1500, 1600, 1700, 1900, 2040];
    let b = [1300, 1450, 1550, 1800, 1900, 2000, 2010, 2020, 2030, 2045, 2046, 1440];
    close(mann_whitney(&histogram(a), &histogram(b)), 0.03768888939586322);
    // Most values are tied.
    let (a, b) = ([1, 2, 2, 3, 3, 3, 4], [2, 3, 4, 4, 5, 5, 6, 6]);
    close(mann_whitney(&histogram(a), &histogram(b)), 0.025144761173357368);
    close(mann_whitney(&histogram(b), &histogram(a)), 0.025144761173357368);
    close(mann_whitney(&histogram(1..201), &histogram(31..231)), 1.586260540112515e-06);
}

#[test]
fn tied_or_too_few_values_do_not_differ() {
    for (a, b) in [(vec![5; 3], vec![5; 9]), (vec![], vec![1]), (vec![], vec![]), (vec![1], vec![2])] {
        assert_eq!(mann_whitney(&histogram(a), &histogram(b)), 1.0);
    }
}

/// `mannwhitneyu(range(n), range(100, 100 + m), method="asymptotic")`: the greatest possible
/// difference.
#[test]
fn complete_separation_gives_the_least_probability() {
    for (a, b, expected) in [
        (1, 42, 0.09854737887319397),
        (3, 42, 0.004457223994225997),
        (4, 4, 0.03038282197657749),
        (5, 5, 0.012185780355344813),
        (8, 8, 0.0009391056991171899),
    ] {
        close(least_mann_whitney(a, b), expected);
        close(mann_whitney(&histogram(0..a), &histogram(100..100 + b)), expected);
    }
}

/// `scipy.stats.fisher_exact([[a, all_a - a], [b, all_b - b]])`, and for the last two
/// `scipy.stats.chi2_contingency(…, correction=True)`.
#[test]
fn shares_of_counts() {
    for (of_a, all_a, of_b, all_b, expected) in [
        (8, 10, 1, 6, 0.034965034965034975),
        (3, 10, 0, 20, 0.029556650246305417),
        (44, 265, 1, 19, 0.3271184486943592),
        (0, 265, 2, 19, 0.004255213258348678),
        (1, 1000, 8, 300, 5.3797956399526836e-05),
        (2, 5, 6, 10, 0.6083916083916083),
        (127, 2108, 90, 2390, 0.0005432306618726893),
        (30, 100, 45, 100, 0.04087153408900628),
    ] {
        close(shares(of_a, all_a, of_b, all_b), expected);
        close(shares(of_b, all_b, of_a, all_a), expected);
    }
    for (of_a, all_a, of_b, all_b) in [(0, 0, 3, 7), (0, 9, 0, 7), (9, 9, 7, 7), (5, 3, 4, 4)] {
        assert_eq!(shares(of_a, all_a, of_b, all_b), 1.0);
    }
    // The computation ends for the counts of long captures, with a finite result.
    for (of_a, of_b) in [(0, 1_000_000), (1, 2), (500_000_000, 1), (3_999_999_999, 4_000_000_000)] {
        let chance = shares(of_a, 4_000_000_000, of_b, 4_000_000_000);
        assert!((0.0..=1.0).contains(&chance), "{of_a} {of_b} {chance}");
    }
}

/// Half of the values are the same, and a fifth of one side's are outliers. The rank test finds
/// nothing (scipy: 0.63), the tail test does. `numpy.sort` puts the 180th of 200 at 100, beyond
/// which there are none of `a` and 20 of `b`; `chi2_contingency([[0, 100], [20, 80]])`.
#[test]
fn tails() {
    let a = histogram(1..101);
    let b = histogram((1..81).chain([1000; 20]));
    close(mann_whitney(&a, &b), 0.625752408091191);
    close(tail(&a, &b), 7.522468307632629e-06);
    assert_eq!(tail(&a, &a), 1.0);
    assert_eq!(tail(&a, &histogram([])), 1.0);
}

/// Holm's steps by hand: 0.005 x 4, then 0.01 x 3, then 0.03 x 2, then 0.04 x 1, which may not be
/// less than the one before.
#[test]
fn holm_corrects_several_tests() {
    let mut chances = [0.01, 0.04, 0.03, 0.005];
    correct(&mut chances);
    for (chance, expected) in chances.into_iter().zip([0.03, 0.06, 0.06, 0.02]) {
        close(chance, expected);
    }
    let mut chances = [0.6, 0.9];
    correct(&mut chances);
    assert_eq!(chances, [1.0, 1.0]);
    correct(&mut []);
}
