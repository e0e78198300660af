//! The colours of the screen. Each has a contrast of at least 4.5 against black and against white
//! (WCAG 2.1, level AA), so it can be read on any usual background.
//!
//! Views use the names of colours; [`paint`] replaces them at the end of each drawing.

use crate::state::{Look, Palette};
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

/// A colour.
#[derive(Clone, Copy, Debug)]
pub struct Tone {
    /// Its name in the views.
    pub name: Color,
    /// Red, green and blue on a terminal that shows any colour.
    pub rgb: [u8; 3],
    /// The entry in the palette of 256 colours, of other terminals.
    pub index: u8,
}

const fn tone(name: Color, rgb: [u8; 3], index: u8) -> Tone {
    Tone { name, rgb, index }
}

/// All colours. The palette of 256 has six with enough contrast, so two share one.
pub const TONES: [Tone; 7] = [
    tone(Color::Red, [0xe9, 0x13, 0x13], 163),
    tone(Color::Yellow, [0xa5, 0x68, 0x00], 131),
    tone(Color::Green, [0x00, 0x88, 0x2d], 29),
    tone(Color::Cyan, [0x00, 0x80, 0x9a], 29),
    tone(Color::Blue, [0x0c, 0x72, 0xe7], 63),
    tone(Color::Magenta, [0x90, 0x56, 0xe1], 98),
    tone(Color::DarkGray, [0x75, 0x75, 0x75], 243),
];

impl Tone {
    fn shown(&self, palette: Palette) -> Color {
        let [red, green, blue] = self.rgb;
        match palette {
            Palette::Any => Color::Rgb(red, green, blue),
            Palette::Few => Color::Indexed(self.index),
        }
    }
}

/// Replaces the named colours of a drawing, and dimmed text, by colours with enough contrast. If
/// colours are off, none remain.
pub fn paint(look: Look, buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if !look.colour {
            (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
            continue;
        }
        if cell.modifier.contains(Modifier::DIM) {
            cell.modifier.remove(Modifier::DIM);
            if cell.fg == Color::Reset {
                cell.fg = Color::DarkGray;
            }
        }
        if let Some(tone) = TONES.iter().find(|tone| tone.name == cell.fg) {
            cell.fg = tone.shown(look.palette);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The relative luminance (WCAG 2.1, section 6.2).
    fn luminance(rgb: [u8; 3]) -> f64 {
        let [red, green, blue] = rgb.map(|value| {
            let value = f64::from(value) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    /// The entries of the palette of 256 colours that every terminal defines: a cube, and greys.
    fn of_palette(index: u8) -> [u8; 3] {
        const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
        match index {
            0..16 => panic!("each terminal defines entry {index} itself"),
            16..232 => {
                let place = usize::from(index - 16);
                [place / 36, place / 6 % 6, place % 6].map(|step| STEPS[step])
            }
            232.. => [8 + 10 * (index - 232); 3],
        }
    }

    #[test]
    fn colours_are_readable_on_black_and_on_white() {
        assert!((contrast([0; 3], [255; 3]) - 21.0).abs() < 1e-9);
        // Yellow as most terminals show it.
        assert!(contrast([205, 205, 0], [255; 3]) < 4.5);
        for tone in TONES {
            for shown in [tone.rgb, of_palette(tone.index)] {
                for background in [[0; 3], [255; 3]] {
                    let contrast = contrast(shown, background);
                    assert!(contrast >= 4.5, "{tone:?}: {contrast:.2} on {background:?}");
                }
            }
        }
    }

    #[test]
    fn painting_leaves_only_theme_colours() {
        let area = ratatui::layout::Rect::new(0, 0, 3, 1);
        for palette in [Palette::Any, Palette::Few] {
            let mut buffer = Buffer::empty(area);
            buffer[(0, 0)].fg = Color::Yellow;
            buffer[(1, 0)].modifier = Modifier::DIM;
            paint(Look { colour: true, palette, ..Look::default() }, &mut buffer);
            let shown =
                |name| TONES.iter().find(|tone| tone.name == name).expect("it has one").shown(palette);
            assert_eq!(buffer[(0, 0)].fg, shown(Color::Yellow));
            assert_eq!(
                (buffer[(1, 0)].fg, buffer[(1, 0)].modifier),
                (shown(Color::DarkGray), Modifier::empty())
            );
            assert_eq!(buffer[(2, 0)].fg, Color::Reset);
        }
        let mut plain = Buffer::empty(area);
        plain[(1, 0)].modifier = Modifier::DIM;
        let before = plain.clone();
        plain[(0, 0)].fg = Color::Red;
        paint(Look::default(), &mut plain);
        assert_eq!(plain, before);
    }
}
