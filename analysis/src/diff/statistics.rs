//! Tests of whether two samples differ by more than chance. They assume independent values, but no
//! distribution.

use core::cmp::Ordering;
use core::f64::consts::SQRT_2;
use hdrhistogram::Histogram;

/// The probability that two samples of one distribution are ranked at least as differently as
/// these. This is the two-sided test of Mann and Whitney (Wilcoxon's rank sum), by the normal
/// approximation with corrections for ties and continuity.
///
/// Values in the same bucket of the histograms count as equal. For small samples with a probability
/// below 0.01, the approximation exceeds the exact value, so it errs towards no difference.
pub(super) fn mann_whitney(a: &Histogram<u64>, b: &Histogram<u64>) -> f64 {
    let (count_a, count_b) = (a.len() as f64, b.len() as f64);
    // The number of pairs of one value from each sample whose greater value is in `b`. Equal values
    // count half.
    let (mut pairs, mut below_a, mut ties) = (0.0, 0.0, 0.0);
    for (_, in_a, in_b) in merged(a, b) {
        let (in_a, in_b) = (in_a as f64, in_b as f64);
        pairs += in_b * (below_a + in_a / 2.0);
        below_a += in_a;
        let tied = in_a + in_b;
        ties += tied * tied * tied - tied;
    }
    of_ranks(pairs, count_a, count_b, ties)
}

/// The least result of [`mann_whitney`] for samples of these sizes: all values of one are below all
/// values of the other.
pub(super) fn least_mann_whitney(count_a: u64, count_b: u64) -> f64 {
    of_ranks(0.0, count_a as f64, count_b as f64, 0.0)
}

fn of_ranks(pairs: f64, count_a: f64, count_b: f64, ties: f64) -> f64 {
    let all = count_a + count_b;
    let expected = count_a * count_b / 2.0;
    let variance = count_a * count_b / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    // This includes empty samples and samples with all values equal.
    if variance.is_nan() || variance <= 0.0 {
        return 1.0;
    }
    two_sided(((pairs - expected).abs() - 0.5).max(0.0) / variance.sqrt())
}

/// The probability of tails that differ as much as these. The tail of a sample is its part beyond
/// the 90th percentile of both samples together.
pub(super) fn tail(a: &Histogram<u64>, b: &Histogram<u64>) -> f64 {
    let (count_a, count_b) = (a.len(), b.len());
    let (mut upto_a, mut upto_b) = (0, 0);
    for (_, in_a, in_b) in merged(a, b) {
        upto_a += in_a;
        upto_b += in_b;
        if (upto_a + upto_b) as f64 >= 0.9 * (count_a + count_b) as f64 {
            break;
        }
    }
    shares(count_a - upto_a, count_a, count_b - upto_b, count_b)
}

/// The probability that equal shares differ as much as `of_a` in `all_a` and `of_b` in `all_b`:
/// Fisher's two-sided exact test. If each of the four expected numbers is at least five, it is the
/// chi-squared test with Yates's correction.
pub(super) fn shares(of_a: u64, all_a: u64, of_b: u64, all_b: u64) -> f64 {
    let (of_a, all_a, of_b, all_b) =
        (of_a.min(all_a) as f64, all_a as f64, of_b.min(all_b) as f64, all_b as f64);
    let (of_both, all) = (of_a + of_b, all_a + all_b);
    if of_both == 0.0 || of_both == all || all_a == 0.0 || all_b == 0.0 {
        return 1.0;
    }
    let expected = all_a * of_both / all;
    let least = expected.min(all_a - expected).min(of_both - expected).min(all_b - of_both + expected);
    if least < 5.0 {
        return fisher(of_a, all_a, of_both, all);
    }
    let variance = expected * (all - of_both) / all * all_b / all;
    two_sided(((of_a - expected).abs() - 0.5).max(0.0) / variance.sqrt())
}

/// The sum of the probabilities of all tables with these margins that are no likelier than the one
/// with `of_a`.
///
/// One of the four expected numbers is below five, so few tables are likely. The sums start at the
/// most likely table and soon reach terms that are negligible.
fn fisher(of_a: f64, all_a: f64, of_both: f64, all: f64) -> f64 {
    let ln_choose =
        |n: f64, k: f64| libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0);
    let chance = |of_a: f64| {
        (ln_choose(all_a, of_a) + ln_choose(all - all_a, of_both - of_a) - ln_choose(all, of_both)).exp()
    };
    let (least, most) = ((of_both - (all - all_a)).max(0.0), of_both.min(all_a));
    let mode = ((all_a + 1.0) * (of_both + 1.0) / (all + 2.0)).floor().clamp(least, most);
    // Probabilities that are equal in theory can differ by rounding.
    let limit = chance(of_a) * (1.0 + 1e-7);
    let steps = |step: f64| core::iter::successors(Some(mode), move |of_a| Some(of_a + step));
    let up = steps(1.0).take_while(|of_a| *of_a <= most);
    let down = steps(-1.0).skip(1).take_while(|of_a| *of_a >= least);
    const NOTHING: f64 = 1e-18;
    let sum = |p: f64| if p <= limit { p } else { 0.0 };
    let up: f64 = up.map(chance).take_while(|p| *p > NOTHING).map(sum).sum();
    let down: f64 = down.map(chance).take_while(|p| *p > NOTHING).map(sum).sum();
    (up + down).min(1.0)
}

/// The probability that a standard normal variable is at least this far from zero.
fn two_sided(deviation: f64) -> f64 {
    libm::erfc(deviation / SQRT_2)
}

/// Corrects the probabilities of several tests by Holm's method. The probability that *any* of the
/// tests is wrong in finding a difference at some level stays below that level.
pub(super) fn correct(chances: &mut [f64]) {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|x, y| chances[*x].total_cmp(&chances[*y]));
    let mut least = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        let tests_left = (chances.len() - rank) as f64;
        least = least.max((chances[index] * tests_left).min(1.0));
        chances[index] = least;
    }
}

/// The values of a histogram in ascending order, each with its count. One value represents its
/// bucket.
pub fn counts(histogram: &Histogram<u64>) -> impl Iterator<Item = (u64, u64)> {
    histogram.iter_recorded().map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
}

/// The values of two histograms in ascending order, with their counts in `a` and in `b`.
fn merged(a: &Histogram<u64>, b: &Histogram<u64>) -> impl Iterator<Item = (u64, u64, u64)> {
    let (mut a, mut b) = (counts(a).peekable(), counts(b).peekable());
    core::iter::from_fn(move || {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((of_a, _)), Some((of_b, _))) => of_a.cmp(of_b),
        };
        let from_a = if order.is_le() { a.next() } else { None };
        let from_b = if order.is_ge() { b.next() } else { None };
        let value = from_a.or(from_b).map_or(0, |(value, _)| value);
        Some((value, from_a.map_or(0, |(_, count)| count), from_b.map_or(0, |(_, count)| count)))
    })
}

#[cfg(test)]
mod tests;
