//! The colours: the contrast of every label, and the distances between colours for readers with and
//! without colour blindness.

use moye_draw::{DARK, LIGHT, Palette, Rgb};
use palette::color_difference::Wcag21RelativeContrast;
use palette::{FromColor, LinSrgb, Oklab, Srgb};

fn srgb(colour: Rgb) -> Srgb<f64> {
    Srgb::new(colour.red, colour.green, colour.blue).into_format()
}

fn contrast(a: Rgb, b: Rgb) -> f64 {
    srgb(a).relative_contrast(srgb(b))
}

fn themes() -> [(&'static str, &'static Palette); 2] {
    [("light", &LIGHT), ("dark", &DARK)]
}

/// The views of protanopes, deuteranopes and tritanopes, by Machado, Oliveira and Fernandes (2009),
/// at full severity, in linear light.
const VIEWS: [(&str, [[f64; 3]; 3]); 4] = [
    ("normal vision", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    (
        "protanopia",
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    ),
    (
        "deuteranopia",
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    ),
    (
        "tritanopia",
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ),
];

/// The distance in OKLab of two colours in a view; 0.02 is about the smallest visible difference.
fn distance(a: Rgb, b: Rgb, view: &[[f64; 3]; 3]) -> f64 {
    let seen = |colour: Rgb| {
        let linear: LinSrgb<f64> = srgb(colour).into_linear();
        let [red, green, blue] = view
            .map(|row| (row[0] * linear.red + row[1] * linear.green + row[2] * linear.blue).clamp(0.0, 1.0));
        Oklab::from_color(LinSrgb::new(red, green, blue))
    };
    let (a, b) = (seen(a), seen(b));
    ((a.l - b.l).powi(2) + (a.a - b.a).powi(2) + (a.b - b.b).powi(2)).sqrt()
}

#[test]
fn labels_have_a_contrast_of_at_least_4_5_to_every_cell() {
    for (name, theme) in themes() {
        let cells = theme.categories.iter().chain(&theme.ramp).chain([&theme.page]);
        for cell in cells {
            let contrast = contrast(theme.ink, *cell);
            assert!(contrast >= 4.5, "{name}: ink on #{cell} has {contrast:.2}");
        }
        let muted = contrast(theme.muted, theme.page);
        assert!(muted >= 4.5, "{name}: muted text has {muted:.2}");
        let line = contrast(theme.line, theme.page);
        assert!(line >= 3.0, "{name}: lines between cells have {line:.2}");
        for cell in &theme.categories {
            let corner = contrast(theme.conflict, *cell).max(contrast(theme.ink, *cell));
            assert!(corner >= 3.0, "{name}: a mark on #{cell} has {corner:.2}");
        }
    }
}

#[test]
fn the_32_colours_differ_for_colour_blind_readers_too() {
    for (name, theme) in themes() {
        for (view, matrix) in &VIEWS {
            for i in 0..32 {
                for j in 0..i {
                    let distance = distance(theme.categories[i], theme.categories[j], matrix);
                    assert!(distance >= 0.036, "{name}, {view}: colours {j} and {i} are {distance:.3} apart");
                }
            }
        }
    }
}

#[test]
fn threads_that_stand_side_by_side_differ_clearly_for_colour_blind_readers_too() {
    for (name, theme) in themes() {
        for (view, matrix) in &VIEWS {
            for step in [1, 2, 4, 8, 16] {
                for i in 0..32 {
                    let j = (i + step) % 32;
                    let distance = distance(theme.categories[i], theme.categories[j], matrix);
                    assert!(distance >= 0.095, "{name}, {view}: threads {i} and {j} are {distance:.3} apart");
                }
            }
        }
    }
}

#[test]
fn the_ramp_changes_lightness_by_even_steps() {
    for (name, theme) in themes() {
        let lightness: Vec<f64> =
            theme.ramp.iter().map(|colour| Oklab::from_color(srgb(*colour).into_linear()).l).collect();
        let steps: Vec<f64> = lightness.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = steps.iter().sum::<f64>() / steps.len() as f64;
        assert!(mean.abs() > 0.03, "{name}: steps of {mean:.3}");
        assert!(steps.iter().all(|step| (step - mean).abs() < 0.006), "{name}: {steps:?}");
    }
}
