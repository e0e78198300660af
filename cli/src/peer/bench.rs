//! The scenarios of `peer inject`, run one by one from the screen of `rdmascope tui`.

use super::inject::{Inject, Means, known, one};
use super::report::{Ladder, text};
use anyhow::Result;
use rdmascope_peer::scenario::{Side, Verdict};
use rdmascope_tui::inject::{Arrow, Bench, Offer, Ran, Runner};
use std::net::{IpAddr, SocketAddr};

/// Scenarios for the server `to`.
pub(crate) fn bench(to: SocketAddr, from: Option<IpAddr>) -> Result<Bench> {
    let chosen: Vec<_> = known(Some(Side::Requester)).collect();
    let mut offers = Vec::new();
    for (scenario, text) in &chosen {
        let mut explanation = Vec::new();
        text::explain(scenario, text, &mut explanation)?;
        offers.push(Offer {
            name: scenario.name.clone(),
            title: scenario.title.clone(),
            section: scenario.section().to_string(),
            explanation: String::from_utf8_lossy(&explanation).into_owned(),
            is_destructive: scenario.destructive,
        });
    }
    let open = move || -> Result<Runner, String> {
        // The screen asks before it runs a destructive one. What crosses is kept, as for the HTML page.
        let command = Inject::for_screen(to, from);
        let mut means = Means::open(&command).map_err(|error| format!("{error:#}"))?;
        Ok(Box::new(move |index| {
            let Some((scenario, _)) = chosen.get(index) else {
                return Err("there is no such scenario".into());
            };
            let ran = one(&command, to, &mut means, index, scenario).map_err(|error| format!("{error:#}"))?;
            let ran = ran.ok_or("interrupted")?;
            let mut told = Vec::new();
            text::ran(&ran, &mut told).map_err(|error| error.to_string())?;
            let ladder = means.take_kept().map(|kept| Ladder::of(&kept, to.ip())).unwrap_or_default();
            let arrows = ladder.arrows.into_iter().map(|arrow| Arrow {
                since: u64::try_from(arrow.since.as_nanos()).unwrap_or(u64::MAX),
                out: arrow.out,
                text: arrow.text,
            });
            Ok(Ran {
                verdict: ran
                    .verdict_words
                    .map_or_else(|| "withheld".to_owned(), |verdict| verdict.to_string()),
                is_violation: ran.verdict_words == Some(Verdict::Violates),
                told: String::from_utf8_lossy(&told).into_owned(),
                arrows: arrows.collect(),
            })
        }))
    };
    Ok(Bench { target: to.to_string(), offers, open: Box::new(open) })
}
