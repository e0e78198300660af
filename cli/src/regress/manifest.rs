//! MANIFEST files: the expected files with their digests.
//!
//! The format is TOML, as described in docs/regress.md. Only names and digests are read; the rest
//! is documentation.

use anyhow::{Context as _, Result, bail};
use core::fmt;
use core::ops::Range;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use toml::Spanned;

/// The name of a manifest.
pub(super) const NAME: &str = "MANIFEST";

/// The contents of a manifest.
#[derive(Debug)]
pub(super) struct Manifest {
    /// The folder of the manifest.
    pub(super) folder: PathBuf,
    /// The files of all samples.
    pub(super) files: Vec<(PathBuf, Digest)>,
}

/// A SHA-256 digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digest([u8; 32]);

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    sample: Vec<Sample>,
}

#[derive(Deserialize)]
struct Sample {
    name: Spanned<String>,
    /// By the extension that follows the name in the file name.
    sha256: BTreeMap<String, Spanned<String>>,
}

impl Manifest {
    /// Reads the manifest at `path`. Errors name the line.
    pub(super) fn read(path: &Path) -> Result<Manifest> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let place = |span: Range<usize>| {
            let line = 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
            format!("{}: line {line}", path.display())
        };
        let document: Document = match toml::from_str(&text) {
            Ok(document) => document,
            Err(error) => {
                let place = error.span().map_or_else(|| path.display().to_string(), place);
                // The message may have several lines.
                let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
                bail!("{place}: invalid manifest (see docs/regress.md): {message}");
            }
        };
        if document.sample.is_empty() {
            bail!("{}: the manifest has no [[sample]]", path.display());
        }
        let mut files = Vec::new();
        for Sample { name, sha256 } in &document.sample {
            for (extension, digest) in sha256 {
                let file = PathBuf::from(format!("{}.{extension}", name.get_ref()));
                if !file.components().all(|component| matches!(component, Component::Normal(_))) {
                    bail!("{}: the name must not leave the folder", place(name.span()));
                }
                let Some(digest) = Digest::parsed(digest.get_ref()) else {
                    bail!("{}: a SHA-256 digest has 64 hexadecimal digits", place(digest.span()));
                };
                files.push((folder.join(file), digest));
            }
        }
        Ok(Manifest { folder, files })
    }
}

impl Digest {
    /// The digest of the file at `path`.
    pub(super) fn of(path: &Path) -> Result<Digest> {
        let mut hasher = Sha256::new();
        File::open(path)
            .and_then(|mut file| io::copy(&mut file, &mut hasher))
            .with_context(|| format!("{}: cannot be read", path.display()))?;
        Ok(Digest(hasher.finalize().into()))
    }

    fn parsed(text: &str) -> Option<Digest> {
        let mut digest = [0; 32];
        hex::decode_to_slice(text, &mut digest).ok()?;
        Some(Digest(digest))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}
