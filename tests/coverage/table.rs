//! The data of the table.

use rdmascope_conformance::Document;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A specification with its sentences.
#[derive(Debug)]
pub(crate) struct Specification {
    pub(crate) document: Document,
    /// Its name in scenarios.
    pub(crate) scenario_name: &'static str,
    /// The file with its text.
    pub(crate) file: &'static str,
    pub(crate) title: &'static str,
    /// Sections with requirement keywords, with the number of sentences that have one.
    pub(crate) sections: BTreeMap<String, usize>,
    pub(crate) sentences: Vec<Sentence>,
    pub(crate) without_keyword: Vec<WithoutKeyword>,
}

/// The data of one specification.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    sections: BTreeMap<String, usize>,
    sentence: Vec<Sentence>,
    #[serde(default)]
    beside: Vec<WithoutKeyword>,
}

/// A sentence with a requirement keyword.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sentence {
    pub(crate) section: String,
    /// Its number among the sentences of the section that have a keyword, from 1.
    pub(crate) ordinal: usize,
    /// Its keywords in their order.
    pub(crate) keywords: String,
    /// The requirement in our words.
    pub(crate) subject: String,
    /// Rules that notice a breach.
    #[serde(default)]
    pub(crate) rules: Vec<String>,
    /// Scenarios whose verdict depends on whether the target follows the sentence.
    #[serde(default)]
    pub(crate) provokes: Vec<String>,
    /// Scenarios that break the sentence themselves.
    #[serde(default)]
    pub(crate) injects: Vec<String>,
    /// Why there is neither rule nor scenario.
    pub(crate) neither: Option<Neither>,
    /// The reason, or the cases that the rules and scenarios leave open.
    pub(crate) note: Option<String>,
    /// A rule or a scenario that would close a gap.
    pub(crate) wanted: Option<String>,
}

/// Rules and scenarios that rest on sentences without a keyword.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WithoutKeyword {
    pub(crate) section: String,
    pub(crate) subject: String,
    #[serde(default)]
    pub(crate) rules: Vec<String>,
    #[serde(default)]
    pub(crate) scenarios: Vec<String>,
}

/// Why a sentence has neither rule nor scenario.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Neither {
    Unseen,
    Impossible,
    Elsewhere,
    Specification,
    Permission,
    NotYet,
}

impl Specification {
    /// Its name in a line.
    pub(crate) fn name(&self) -> &'static str {
        self.title.split(':').next().unwrap_or(self.title)
    }
}

impl Neither {
    pub(crate) const ALL: [Neither; 6] = [
        Neither::Unseen,
        Neither::Impossible,
        Neither::Elsewhere,
        Neither::Specification,
        Neither::Permission,
        Neither::NotYet,
    ];

    /// Its name on the page.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Neither::Unseen => "Not visible",
            Neither::Impossible => "Cannot be broken",
            Neither::Elsewhere => "Not over RDMA",
            Neither::Specification => "For specifications",
            Neither::Permission => "Permission",
            Neither::NotYet => "Not yet",
        }
    }

    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Neither::Unseen => "A breach changes nothing on the wire, or has other causes too.",
            Neither::Impossible => "No message of NFS over RDMA can break the sentence.",
            Neither::Elsewhere => "The sentence is about another transport, such as TCP.",
            Neither::Specification => {
                "The sentence is about Upper-Layer Bindings, registries or other documents."
            }
            Neither::Permission => "The sentence permits something, and no rule or scenario is about it.",
            Neither::NotYet => "A rule or a scenario is possible, but does not exist.",
        }
    }

    /// Whether the list of requirements that a capture cannot show has it.
    pub(crate) fn is_listed_with_rules(self) -> bool {
        matches!(self, Neither::Unseen | Neither::Impossible | Neither::Elsewhere)
    }
}

impl Sentence {
    pub(crate) fn has_scenario(&self) -> bool {
        !self.provokes.is_empty() || !self.injects.is_empty()
    }

    pub(crate) fn is_covered(&self) -> bool {
        !self.rules.is_empty() || self.has_scenario()
    }

    /// Whether it only permits something.
    pub(crate) fn is_permission(&self) -> bool {
        self.keywords.split(", ").all(|keyword| matches!(keyword, "MAY" | "OPTIONAL"))
    }
}

macro_rules! specification {
    ($document:ident, $scenario_name:literal, $file:literal, $data:literal, $title:literal) => {{
        let data = include_str!($data);
        let File { sections, sentence, beside } =
            toml::from_str(data).unwrap_or_else(|error| panic!("{}: {error}", $data));
        Specification {
            document: Document::$document,
            scenario_name: $scenario_name,
            file: $file,
            title: $title,
            sections,
            sentences: sentence,
            without_keyword: beside,
        }
    }};
}

/// All specifications of the table.
pub(crate) fn all() -> Vec<Specification> {
    vec![
        specification!(
            Rfc8166,
            "rfc8166",
            "rfc8166.txt",
            "rfc8166.toml",
            "RFC 8166: RPC-over-RDMA version 1"
        ),
        specification!(
            Rfc8167,
            "rfc8167",
            "rfc8167.txt",
            "rfc8167.toml",
            "RFC 8167: calls in both directions of a connection"
        ),
        specification!(
            Rfc8267,
            "rfc8267",
            "rfc8267.txt",
            "rfc8267.toml",
            "RFC 8267: the Upper-Layer Bindings of NFS"
        ),
        specification!(Rfc8797, "rfc8797", "rfc8797.txt", "rfc8797.toml", "RFC 8797: private data"),
        specification!(
            ReliableReply,
            "reliable-reply",
            "draft-reliable-reply.txt",
            "reliable-reply.toml",
            "Reliable-reply draft: Read chunks of the Responder"
        ),
    ]
}
