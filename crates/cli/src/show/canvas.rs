//! A picture in memory: pixels, lines, text, and the PNG file that it becomes.

use super::colours::Rgb;
use embedded_graphics::Drawable;
use embedded_graphics::Pixel;
use embedded_graphics::draw_target::DrawTarget;
use embedded_graphics::geometry::{OriginDimensions, Point, Size};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle, iso_8859_1};
use embedded_graphics::pixelcolor::{Rgb888, RgbColor};
use embedded_graphics::text::{Alignment, Baseline, Text, TextStyleBuilder};
use std::convert::Infallible;

/// Width and height of a letter.
pub(super) const LETTER: (i32, i32) = (9, 15);

pub(super) const INK: Rgb = [38, 38, 38];
pub(super) const FAINT: Rgb = [226, 226, 226];

/// The position of text relative to its point.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Left,
    Centre,
    Right,
}

pub(super) struct Canvas {
    pub width: i32,
    pub height: i32,
    pixels: Vec<u8>,
}

impl OriginDimensions for Canvas {
    fn size(&self) -> Size {
        Size::new(self.width as u32, self.height as u32)
    }
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = Infallible;
    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        for Pixel(p, c) in pixels {
            self.set(p.x, p.y, [c.r(), c.g(), c.b()]);
        }
        Ok(())
    }
}

impl Canvas {
    /// A white picture.
    pub fn new(width: i32, height: i32) -> Canvas {
        let (width, height) = (width.max(1), height.max(1));
        Canvas { width, height, pixels: vec![255; (width * height * 3) as usize] }
    }

    fn place(&self, x: i32, y: i32) -> Option<usize> {
        ((0..self.width).contains(&x) && (0..self.height).contains(&y)).then(|| ((y * self.width + x) * 3) as usize)
    }

    pub fn set(&mut self, x: i32, y: i32, colour: Rgb) {
        if let Some(i) = self.place(x, y) {
            self.pixels[i..i + 3].copy_from_slice(&colour);
        }
    }

    /// Lays a colour over a pixel. `part` is its opacity, from 0 to 1.
    pub fn blend(&mut self, x: i32, y: i32, colour: Rgb, part: f64) {
        if let Some(i) = self.place(x, y) {
            for (p, c) in self.pixels[i..i + 3].iter_mut().zip(colour) {
                *p = (f64::from(*p) + (f64::from(c) - f64::from(*p)) * part.clamp(0.0, 1.0)).round() as u8;
            }
        }
    }

    pub fn fill(&mut self, x: i32, y: i32, width: i32, height: i32, colour: Rgb) {
        for row in y..y + height {
            for column in x..x + width {
                self.set(column, row, colour);
            }
        }
    }

    /// A frame of one pixel around a box.
    pub fn frame(&mut self, x: i32, y: i32, width: i32, height: i32, colour: Rgb) {
        self.fill(x - 1, y - 1, width + 2, 1, colour);
        self.fill(x - 1, y + height, width + 2, 1, colour);
        self.fill(x - 1, y, 1, height, colour);
        self.fill(x + width, y, 1, height, colour);
    }

    /// A line of about two pixels with smooth edges, inside a box `(x, y, width, height)`.
    pub fn line(&mut self, (x0, y0): (f64, f64), (x1, y1): (f64, f64), colour: Rgb, clip: (i32, i32, i32, i32)) {
        let (dx, dy) = (x1 - x0, y1 - y0);
        let length = dx.hypot(dy);
        let half = 0.9;
        let inside = |v: f64, from: i32, len: i32| (v as i32).clamp(from, from + len - 1);
        let (left, right) = (inside(x0.min(x1) - 2.0, clip.0, clip.2), inside(x0.max(x1) + 2.0, clip.0, clip.2));
        for x in left..=right {
            // For a long line, only the rows near this column.
            let (a, b) = if dx.abs() < 1e-9 {
                (y0.min(y1), y0.max(y1))
            } else {
                let at = |x: f64| y0 + dy * ((x - x0) / dx).clamp(0.0, 1.0);
                let (p, q) = (at(f64::from(x) - 2.0), at(f64::from(x) + 3.0));
                (p.min(q), p.max(q))
            };
            for y in inside(a - 2.0, clip.1, clip.3)..=inside(b + 2.0, clip.1, clip.3) {
                let (px, py) = (f64::from(x) + 0.5 - x0, f64::from(y) + 0.5 - y0);
                let t = if length > 0.0 { ((px * dx + py * dy) / (length * length)).clamp(0.0, 1.0) } else { 0.0 };
                let distance = (px - t * dx).hypot(py - t * dy);
                self.blend(x, y, colour, half + 0.5 - distance);
            }
        }
    }

    fn write(&mut self, text: &str, x: i32, y: i32, place: Place, font: &MonoFont<'_>) {
        // The fonts contain Latin-1. Any other character becomes a question mark.
        let style = MonoTextStyle::new(font, Rgb888::new(INK[0], INK[1], INK[2]));
        let alignment = match place {
            Place::Left => Alignment::Left,
            Place::Centre => Alignment::Center,
            Place::Right => Alignment::Right,
        };
        let how = TextStyleBuilder::new().alignment(alignment).baseline(Baseline::Middle).build();
        let Ok(_) = Text::with_text_style(text, Point::new(x, y), style, how).draw(self);
    }

    /// Text whose middle line is at `y`.
    pub fn text(&mut self, text: &str, x: i32, y: i32, place: Place) {
        self.write(text, x, y, place, &iso_8859_1::FONT_9X15);
    }

    pub fn heading(&mut self, text: &str, x: i32, y: i32) {
        self.write(text, x, y, Place::Left, &iso_8859_1::FONT_9X15_BOLD);
    }

    /// The picture as a PNG file.
    pub fn png(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.pixels)?;
        writer.finish()?;
        Ok(out)
    }
}
