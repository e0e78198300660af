//! The scenarios of `peer inject`, run one by one from the screen of `rdmascope tui`, and the session that it shows, made again as by `peer replay`.

use super::inject::{Inject, Means, known, one};
use super::replay::Replay;
use super::report::{Ladder, text};
use crate::input::Input;
use anyhow::Result;
use rdmascope_peer::scenario::{Side, Verdict};
use rdmascope_tui::inject::{Arrow, Bench, Offer, Ran, Runner};
use std::net::{IpAddr, SocketAddr};

/// What the screen says of the session before it is sent.
const SESSION: &str = "\
Makes the calls of the capture again, each as soon as the replies are there that the capture has before it, and compares each reply with the recorded one. Handles, session IDs and stateids \
that the server's replies bring are put in place of those of the capture. Calls of which the capture lacks bytes are left out.

What the session wrote, made and removed, it writes, makes and removes again: on the server that --to names.

The same without a screen, with a fault in a call, from a call on, or with other file handles: rdmascope peer replay; docs/peer.md.
";

/// Scenarios for the server `to`, and in front of them the session of a capture, where there is one that can be read again.
pub(crate) fn bench(to: SocketAddr, from: Option<IpAddr>, session: Option<Input>) -> Result<Bench> {
    let chosen: Vec<_> = known(Some(Side::Requester)).collect();
    let mut offers = Vec::new();
    if session.is_some() {
        offers.push(Offer {
            name: "session".into(),
            title: "the calls of this capture again, their replies compared with the recorded ones".into(),
            section: String::new(),
            explanation: SESSION.into(),
            is_destructive: true,
            is_session: true,
        });
    }
    for (scenario, text) in &chosen {
        let mut explanation = Vec::new();
        text::explain(scenario, text, &mut explanation)?;
        offers.push(Offer {
            name: scenario.name.clone(),
            title: scenario.title.clone(),
            section: scenario.section().to_string(),
            explanation: String::from_utf8_lossy(&explanation).into_owned(),
            is_destructive: scenario.destructive,
            is_session: false,
        });
    }
    let open = move || -> Result<Runner, String> {
        // The screen asks before it runs a destructive one. What crosses is kept, as for the HTML page.
        let command = Inject::for_screen(to, from);
        let session = session.map(|input| Replay::for_screen(input, to, from));
        // Sockets: a session has its own.
        let mut opened = None;
        Ok(Box::new(move |index| {
            let place = match &session {
                Some(session) if index == 0 => {
                    opened = None;
                    return replayed(session).map_err(|error| format!("{error:#}"));
                }
                Some(_) => index - 1,
                None => index,
            };
            let Some((scenario, _)) = chosen.get(place) else {
                return Err("there is no such scenario".into());
            };
            let means = match &mut opened {
                Some(means) => means,
                none => none.insert(Means::open(&command).map_err(|error| format!("{error:#}"))?),
            };
            let ran = one(&command, to, means, index, scenario).map_err(|error| format!("{error:#}"))?;
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

/// Makes the calls of a capture again.
fn replayed(session: &Replay) -> Result<Ran> {
    let (told, agrees) = session.run_for_screen()?;
    Ok(Ran {
        verdict: if agrees { "agrees" } else { "differs" }.to_owned(),
        is_violation: false,
        told: String::from_utf8_lossy(&told).into_owned(),
        arrows: Vec::new(),
    })
}
